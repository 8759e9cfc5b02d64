-- The same creation over and over. wrk builds it once, and each request makes a new link.
function init(args)
   wrk.method = "POST"
   wrk.headers["Content-Type"] = "application/json"
   wrk.body = args[1]
end
