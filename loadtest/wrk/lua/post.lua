-- The same creation over and over, which wrk makes once; each is a new link all the same.
function init(args)
   wrk.method = "POST"
   wrk.headers["Content-Type"] = "application/json"
   wrk.body = args[1]
end
