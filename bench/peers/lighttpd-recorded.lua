local r = lighty.r
local query = r.req_attr["uri.query"] or ""
local x = tonumber(string.match(query, "x=(%d+)")) or 0
if not record then
  record = io.open("@DIR@/record.log", "a")
  record:setvbuf("full", 65536)
end
record:write(os.time(), " ", r.req_attr["request.remote-addr"], " ", query, " 200\n")
r.resp_header["Content-Type"] = "application/json"
r.resp_body:set({ string.format('{"score":%d}', x * 2 + 1) })
return 200
