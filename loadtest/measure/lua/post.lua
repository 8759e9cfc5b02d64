-- Sends the same creation repeatedly. wrk builds the request once. Each request creates a new link.
function init(args)
   wrk.method = "POST"
   wrk.headers["Content-Type"] = "application/json"
   wrk.body = args[1]
end
