-- Arguments: connections, pipeline depth, and a file with the body to POST. Prints the results as JSON for
-- the bench.
setup = function(made)
  thread = made
end

init = function(args)
  connections, depth = tonumber(args[1]), tonumber(args[2])
  if args[3] then
    local file = assert(io.open(args[3], "rb"))
    wrk.method, wrk.body = "POST", file:read("*a")
    file:close()
  end
  local one = wrk.format()
  local all = string.rep(one, depth)
  request = function() return all end
end

-- wrk adds samples for the requests that a slow reply delayed. It computes them as if a connection had one
-- request at a time. For a pipeline, these are far too many samples, and percentiles become 0. This function
-- removes the added samples. It begins with the longest latency, because wrk adds only shorter ones.
local function percentile_of_pipelines(summary, latency, connections)
  local turns = math.floor(summary.requests / connections)
  local turn_us = turns > 0 and math.floor(summary.duration / turns) or math.huge
  local counts, values, total = {}, {}, 0
  for i = 1, #latency do
    local value, count = latency(i)
    values[i], counts[value] = value, count
  end
  for i = #values, 1, -1 do
    local count = counts[values[i]]
    total = total + count
    local added = values[i] - turn_us
    while count > 0 and added > turn_us do
      counts[added] = (counts[added] or 0) - count
      added = added - turn_us
    end
  end
  return function(percent)
    local seen = 0
    for _, value in ipairs(values) do
      seen = seen + counts[value]
      if seen >= total * percent / 100 then return value end
    end
    return 0
  end
end

done = function(summary, latency)
  local percentile = function(percent) return latency:percentile(percent) end
  if thread:get("depth") > 1 then
    percentile = percentile_of_pipelines(summary, latency, thread:get("connections"))
  end
  local errors = summary.errors
  print(string.format(
    'RESULT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"p999_us":%d,"errors":%d}',
    summary.requests, summary.duration, percentile(50), percentile(99), percentile(99.9),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
