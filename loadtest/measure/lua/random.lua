-- Requests a random link out of args[1] links. Link i, counted from 0, has the code that is the number
-- i * args[2] in base 62. The seed of the random numbers is args[3]. The constant part of the request is
-- joined once.
local digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
local links, step, tail

function init(args)
   links, step = tonumber(args[1]), tonumber(args[2])
   math.randomseed(tonumber(args[3]))
   tail = " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\n\r\n"
end

function request()
   local n, code = math.random(0, links - 1) * step, ""
   for _ = 1, 6 do
      local digit = n % 62 + 1
      code = digits:sub(digit, digit) .. code
      n = math.floor(n / 62)
   end
   return "GET /" .. code .. tail
end
