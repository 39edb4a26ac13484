//! `tollgate test`: a clock that tests stop and move.

use crate::program::{App, printed};

const CONFIG: &str = r#"
[stream.all]
columns = [{ name = "at", type = "timestamp", from = "request.time" }, { name = "n", type = "int", from = "record.n" }]
[backend.slow]
urls = ["http://127.0.0.1:9"]
[[route]]
path = "/now"
script = "now.luau"
stream = "all"
[[route]]
path = "/once"
script = "once.luau"
[[route]]
path = "/ask"
script = "ask.luau"
"#;

const NOW: &str = r#"
return function(req)
  local began = { us = tollgate.time.monotonic_us(), clock = os.clock() }
  if req.query.wait then tollgate.sleep(tonumber(req.query.wait)) end
  return {
    json = {
      us = tollgate.time.now_us(),
      request_us = req.time,
      os = os.time(),
      year = os.date("!%Y"),
      date = os.date("!*t").year,
      fixed = os.date("!%Y", 0),
      of_table = os.time{ year = 2001, month = 9, day = 9, hour = 1, min = 46, sec = 40 },
      uuid = tollgate.uuid.v7(),
      passed_us = tollgate.time.monotonic_us() - began.us,
      clock_ms = math.round((os.clock() - began.clock) * 1000),
    },
    record = { n = 1 },
    last_modified = tollgate.time.now_us(),
  }
end
"#;

const ONCE: &str = r#"
return function()
  return if tollgate.shared.add("token", true, 60) then 200 else 429
end
"#;

const ASK: &str = r#"
return function()
  local began = tollgate.time.now_us()
  local replies = tollgate.fetch_all{ { backend = "slow", path = "/5" }, { backend = "slow", path = "/1" } }
  return { json = { replies[1].body, replies[2].body, tollgate.time.now_us() - began } }
end
"#;

/// Runs the tests of an app, which must all pass.
fn check(tests: &str) {
    let scripts = [("now.luau", NOW), ("once.luau", ONCE), ("ask.luau", ASK), ("tests/all.luau", tests)];
    let app = App::new(CONFIG, &scripts);
    let output = app.run(&["test"]);
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn a_clock_that_is_stopped_is_what_scripts_and_tests_see() {
    check(
        r#"
return {
  ["all clocks are one"] = function(t)
    t:clock("2031-05-06T07:08:09.5Z")
    local us = tollgate.time.parse("2031-05-06T07:08:09.5Z")
    t.equal({ tollgate.time.now_us(), os.time(), os.date("!%Y") }, { us, us // 1000000, "2031" })
    local reply = t:request{ path = "/now" }
    local seen = reply.json
    t.equal({ seen.us, seen.request_us, seen.os, seen.year, seen.date }, { us, us, us // 1000000, "2031", 2031 })
    t.equal({ seen.fixed, seen.of_table }, { "1970", 1000000000 })
    t.equal({ seen.passed_us, seen.clock_ms }, { 0, 0 })
    t.equal(reply.headers["last-modified"], "Tue, 06 May 2031 07:08:09 GMT")
    local millis = tonumber((string.gsub(string.sub(seen.uuid, 1, 13), "-", "")), 16)
    t.equal(millis, us // 1000)
  end,
  ["it takes microseconds and moves as it is told"] = function(t)
    t:clock(0)
    local before = tollgate.time.monotonic_us()
    t:advance(0.25)
    t.equal(tollgate.time.now_us(), 250000)
    t.equal(tollgate.time.monotonic_us() - before, 250000)
    t:advance(86400 * 365)
    t.equal(os.date("!%Y"), "1971")
    t:clock(7)
    t.equal({ tollgate.time.now_us(), tollgate.time.monotonic_us() - before }, { 7, 250000 + 86400 * 365 * 1000000 })
  end,
  ["each test begins with the clock of the system"] = function(t)
    assert(os.time() > 1700000000)
    local before = tollgate.time.monotonic_us()
    repeat until tollgate.time.monotonic_us() > before
    t:advance(0)
    local at = tollgate.time.now_us()
    for _ = 1, 100 do t:request{ path = "/now" } end
    t.equal(tollgate.time.now_us(), at)
  end,
}
"#,
    );
}

#[test]
fn sleep_returns_at_once_and_moves_a_stopped_clock() {
    check(
        r#"
return {
  ["a day passes in a handler, and in a test"] = function(t)
    t:clock("2030-01-01T00:00:00Z")
    local seen = t:request{ path = "/now?wait=86400" }.json
    t.equal({ seen.passed_us, seen.clock_ms, seen.us - seen.request_us }, { 86400e6, 86400e3, 86400e6 })
    tollgate.sleep(1)
    t.equal(tollgate.time.now_us() - seen.us, 1e6)
  end,
  ["sleeps side by side pass side by side"] = function(t)
    t:clock("2030-01-01T00:00:00Z")
    local began = tollgate.time.now_us()
    t:backend("slow", function(req)
      local seconds = tonumber(string.sub(req.path, 2)) * 10000
      tollgate.sleep(seconds)
      assert(tollgate.time.now_us() == began + seconds * 1e6)
      return `woke {seconds} {req.time - began}`
    end)
    t.equal(t:request{ path = "/ask" }.json, { "woke 50000 0", "woke 10000 0", 50000e6 })
  end,
}
"#,
    );
}

#[test]
fn shared_values_expire_by_the_clock_of_the_test() {
    check(
        r#"
return {
  ["what expires does"] = function(t)
    t:advance(0)
    t.equal(t:request{ path = "/once" }.status, 200)
    t:advance(59.9)
    t.equal(t:request{ path = "/once" }.status, 429)
    assert(tollgate.shared.get("token"))
    t:clock("2040-01-01T00:00:00Z") -- a clock that is set lets no time pass
    t.equal(t:request{ path = "/once" }.status, 429)
    t:advance(0.1)
    t.equal(tollgate.shared.get("token"), nil)
    t.equal(t:request{ path = "/once" }.status, 200)
  end,
}
"#,
    );
}

#[test]
fn a_wrong_time_of_a_test_is_reported() {
    check(
        r#"
local function refused(f, ...)
  local ok, problem = pcall(f, ...)
  assert(not ok)
  return tostring(problem)
end
return {
  ["wrong arguments"] = function(t)
    t.equal(refused(t.clock, t, "soon"), 't:clock: "soon" is neither a time of RFC 3339 nor an HTTP date')
    for _, value in { -1, 0.5, 1e18, 0 / 0, true } do
      assert(string.find(refused(t.clock, t, value), "^t:clock: the time is .*: allowed are a time as text, or whole microseconds"), value)
    end
    for _, value in { -1, 1e12, 0 / 0, "1" } do
      assert(string.find(refused(t.advance, t, value), "^t:advance: the time is .*: allowed are seconds from 0"), value)
    end
  end,
}
"#,
    );
}
