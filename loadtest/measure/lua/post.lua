-- Sends the same creation repeatedly. wrk builds the request once. Each request creates a new link. args: the
-- body, and then names and values of header fields.
function init(args)
   wrk.method = "POST"
   wrk.headers["Content-Type"] = "application/json"
   wrk.body = args[1]
   for i = 2, #args, 2 do
      wrk.headers[args[i]] = args[i + 1]
   end
end
