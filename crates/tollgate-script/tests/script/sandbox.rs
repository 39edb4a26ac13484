//! Tests of the sandbox: parts of the process that a script cannot reach, write or end.

use std::thread;
use std::time::Duration;

use tollgate_script::{HostOptions, RecordFields, Step};

use crate::app::{App, finish, get, text};

#[test]
fn the_doors_to_the_system_are_not_there() {
    let app = App::new();
    for name in [
        "io",
        "debug",
        "package",
        "loadstring",
        "load",
        "dofile",
        "loadfile",
        "getfenv",
        "setfenv",
        "newproxy",
        "collectgarbage",
        "os.execute",
        "os.getenv",
        "os.exit",
        "os.remove",
        "os.rename",
        "os.tmpname",
        "string.dump",
    ] {
        assert_eq!(app.text(&format!("return tostring({name})")), "nil", "{name}");
    }
    assert_eq!(app.text("return type(os.time() + os.clock()) .. type(os.date())"), "numberstring");
}

#[test]
fn nothing_shared_can_be_written() {
    let app = App::new();
    for body in [
        "string.rep = 1",
        "tollgate.json = 1",
        "tollgate.json.encode = 1",
        "tollgate.log.info = 1",
        "_G.x = 1",
        "getmetatable('').__index = 1",
        "getmetatable(req).__index = 1",
        "setmetatable(req, nil)",
        "rawset(req, 'x', 1)",
        "table.insert(string, 1)",
        "forgotten = 1",
    ] {
        let error = app.error(body);
        assert!(error.contains("main.luau:2") || error.contains("attempt"), "{body}: {error}");
    }
    assert_eq!(app.text("return ('x'):rep(3)"), "xxx");
}

#[test]
fn each_script_has_globals_of_its_own_which_close_after_loading() {
    let app = App::new();
    app.file("lib.luau", "mine = 'lib' return function() return tostring(mine) end");
    let first =
        app.handler("mine = 'first' local lib = require('lib') return function() return mine .. lib() end");
    let second = app.handler("return function() return tostring(mine) end");
    assert_eq!(text(&finish(first.call(get("/"))).unwrap()), "firstlib");
    assert_eq!(text(&finish(second.call(get("/"))).unwrap()), "nil");
}

#[test]
fn print_and_log_take_any_value() {
    let app = App::new();
    assert_eq!(
        app.text("print(1, nil, {}, print) tollgate.log.warn('x') tollgate.log.debug() return 'ok'"),
        "ok"
    );
    assert!(
        app.error("print(setmetatable({}, { __tostring = function() error('in print') end }))")
            .contains("in print")
    );
}

#[test]
fn a_coroutine_of_a_call_that_was_kept_harms_no_other() {
    let app = App::new();
    let handler = app.handler(
        "local kept return function(req)
            if kept then return tostring((coroutine.resume(kept))) end
            kept = coroutine.running()
            return 'kept'
        end",
    );
    assert_eq!(text(&finish(handler.call(get("/"))).unwrap()), "kept");
    for _ in 0..3 {
        assert_eq!(text(&finish(handler.call(get("/"))).unwrap()), "false");
    }
}

#[test]
fn a_call_that_another_one_would_resume_between_two_slices_goes_on_by_itself() {
    let app = App::new();
    let source = "local kept return function(req)
            if kept then return tostring((coroutine.resume(kept))) end
            kept = coroutine.running()
            local stop = os.clock() + 0.02 while os.clock() < stop do end
            return 'mine'
        end";
    let handler = app.handler(source);
    let mut first = handler.call(get("/"));
    assert!(matches!(first.resume(), Step::Sliced));
    assert_eq!(text(&finish(handler.call(get("/"))).unwrap()), "false");
    assert_eq!(text(&finish(first).unwrap()), "mine");
    assert_eq!(app.text("return 'alive'"), "alive");
}

