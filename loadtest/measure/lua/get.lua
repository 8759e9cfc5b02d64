-- Sends the same request repeatedly. wrk builds the request once. args: names and values of header fields.
function init(args)
   for i = 1, #args, 2 do
      wrk.headers[args[i]] = args[i + 1]
   end
end
