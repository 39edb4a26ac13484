//! Tests of `tollgate.shared`: values that the `Host`s of all threads share.

use std::sync::Arc;
use std::thread;

use tollgate_script::{HostOptions, SharedStore};

use crate::app::App;

#[test]
fn values_are_written_where_they_are_asked_for() {
    let app = App::new();
    let check = |body: &str, expect: &str| assert_eq!(app.text(body), expect, "{body}");
    check("return tostring(tollgate.shared.get('a'))", "nil");
    check("tollgate.shared.set('a', 'text\\0') return tollgate.shared.get('a')", "text\0");
    check("tollgate.shared.set('a', 1.5) return tostring(tollgate.shared.get('a') + 1)", "2.5");
    check("tollgate.shared.set('a', false) return tostring(tollgate.shared.get('a'))", "false");
    check("return tostring(tollgate.shared.add('a', 1))", "false");
    check("return tostring(tollgate.shared.add('b', 1, 60))", "true");
    check("return tostring(tollgate.shared.compare_and_set('b', 2, 3))", "false");
    check("return tostring(tollgate.shared.compare_and_set('b', 1, 3))", "true");
    check("return tostring(tollgate.shared.compare_and_set('c', nil, 'new'))", "true");
    check("return tostring(tollgate.shared.get('b'))", "3");
    check("return tostring(tollgate.shared.incr('n'))", "1");
    check("return tostring(tollgate.shared.incr('n', 2.5))", "3.5");
    check("return tostring(tollgate.shared.incr('m', -1, 10, 60))", "9");
    check(
        "return tostring(tollgate.shared.delete('n')) .. tostring(tollgate.shared.delete('n'))",
        "truefalse",
    );
    check(
        "tollgate.shared.set('t', 1, 0.001) local stop = os.clock() + 0.01 while os.clock() < stop do end
        return tostring(tollgate.shared.get('t'))",
        "nil",
    );
}

#[test]
fn a_wrong_key_value_or_time_is_an_error() {
    let app = App::new();
    let check = |call: &str, expect: &str| {
        let error = app.error(&format!("tollgate.shared.{call} return 200"));
        assert!(error.contains(expect), "{call}: {error}");
    };
    check("get()", "key of tollgate.shared is a nil: allowed is a string");
    check("get(('k'):rep(1025))", "1025 bytes, limit 1024 bytes");
    check("set('a')", "value of tollgate.shared is a nil: allowed are a string, a number, a boolean");
    check("set('a', {})", "value of tollgate.shared is a table");
    check("set('a', 2^60)", "integers up to 2^53");
    check("set('a', 1, 0)", "ttl of tollgate.shared is 0");
    check("set('a', 1, 0/0)", "ttl of tollgate.shared is NaN");
    check("set('a', 1, math.huge)", "ttl of tollgate.shared is inf");
    check("set('a', 1, '60')", "ttl of tollgate.shared is a string");
    check("incr('a', 'b')", "by of tollgate.shared is a string");
    check("incr('a', math.huge)", "2^53 or more");
    check("incr('a', 2^53, 1)", "2^53 or more");
    check("incr('a', 1, 2^53 - 1)", "2^53 or more");
    check("set('a', 'x') tollgate.shared.incr('a')", "not a number");
    check("inc('a')", "no field \"inc\", did you mean \"incr\"?");
    check("get = 1", "readonly");
}

#[test]
fn a_full_store_refuses_and_goes_on() {
    let app = App::with(HostOptions { shared_bytes_max: 10_000, ..HostOptions::default() });
    let error =
        app.error("for i = 1, 100 do tollgate.shared.set(tostring(i), ('x'):rep(100)) end return 200");
    assert!(error.contains("tollgate.shared is full: ") && error.contains("limit 10000 bytes"), "{error}");
    assert_eq!(app.text("return tollgate.shared.get('1')"), "x".repeat(100));
    assert_eq!(app.text("tollgate.shared.set('1', 'y') return tollgate.shared.get('1')"), "y");
    let caught = "return tostring(pcall(tollgate.shared.set, 'more', ('x'):rep(10000)))";
    assert_eq!(app.text(caught), "false");
}

#[test]
fn workers_share_what_hosts_of_later_configurations_find_again() {
    const WORKERS: usize = 4;
    const CALLS: usize = 200;
    let shared = Arc::new(SharedStore::default());
    let app = || App::with(HostOptions { shared: Arc::clone(&shared), ..HostOptions::default() });
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let app = app();
                for _ in 0..CALLS {
                    app.text("return tostring(tollgate.shared.incr('hits', 1, 100))");
                }
            });
        }
    });
    assert_eq!(
        app().text("return tostring(tollgate.shared.get('hits'))"),
        (100 + WORKERS * CALLS).to_string()
    );
    assert!(shared.bytes() > 0);
    assert_eq!(App::new().text("return tostring(tollgate.shared.get('hits'))"), "nil");
}

#[test]
fn a_long_value_is_bounded_by_the_memory_of_who_reads_it() {
    let shared = Arc::new(SharedStore::default());
    let app = |memory_bytes_max| {
        App::with(HostOptions { shared: Arc::clone(&shared), memory_bytes_max, ..HostOptions::default() })
    };
    app(16 << 20).text("tollgate.shared.set('long', ('x'):rep(1000000)) return ''");
    let error = app(256 << 10).error("return tollgate.shared.get('long')");
    assert!(error.contains("memory"), "{error}");
}