#[test]
fn thousands_of_arguments_are_taken_or_refused() {
    let app = App::new();
    for count in [1000, 7900, 1_000_000] {
        for call in [
            "print",
            "tollgate.log.info",
            "tollgate.json.encode",
            "tollgate.json.array",
            "req.body",
            "require",
        ] {
            let _ = app.run(&format!("{call}(table.unpack(table.create({count}, {{}}))) return 200"));
            let nested = format!("table.unpack(table.create({count}, 'x'))");
            let _ = app.run(&format!("return {{ body = {call}({nested}), headers = {{ {nested} }} }}"));
        }
        let _ = app.run(&format!("return table.unpack(table.create({count}, {{}}))"));
        let _ = app.run(&format!("coroutine.yield(table.unpack(table.create({count}, {{}})))"));
    }
    assert_eq!(app.text("return 'alive'"), "alive");
}

#[test]
fn coroutines_of_a_script_work() {
    let app = App::new();
    let body = "local next = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)
        return `{next()}{next()}{next()}`";
    assert_eq!(app.text(body), "123");
    let body = "local co = coroutine.create(function(a, b) return a + coroutine.yield(b) end)
        local _, b = coroutine.resume(co, 1, 2)
        local _, sum = coroutine.resume(co, 3)
        local ok, dead = coroutine.resume(co)
        local open = coroutine.create(error)
        return `{b} {sum} {ok} {dead} {coroutine.close(open)} {coroutine.status(open)}`";
    assert_eq!(app.text(body), "2 4 false cannot resume dead coroutine true dead");
    let error = app.error("coroutine.resume(1)");
    assert!(
        error.contains("main.luau:2: invalid argument #1 to 'resume' (thread expected, got number)"),
        "{error}"
    );
}

#[test]
fn deep_nesting_of_source_is_an_error() {
    let app = App::new();
    let source = format!("return {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(app.load(&source, &RecordFields::default()).is_err());
}

#[test]
fn a_coroutine_that_was_kept_is_dead_after_its_call() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(300), ..HostOptions::default() });
    // The slow call loops until another call begins, so its first slice always ends within the loop.
    let handler = app.handler(
        "local kept, others = {}, 0 return function(req)
            others += if req.query.slow then 0 else 1
            while others == 0 do end
            local states = {}
            for other in kept do
                table.insert(states, `{coroutine.status(other)} {coroutine.resume(other)}`)
                pcall(coroutine.close, other)
            end
            kept[coroutine.running()] = true
            table.sort(states)
            return if req.query.bad then print else table.concat(states, ', ')
        end",
    );
    let mut slow = handler.call(get("/?slow=1"));
    assert!(matches!(slow.resume(), Step::Sliced));
    assert_eq!(text(&finish(handler.call(get("/"))).unwrap()), "");
    assert_eq!(text(&finish(slow).unwrap()), "dead false");
    assert!(finish(handler.call(get("/?bad=1"))).is_err());
    assert_eq!(text(&finish(handler.call(get("/"))).unwrap()), "dead false, running false");
}

#[test]
fn an_error_that_passes_through_callbacks_again_and_again_does_not_pile_up() {
    // This thread has a small native stack. Dropping an error with many layers would overflow the stack.
    let small = thread::Builder::new().stack_size(128 << 10).spawn(|| {
        let app = App::with(HostOptions { cpu_budget: Duration::from_secs(20), ..HostOptions::default() });
        app.file("raise.luau", "error(require('held').error)");
        app.file("held.luau", "return {}");
        let body = "local held, ok = require('held')
            local raise = setmetatable({}, { __tostring = function() error(held.error) end })
            for _ = 1, 10000 do ok, held.error = pcall(print, raise) end
            for _ = 1, 10000 do ok, held.error = pcall(require, 'raise') end
            return typeof(held.error)";
        assert_eq!(app.text(body), "error");
    });
    small.unwrap().join().unwrap();
}
