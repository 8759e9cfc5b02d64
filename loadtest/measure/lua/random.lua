-- Requests a random link out of args[1] links. The numbers of neighbouring codes differ by args[2]. The seed
-- is args[3]. The constant parts of the request are joined once.
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
