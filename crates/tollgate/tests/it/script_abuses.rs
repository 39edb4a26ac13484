//! Scripts that misbehave: each gets one 500 and one log line with a traceback, and other requests are not
//! affected.

use std::fmt::Write;

use serde_json::Value;

use crate::program::App;

/// The error of a call that used its whole processor budget.
const CPU: &str = "cpu budget";
const MEMORY: &str = "exceeds its memory";

/// Abuses: the name, the text in the log, and the body of the handler.
const ABUSES: [(&str, &str, &str); 35] = [
    ("loop", CPU, "while true do end"),
    ("pcall", CPU, "while true do pcall(function() while true do end end) end"),
    ("coroutine", CPU, "while true do coroutine.wrap(function() while true do end end)() end"),
    ("metamethod", CPU, "return setmetatable({}, { __index = function() while true do end end }).x"),
    ("comparator", CPU, "table.sort({ 3, 1, 2 }, function() while true do end end)"),
    ("callback", CPU, "string.gsub('x', 'x', function() while true do end end)"),
    ("find", CPU, "return string.find(('a'):rep(10000), ('a*'):rep(30) .. 'b')"),
    ("match", CPU, "return string.match(('a'):rep(3000), '.-.-.-.-b$')"),
    ("captures", CPU, "return string.match(('a'):rep(3000), ('(a*)'):rep(30) .. 'b')"),
    ("gmatch", CPU, "for _ in string.gmatch(('a'):rep(10000), ('a*'):rep(20) .. 'b') do end"),
    (
        "shift",
        CPU,
        "local t = table.create(500000, 1) while true do table.insert(t, 1, 1) table.remove(t) end",
    ),
    ("tables", MEMORY, "local t = {} while true do t[#t + 1] = {} end"),
    ("double", MEMORY, "local s = 'x' while true do s = s .. s end"),
    ("rep", MEMORY, "return string.rep('x', 2^30)"),
    ("create", MEMORY, "return table.create(2^26, 1)"),
    ("buffer", MEMORY, "return buffer.create(2^29)"),
    ("concat", MEMORY, "return table.concat(table.create(1000, ('x'):rep(100000)))"),
    ("replacement", MEMORY, "return string.gsub(('x'):rep(10000), 'x', ('y'):rep(100000))"),
    ("split", MEMORY, "return string.split(('x'):rep(8000000), '')"),
    (
        "sleepers",
        MEMORY,
        "local t = {} while true do table.insert(t, coroutine.create(function() coroutine.yield() end)) end",
    ),
    ("recursion", "stack overflow", "local function f(n) return 1 + f(n + 1) end return f(1)"),
    (
        "index",
        "overflow",
        "local t = {} setmetatable(t, { __index = function(_, k) return t[k .. 'x'] end }) return t.x",
    ),
    ("chain", "loop", "local t = {} setmetatable(t, { __index = t }) t.y = t return t.x.x"),
    (
        "tostring",
        "overflow",
        "return tostring(setmetatable({}, { __tostring = function(t) return tostring(t) end }))",
    ),
    ("nested", "overflow", "local function f() return coroutine.wrap(f)() end return f()"),
    ("handlers", "", "error(select(2, xpcall(error, function(e) error(e) end, 'x')))"),
    ("message", "xxx", "error(('x'):rep(8000000))"),
    ("thrown", CPU, "error(setmetatable({}, { __tostring = function() while true do end end }))"),
    (
        "order",
        "invalid order function",
        "local t = {} for i = 1, 1000 do t[i] = i % 7 end table.sort(t, function() return true end)",
    ),
    ("unpack", MEMORY, "return { table.unpack(table.create(500000, 1)) }"),
    ("cycle", "", "local t = {} t.t = t return { json = t }"),
    ("nesting", "", "local value, problem = tollgate.json.decode(('['):rep(1000000)) error(problem)"),
    ("wide", "", "local t = {} for i = 1, 60 do t = { t, t } end return tollgate.json.encode(t)"),
    ("yield", "coroutine.yield", "coroutine.yield() return 204"),
    ("headers", "", "return { headers = table.create(100000, 'x') }"),
];

