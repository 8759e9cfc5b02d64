-- golink's client chooses the code, so each request has another one: args are a prefix for
-- them and the URL.
local n = 0
local prefix, target

function init(args)
   prefix, target = args[1], args[2]
   wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
   wrk.headers["Sec-Golink"] = "1"
end

function request()
   n = n + 1
   return wrk.format("POST", nil, nil, "short=" .. prefix .. n .. "&long=" .. target)
end
