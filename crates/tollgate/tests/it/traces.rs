//! `traceparent`: accepted if it is valid, created if the request has none, and passed to scripts, columns
//! and log lines.

use crate::program::{App, eventually};

const CONFIG: &str = r#"
[stream.s]
columns = [
  { name = "trace", type = "text", from = "request.trace_id" },
  { name = "trace_uuid", type = "uuid", from = "request.trace_id" },
  { name = "id", type = "uuid", from = "request.id" },
  { name = "span", type = "text", from = "request.span_id" },
  { name = "parent", type = "text", from = "request.parent_span_id" },
]
[[route]]
path = "/"
script = "trace.luau"
stream = "s"
"#;
const SCRIPT: &str = r#"
return function(req)
  if not req.trace then return "none" end
  tollgate.log.info("traced")
  local t = req.trace
  return table.concat({ t.id, t.span, t.parent or "-", t.traceparent, t.tracestate or "-" }, " ")
end
"#;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Returns what the script saw of the trace of a request with these fields.
fn seen(client: &mut crate::client::Client, fields: &str) -> Vec<String> {
    assert!(client.send(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")));
    client.reply().unwrap().content.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_sound_trace_goes_on_with_a_span_of_ours_and_is_in_script_row_and_log_line() {
    let app = App::new(CONFIG, &[("trace.luau", SCRIPT)]);
    let server = app.start();
    let mut client = server.connect();
    let fields = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1\r\nTraceState: b=2\r\n");
    let [id, span, parent, passed, state] = &seen(&mut client, &fields)[..] else { panic!("five texts") };
    assert_eq!((id.as_str(), parent.as_str(), state.as_str()), (TRACE, PARENT, "a=1,b=2"));
    assert!(span.len() == 16 && span != PARENT, "{span}");
    assert_eq!(passed, &format!("00-{TRACE}-{span}-01"));
    let made = seen(&mut client, "traceparent: 00-nonsense\r\ntracestate: a=1\r\n");
    assert!(made[0] != TRACE && made[0].len() == 32, "{made:?}");
    assert_eq!((made[2].as_str(), made[4].as_str()), ("-", "-"));
    assert_eq!(made[3], format!("00-{}-{}-00", made[0], made[1]));
    let twice = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n").repeat(2);
    assert_ne!(seen(&mut client, &twice)[0], TRACE, "of two none counts");
    eventually("all is loaded", || {
        (app.has_table("s") && app.query::<i64>("SELECT count(*) FROM s") == [3]).then_some(())
    });
    let row = "SELECT trace || ' ' || span || ' ' || coalesce(parent, '-') FROM s LIMIT 2";
    let expected = [format!("{TRACE} {span} {PARENT}"), format!("{} {} -", made[0], made[1])];
    assert_eq!(app.query::<String>(row), expected);
    let same = "SELECT count(*) FROM s WHERE trace_uuid = id";
    assert_eq!(app.query::<i64>(same), [2], "a made trace has the id of its request");
    let (_, log) = server.stop();
    let line = log.lines().find(|line| line.contains("\"message\":\"traced\"")).expect(&log);
    assert!(line.contains(&format!("\"trace\":\"{TRACE}\"")), "{line}");
}

#[test]
fn the_setting_says_whose_trace_is_taken_and_whether_one_is_made() {
    for (setting, came, none_came) in
        [("take", true, true), ("trusted", false, true), ("pass", true, false), ("make", false, true)]
    {
        let app = App::new(&format!("trace = \"{setting}\"\n{CONFIG}"), &[("trace.luau", SCRIPT)]);
        let server = app.start();
        let mut client = server.connect();
        let taken = seen(&mut client, &format!("traceparent: 00-{TRACE}-{PARENT}-00\r\n"));
        assert_eq!(taken[0] == TRACE, came, "{setting}: {taken:?}");
        assert_eq!(seen(&mut client, "")[0] != "none", none_came, "{setting}");
        server.stop();
    }
    let app = App::new(&format!("trace = \"off\"\n{CONFIG}"), &[("trace.luau", SCRIPT)]);
    let server = app.start();
    assert_eq!(seen(&mut server.connect(), &format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n")), ["none"]);
    server.stop();
}
