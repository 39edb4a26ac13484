-- Delays the first request of each connection by a random part of a period, so that requests arrive evenly.
-- Arguments: connections, and milliseconds of a reply (the period). Prints the results as JSON for the bench.
setup = function(made) thread = made end

init = function(args)
  left, period = tonumber(args[1]), tonumber(args[2])
  math.randomseed(7)
end

delay = function()
  if left <= 0 then return 0 end
  left = left - 1
  return math.random(0, period)
end

done = function(summary, latency)
  local errors = summary.errors
  print(string.format(
    'RESULT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"p999_us":%d,"errors":%d}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
