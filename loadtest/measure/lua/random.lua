-- Requests random links. args[1] is a file that holds the codes of all links one after the other.
-- args[2] is the length of a code, and args[3] is the seed of the random numbers. The constant part of
-- the request is joined once.
local codes, length, links, tail

function init(args)
   local file = assert(io.open(args[1], "rb"))
   codes = file:read("*a")
   file:close()
   length = tonumber(args[2])
   links = #codes / length
   math.randomseed(tonumber(args[3]))
   tail = " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\n\r\n"
end

function request()
   local first = math.random(0, links - 1) * length + 1
   return "GET /" .. codes:sub(first, first + length - 1) .. tail
end
