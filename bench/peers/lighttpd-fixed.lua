local r = lighty.r
r.resp_header["Content-Type"] = "text/plain"
r.resp_body:set({ "hello, world\n" })
return 200
