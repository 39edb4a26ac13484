-- Records the body unchanged, without parsing or checking it.
ngx.req.read_body()
local _, lines = string.gsub(ngx.req.get_body_data() or "", "\n", "\n")
local body = string.format('{"recorded":%d}\n', math.max(lines, 1))
ngx.header.content_type = "application/json"
ngx.header.content_length = #body
ngx.print(body)
