local score = (tonumber(ngx.req.get_uri_args().x) or 0) * 2 + 1
ngx.var.score = score
local body = string.format('{"score":%d}', score)
ngx.header.content_type = "application/json"
ngx.header.content_length = #body
ngx.print(body)
