-- Arguments: pipeline depth, and a file with the body to POST. Prints what the bench reads, as JSON.
init = function(args)
  local depth = tonumber(args[1] or "1")
  if args[2] then
    local file = assert(io.open(args[2], "rb"))
    wrk.method, wrk.body = "POST", file:read("*a")
    file:close()
  end
  local one = wrk.format()
  local all = string.rep(one, depth)
  request = function() return all end
end

done = function(summary, latency)
  local errors = summary.errors
  print(string.format(
    'RESULT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"p999_us":%d,"errors":%d}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
