-- Sends a creation of a new URL each time. The URL consists of args[1] and a number of ten digits that counts
-- from 0. The constant parts of the request are joined once.
local head, tail, n

function init(args)
   local body = '{"url":"' .. args[1]
   local length = #body + 10 + 2
   head = "POST " .. wrk.path .. " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] ..
      "\r\nContent-Type: application/json\r\nContent-Length: " .. length .. "\r\n\r\n" .. body
   tail = '"}'
   n = 0
end

function request()
   n = n + 1
   return head .. string.format("%010d", n - 1) .. tail
end
