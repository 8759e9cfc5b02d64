-- Sends a request with a new name each time. args: the method, the media type, and the texts of the body
-- before and after the name. The name consists of args[5] and a number that counts from 0.
local n, before, after

function init(args)
   wrk.method = args[1]
   wrk.headers["Content-Type"] = args[2]
   wrk.headers["Sec-Golink"] = "1"
   before, after = args[3] .. args[5], args[4]
   n = 0
end

function request()
   n = n + 1
   return wrk.format(nil, nil, nil, before .. (n - 1) .. after)
end
