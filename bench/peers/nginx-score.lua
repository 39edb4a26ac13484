local x = tonumber(ngx.req.get_uri_args().x) or 0
local body = string.format('{"score":%d}', x * 2 + 1)
ngx.header.content_type = "application/json"
ngx.header.content_length = #body
ngx.print(body)