#[test]
fn each_abuse_is_one_500_and_one_line_with_a_traceback_and_the_neighbour_is_served() {
    // With this budget, a script can fill its memory before its time is over, even in an unoptimized build.
    // `queue_age_max` is long, so that a worker on a busy machine refuses no request.
    let mut config = "workers = 1\nqueue_age_max = \"1m\"\n[script]\ncpu_budget = \"500ms\"\n".to_owned();
    let sources: Vec<_> = ABUSES.iter().map(|(name, _, body)| source(name, body)).collect();
    let mut scripts = vec![("fine.luau", "return function() return 'fine' end")];
    scripts.extend(sources.iter().map(|(name, source)| (name.as_str(), source.as_str())));
    for (name, _) in &scripts {
        let path = name.trim_end_matches(".luau");
        writeln!(config, "[[route]]\npath = \"/{path}\"\nscript = \"{name}\"").unwrap();
    }
    let app = App::new(&config, &scripts);
    let server = app.start();
    let (mut abuser, mut neighbour) = (server.connect(), server.connect());
    for (name, _, _) in ABUSES {
        // Another client sends requests during the abuse and after it.
        assert!(abuser.send(&format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n")));
        assert_eq!(neighbour.get("/fine").unwrap().content, "fine", "beside {name}");
        let reply = abuser.reply().unwrap_or_else(|| panic!("{name} took the connection"));
        assert_eq!((reply.status, reply.content.as_str()), (500, "the script failed\n"), "{name}");
        assert_eq!(neighbour.get("/fine").unwrap().content, "fine", "after {name}");
        assert_eq!(abuser.get("/fine").unwrap().content, "fine", "after {name}");
    }
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut wrong = Vec::new();
    for (name, reason, _) in ABUSES {
        let route = format!("/{name}");
        let told: Vec<_> = lines.iter().filter(|line| line["route"] == route.as_str()).collect();
        let [line] = told[..] else { panic!("{name}: {told:?}") };
        let text = line["message"].as_str().unwrap();
        let has_place = text.contains(&format!("{name}.luau:")) || text.contains("no valid reply");
        let is_bounded = text.len() < 20_000;
        if !(text.starts_with("script failed: ") && text.contains(reason) && has_place && is_bounded) {
            wrong.push(format!("{name}: {} bytes: {}", text.len(), &text[..text.floor_char_boundary(500)]));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

fn source(name: &str, body: &str) -> (String, String) {
    (format!("{name}.luau"), format!("return function(req)\n{body}\nend"))
}

#[test]
fn an_abuse_after_the_head_breaks_its_own_stream_only() {
    let stream = "return function(req)
            return { write = function(out)
                out:write('begun')
                tollgate.sleep(0)
                if req.params.how == 'loop' then while true do end end
                local t = {} while true do t[#t + 1] = {} end
            end }
        end";
    let config = "workers = 1\n[script]\ncpu_budget = \"500ms\"\n\
        [[route]]\npath = \"/fine\"\nreply = { body = \"fine\" }\n\
        [[route]]\npath = \"/stream/{how}\"\nscript = \"stream.luau\"\n";
    let app = App::new(config, &[("stream.luau", stream)]);
    let server = app.start();
    for how in ["loop", "bomb"] {
        let (mut abuser, mut neighbour) = (server.connect(), server.connect());
        assert!(abuser.send(&format!("GET /stream/{how} HTTP/1.1\r\nHost: a\r\n\r\n")));
        assert_eq!(abuser.head().unwrap().status, 200);
        assert_eq!(neighbour.get("/fine").unwrap().content, "fine");
        assert_eq!(abuser.bytes(10).unwrap(), b"5\r\nbegun\r\n", "{how}");
        assert!(abuser.ends(), "{how}");
    }
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    assert_eq!(log.matches("script failed after its reply began").count(), 2, "{log}");
    assert!(log.matches("stream.luau:").count() >= 2, "{log}");
}
