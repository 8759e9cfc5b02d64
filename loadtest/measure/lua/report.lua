-- Wrk.script appends this file to every script. It writes all figures on one line.
function done(summary)
   local e = summary.errors
   io.write(string.format('\n{"requests":%d,"micros":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d}\n',
      summary.requests, summary.duration, e.connect, e.read, e.write, e.timeout, e.status))
end
