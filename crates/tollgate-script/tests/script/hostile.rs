use std::time::{Duration, Instant};
use tollgate_script::{CallError, HostOptions, Step};
use crate::app::{App, finish, get, handler_of, text, fields};

#[test]
fn h1_many_nils() {
    let app = App::new();
    for n in [10, 500, 520, 525, 530, 540, 1000, 7000, 100_000, 999_000, 999_900, 999_990, 999_995,999_998] {
        let r = app.run(&format!("local t = 1 for i = 1, 120 do t = {{t}} end return {{ json = t }}, table.unpack({{}}, 1, {n})"));
        println!("{n}: {:?}", r.map(|o| o.body.len()));
    }
    assert_eq!(app.text("return 'alive'"), "alive");
}

#[test]
fn h2_nested_errors() {
    let app = App::new();
    let handler = app.handler("local e = 'x' return function(req)
        if req.query.stop then e = nil return 'done' end
        local o = setmetatable({}, { __tostring = function() error(e) end })
        local n = 0
        local stop = os.clock() + 0.03
        while os.clock() < stop do local ok ok, e = pcall(print, o) n += 1 end
        return tostring(n)
    end");
    for i in 0..200 {
        let r = finish(handler.call(get("/")));
        if i % 50 == 0 { println!("{i}: {:?}", r.map(|o| text(&o))); }
    }
    println!("{:?}", finish(handler.call(get("/?stop=1"))).map(|o| text(&o)));
    assert_eq!(app.text("return 'alive'"), "alive");
    // collect
    let _ = app.run("local t = {} while true do t[#t+1] = {} end");
}

#[test]
fn h3_headers_hang() {
    let app = App::new();
    let begin = Instant::now();
    let r = app.run("local big = table.create(400000) local h = {} for i = 1, 20000 do h['h'..i] = big end return { headers = h }");
    println!("{:?} {:?}", r.map(|o| o.headers.len()), begin.elapsed());
}

#[test]
fn h4_encode_memory() {
    let app = App::new();
    let r = app.run("local t = table.create(1000) local s = { ('x'):rep(1000000), 1 } for i = 1, 1000 do s[2] = i t[i] = tollgate.json.encode(s) end return 'ok'");
    println!("{:?}", r.map(|o| text(&o)));
    let r = app.run("local keep = table.create(100000) local n = 0 local stop = os.clock() + 0.04
      local s = { ('x'):rep(1000000), 1 } local enc = tollgate.json.encode
      pcall(function() for i = 1, 100000 do s[2] = i keep[i] = enc(s) n = i if os.clock() > stop then break end end end)
      return tostring(n)");
    println!("{:?}", r.map(|o| text(&o)));
}

#[test]
fn h5_query_all_memory() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(5), ..HostOptions::default() });
    let q = "a&".repeat(2000);
    let h = app.handler(&handler_of("local keep = table.create(100000) local n = 0
      local all = req.all
      local ok, e = pcall(function() for i = 1, 100000 do keep[i] = all(req, 'query', 'a') n = i end end)
      local ok2, e2 = pcall(function() return {} end)
      return tostring(n) .. tostring(#keep[1]) .. tostring(e)"));
    println!("{:?}", finish(h.call(get(&format!("/?{q}")))).map(|o| text(&o)));
}

#[test]
fn h6_memory_in_index() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(20), ..HostOptions::default() });
    let q: String = (0..300).map(|i| format!("name{i}=value{i}&")).collect();
    let h = app.handler("
        local kept
        local hog = table.create(100000)
        local name = ''
        local function touch(req) local _ = req[name] end
        return function(req)
          kept = req
          local n = 0
          for _, first in { 'query', 'headers', 'params' } do
          name = first
          local left = tonumber(req.path_info) or 0
          local l = req:body() left = tonumber(l)
          local size = 8000000
          while size >= left do local ok, v = pcall(buffer.create, size) if ok then n += 1 hog[n] = v else size = size // 2 end end
          local before = table.isfrozen(req)
          local ok = pcall(touch, req)
          local frozen = table.isfrozen(req)
          local again = pcall(touch, req)
          if not frozen or not before then table.clear(hog) return 202 end
          if not ok then table.clear(hog) return 201 end
          end
          table.clear(hog)
          return 200
        end");
    let mut counts = std::collections::BTreeMap::new();
    for left in (16..200).chain((200..60_000).step_by(97)) {
        let r = finish(h.call(crate::app::request(&format!("GET /?{q} HTTP/1.1\r\nHost: test\r\n\r\n"), left.to_string().as_bytes())));
        *counts.entry(match r { Ok(o) => o.status.to_string(), Err(e) => e.to_string() }).or_insert(0) += 1;
        assert_eq!(app.text("return 'alive'"), "alive");
        assert_eq!(finish(app.handler(&handler_of("return req.query.x")).call(get("/?x=1"))).map(|o| text(&o)).unwrap(), "1");
    }
    println!("{counts:?}");
}

#[test]
fn h7_kept_req_after_error() {
    let app = App::new();
    let handler = app.handler("local kept return function(req) if not kept then kept = req local _ = req.query error('x') end return tostring(kept.query.x) end");
    let _ = finish(handler.call(get("/?x=first")));
    println!("{:?}", finish(handler.call(get("/?x=second"))).map(|o| text(&o)));
}

#[test]
fn h8_ref_panic() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(50), ..HostOptions::default() });
    for n in 0..400 {
        let body = format!("
          local hog = {{}}
          local o = setmetatable({{}}, {{ __tostring = function()
              local size = 8000000
              while size >= 16 do local ok, v = pcall(buffer.create, size) if ok then hog[#hog + 1] = v else size = size // 2 end end
              local stop = os.clock() + 0.005
              while os.clock() < stop do end
              return 'x' end }})
          local args = table.create({n}, {{}})
          print(o, table.unpack(args))
          return 'fine'");
        let r = app.run(&body);
        if let Err(e) = r { let e = e.to_string(); println!("{n}: {}", e); }
    }
    assert_eq!(app.text("return 'alive'"), "alive");
}

#[test]
fn h9_panic_in_interrupt() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(50), ..HostOptions::default() });
    for n in 0..300 {
        let body = format!("
          local hog = table.create(1000000)
          local function deep(n)
              if n > 0 then return (deep(n - 1)) end
              local size = 8000000
              while size >= 16 do local ok, v = pcall(buffer.create, size) if ok then hog[#hog + 1] = v else size = size // 2 end end
              local stop = os.clock() + 0.005
              while os.clock() < stop do end
              return 'x'
          end
          return deep({n})");
        let r = app.run(&body);
        if let Err(e) = r { let e = e.to_string(); if !e.contains("exceeds its memory") { println!("{n}: {}", e); } }
    }
    assert_eq!(app.text("return 'alive'"), "alive");
}

#[test]
fn h10_panic_in_require() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(50), ..HostOptions::default() });
    app.file("lib.luau", "error('x')");
    for n in 0..600 {
        let body = format!("
          local o = setmetatable({{}}, {{ __tostring = function()
              local hog = table.create(10000)
              local size = 8000000
              while size >= 2000 do local ok, v = pcall(buffer.create, size) if ok then hog[#hog + 1] = v else size = size // 2 end end
              local ok, e = pcall(require, 'lib')
              hog = nil
              return tostring(e) end }})
          local args = table.create({n}, {{}})
          print(o, table.unpack(args))
          return 'fine'");
        let r = app.run(&body);
        if let Err(e) = r { let e = e.to_string(); println!("{n}: {}", e); }
    }
    assert_eq!(app.text("return 'alive'"), "alive");
}
