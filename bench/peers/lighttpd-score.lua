local r = lighty.r
local x = tonumber(string.match(r.req_attr["uri.query"] or "", "x=(%d+)")) or 0
r.resp_header["Content-Type"] = "application/json"
r.resp_body:set({ string.format('{"score":%d}', x * 2 + 1) })
return 200
