//! Tests of scripts that never end, that grow without bound, or that try to hide such behaviour.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tollgate_script::{CallError, HostOptions, LoadError, RecordFields, Step};

use crate::app::{App, finish, get, handler_of, request, text};

/// Returns the processor time of this thread, which does not grow while other threads use the core.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap())
}

/// Runs the body, which must end at the CPU budget.
fn runs_out_of_time(app: &App, body: &str) {
    let begin = cpu_time();
    let result = app.run(body);
    let spent = cpu_time() - begin;
    assert!(matches!(result, Err(CallError::CpuBudget { .. })), "{body}: {result:?}");
    assert!(spent < Duration::from_secs(5), "{body}: {spent:?}");
    assert_eq!(app.text("return 'alive'"), "alive", "after {body}");
}

fn runs_out_of_memory(app: &App, body: &str) {
    let result = app.run(body);
    assert!(matches!(result, Err(CallError::Memory { .. })), "{body}: {result:?}");
    assert_eq!(app.text("return 'alive'"), "alive", "after {body}");
}

#[test]
fn a_loop_ends_at_the_budget_with_a_traceback() {
    let app = App::new();
    runs_out_of_time(&app, "while true do end");
    let error = app.error("local function spin() while true do end end spin()");
    assert!(error.contains("limit 50 ms") && error.contains("main.luau:2"), "{error}");
}

#[test]
fn no_pcall_swallows_the_end_of_the_budget() {
    let app = App::new();
    runs_out_of_time(&app, "while true do pcall(function() while true do end end) end");
    runs_out_of_time(&app, "pcall(function() while true do end end) return 200");
    runs_out_of_time(&app, "local function f() pcall(f) return f() end f()");
    runs_out_of_time(
        &app,
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
    );
    runs_out_of_time(&app, "while true do coroutine.wrap(function() while true do end end)() end");
    runs_out_of_time(&app, "while true do pcall(coroutine.wrap(function() while true do end end)) end");
}

#[test]
fn the_budget_holds_where_luau_cannot_yield() {
    let app = App::new();
    runs_out_of_time(&app, "return setmetatable({}, { __index = function() while true do end end }).x");
    runs_out_of_time(&app, "table.sort({ 3, 1, 2 }, function() while true do end end)");
    runs_out_of_time(&app, "string.gsub('x', 'x', function() while true do end end)");
    runs_out_of_time(&app, "error(setmetatable({}, { __tostring = function() while true do end end }))");
    runs_out_of_time(&app, "print(setmetatable({}, { __tostring = function() while true do end end }))");
}

#[test]
fn a_pattern_that_explodes_ends() {
    runs_out_of_time(&App::new(), "return string.find(('a'):rep(10000), ('a*'):rep(30) .. 'b')");
    runs_out_of_time(&App::new(), "return string.match(('a'):rep(3000), '.-.-.-.-b$')");
}

#[test]
fn library_functions_that_work_at_one_stroke_end() {
    let app = App::with(HostOptions { memory_bytes_max: 64 << 20, ..HostOptions::default() });
    let begin = cpu_time();
    let long = "local s = ('a'):rep(8000000) local p = ('a'):rep(4000000) .. 'b'";
    let _ = app.run(&format!("{long} return s:find(p, 1, true)"));
    assert!(app.error(&format!("{long} return s:split(p)")).contains("times 4000001 of a separator"));
    let _ = app.run("table.move({}, 1, 2000000000, 1, {}) return 200");
    let _ = app.run("local t = { 1 } table.move(t, 1, 2000000000, 2) return 200");
    let _ = app.run(
        "local a = ('a'):rep(4000000) local b, t = a .. 'b', {} a = a .. 'a'
         for i = 1, 1000 do t[i] = if i % 2 == 0 then a else b end table.sort(t) return 200",
    );
    let spent = cpu_time() - begin;
    assert!(spent < Duration::from_secs(10), "{spent:?}");
    assert_eq!(app.text("local t = { 3, 1, 2 } table.sort(t) return table.concat(t)"), "123");
}

/// Checks that a call is refused before it does any work. The error must name the line of the script.
fn refused(app: &App, call: &str, expected: &str) {
    let error = app.error(&format!("local s = ('a'):rep(1000000) return tostring({call})"));
    assert!(error.starts_with(&format!("main.luau:2: {expected}\n")), "{call}: {error}");
}

#[test]
fn a_set_of_many_items_is_not_searched_for_in_a_long_text() {
    let app = App::new();
    let set = "'[^' .. ('b'):rep(300) .. ']*c'";
    for name in ["find", "match", "gmatch"] {
        let limit = "1000000 bytes of text times 300 items of a set, limit 67108864";
        refused(&app, &format!("string.{name}(s, {set})"), &format!("string.{name} exceeds limit: {limit}"));
        refused(&app, &format!("s:{name}({set})"), &format!("string.{name} exceeds limit: {limit}"));
    }
    refused(
        &app,
        &format!("string.gsub(s, {set}, '')"),
        "string.gsub exceeds limit: 1000000 bytes of text times 300 items of a set, limit 67108864",
    );
    assert_eq!(
        app.text("return tostring(string.match(('a'):rep(1000), '[^' .. ('b'):rep(300) .. ']*') ~= nil)"),
        "true"
    );
    assert_eq!(app.text("return tostring(#string.match(('a'):rep(1000000), '[%w_%-.]*'))"), "1000000");
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(5), ..HostOptions::default() });
    assert_eq!(
        app.text(&format!("local s = ('a'):rep(1000000) .. 'c' return tostring(#s:match({set}))")),
        "1000001"
    );
}

#[test]
fn formats_and_replacements_of_a_size_that_nobody_needs_are_refused() {
    let app = App::new();
    for call in ["string.pack(s)", "string.packsize(s)", "string.unpack(s, '')", "os.date(s)"] {
        let (name, _) = call.split_once('(').unwrap();
        refused(&app, call, &format!("{name} exceeds limit: format of 1000000 bytes, limit 65536 bytes"));
    }
    refused(
        &app,
        "string.gsub('a', '(b*)a', ('%1'):rep(1000000))",
        "string.gsub exceeds limit: replacement with % of 2000000 bytes, limit 1048576 bytes",
    );
    assert_eq!(app.text("return tostring(#string.gsub('a', 'a', ('x'):rep(2000000)))"), "2000000");
}

#[test]
fn a_plain_search_in_a_long_text_finds_what_one_in_a_short_text_does() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(20), ..HostOptions::default() });
    let body = "local found = {}
        for _, text in { ('a'):rep(100), ('a'):rep(2000000) } do
            local s = 'ab.' .. text .. 'xb.' .. text .. 'ab'
            local n, all = #text, {}
            for _, arguments in {
                { 'ab' }, { 'b.', 1, true }, { 'b.', 3, true }, { 'ab', 2 }, { 'ab', -2 }, { 'ab', -1 }, { 'b.', -n - 6, true },
                { 'xb', 0 }, { 'xb', -2^31 }, { '', 4 }, { '', #s + 1 }, { '', #s + 2 }, { 'ab', #s + 2 }, { 'c' }, { 'x.%.' },
            } do
                local first, last = string.find(s, table.unpack(arguments))
                -- Counted from where the text of the same name begins.
                local function place(at)
                    return if at == nil then 'nil' elseif at <= 4 then `{at}` elseif at <= n + 10 then `{at - n}+n` else `{at - 2 * n}+2n`
                end
                table.insert(all, `{place(first)}-{place(last)}`)
            end
            table.insert(found, table.concat(all, ' '))
        end
        assert(found[1] == found[2], table.concat(found, ' | '))
        return found[1]";
    assert_eq!(
        app.text(body),
        "1-2 2-3 5+n-6+n 7+2n-8+2n 7+2n-8+2n nil-nil 5+n-6+n 4+n-5+n 4+n-5+n 4-3 9+2n-8+2n nil-nil nil-nil nil-nil 4+n-6+n"
    );
    let error = app.error("return ('a'):rep(2000000):find('b', {}, true)");
    assert!(
        error.contains("main.luau:2: invalid argument #3 to 'find' (number expected, got table)"),
        "{error}"
    );
}

#[test]
fn functions_of_the_library_blame_the_line_of_the_script() {
    let app = App::new();
    for name in ["find", "match", "gmatch", "gsub", "split"] {
        let error = app.error(&format!("return string.{name}({{}})"));
        assert!(error.starts_with(&format!("main.luau:2: invalid argument #1 to '{name}'")), "{error}");
    }
}

/// Loop that runs until [`end_loops`] ends it.
const UNTIL_ENDED: &str = "while not tollgate.shared.get('told') do end";

fn end_loops(app: &App) {
    assert_eq!(app.text("tollgate.shared.set('told', true) return 'told'"), "told");
}

#[test]
fn a_long_call_gives_the_worker_back_and_ends_well() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(5), ..HostOptions::default() });
    let handler = app.handler(&handler_of(&format!("{UNTIL_ENDED} return req.query.x")));
    let (mut a, mut b) = (handler.call(get("/?x=a")), handler.call(get("/?x=b")));
    let mut slices = 0;
    let (mut a_text, mut b_text) = (None, None);
    while a_text.is_none() || b_text.is_none() {
        if slices == 4 {
            end_loops(&app);
        }
        for (call, end) in [(&mut a, &mut a_text), (&mut b, &mut b_text)] {
            if end.is_none() {
                match call.resume() {
                    Step::Sliced => slices += 1,
                    Step::Done(result) => *end = Some(text(&result.unwrap())),
                    step => panic!("{step:?}"),
                }
            }
        }
    }
    assert_eq!((a_text.unwrap(), b_text.unwrap()), ("a".to_owned(), "b".to_owned()));
}

#[test]
fn a_slice_ends_inside_pcall_but_not_inside_a_coroutine_of_the_script() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(5), ..HostOptions::default() });
    let spin = format!("local function spin() {UNTIL_ENDED} return 'spun' end");
    let mut call =
        app.handler(&handler_of(&format!("{spin} local ok, v = pcall(spin) return v"))).call(get("/"));
    assert!(matches!(call.resume(), Step::Sliced));
    end_loops(&app);
    assert_eq!(text(&finish(call).unwrap()), "spun");
    let spin = "local function spin() local stop = os.clock() + 0.02 while os.clock() < stop do end return 'spun' end";
    assert_eq!(app.text(&format!("{spin} return coroutine.wrap(spin)()")), "spun");
}

#[test]
fn the_budget_is_summed_over_slices() {
    let (cpu_budget, slice) = (Duration::from_millis(200), Duration::from_millis(2));
    let app = App::with(HostOptions { cpu_budget, slice, ..HostOptions::default() });
    let mut call = app.handler(&handler_of("while true do end")).call(get("/"));
    let (begin, mut slices) = (cpu_time(), 0);
    let error = loop {
        assert!(cpu_time() - begin < 20 * cpu_budget, "it goes on after {slices} slices");
        match call.resume() {
            Step::Sliced => slices += 1,
            Step::Done(result) => break result.unwrap_err(),
            step => panic!("{step:?}"),
        }
    };
    assert!(matches!(error, CallError::CpuBudget { .. }), "{error}");
    // The first slice counts in full, even if other threads used a part of the time.
    let spent = cpu_time() - begin;
    assert!(slices > 1 && spent >= cpu_budget - slice, "{slices} slices, {spent:?}");
    assert!(matches!(call.resume(), Step::Done(Err(_))));
}

#[test]
fn loading_is_held_to_the_same_budgets() {
    let app = App::new();
    let refused = |source: &str| match app.load(source, &RecordFields::default()) {
        Err(LoadError::Run { error, .. }) => error,
        Err(other) => panic!("{source}: {other}"),
        Ok(_) => panic!("{source} is loaded"),
    };
    assert!(matches!(refused("while true do end"), CallError::CpuBudget { .. }));
    assert!(matches!(
        refused("while true do pcall(function() while true do end end) end"),
        CallError::CpuBudget { .. }
    ));
    assert!(matches!(refused("local t = {} while true do t[#t + 1] = {} end"), CallError::Memory { .. }));
    app.file("spin.luau", "while true do end");
    assert!(matches!(refused("require('spin') return print"), CallError::CpuBudget { .. }));
}

#[test]
fn memory_is_bounded_and_the_vm_serves_on() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(5), ..HostOptions::default() });
    runs_out_of_memory(&app, "local t = {} while true do t[#t + 1] = {} end");
    runs_out_of_memory(&app, "local s = 'x' while true do s = s .. s end");
    runs_out_of_memory(&app, "return string.rep('x', 2^30)");
    runs_out_of_memory(&app, "return table.create(2^26, 1)");
    runs_out_of_memory(&app, "return buffer.create(2^29)");
    runs_out_of_memory(&app, "return table.concat(table.create(1000, ('x'):rep(100000)))");
    runs_out_of_memory(&app, "return string.format('%s%s', ('x'):rep(9000000), ('x'):rep(9000000))");
    runs_out_of_memory(&app, "return tollgate.json.decode('[' .. ('[],'):rep(1000000) .. '1]')");
    for body in ["return table.create(2^28)", "return buffer.create(2^30)", "return ('x'):rep(2^31 - 1)"] {
        assert!(app.run(body).is_err(), "{body}");
    }
    assert_eq!(app.text("return 'alive'"), "alive");
}

#[test]
fn a_memory_error_that_was_caught_leaves_the_limit_in_place() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(5), ..HostOptions::default() });
    let body = "local keep = {}
        for i = 1, 100 do pcall(function() while true do keep[#keep + 1] = ('x'):rep(100000 + #keep) end end) end
        return tostring(#keep)";
    let kept: usize = app.run(body).map_or(0, |outcome| text(&outcome).parse().unwrap());
    assert!(kept < 170, "{kept} x 100 kB");
    assert_eq!(app.text("return 'alive'"), "alive");
}

#[test]
fn many_calls_leave_no_memory_behind() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(5), ..HostOptions::default() });
    let handler =
        app.handler(&handler_of("local t = {} for i = 1, 1000 do t[i] = { i } end return { json = t }"));
    for _ in 0..500 {
        finish(handler.call(get("/?a=1"))).unwrap();
    }
    let error = app.error("local t = {} while true do t[#t + 1] = {} end");
    assert!(error.contains("16777216"), "{error}");
}

#[test]
fn a_call_that_is_dropped_midway_harms_no_other() {
    let app = App::new();
    let handler = app.handler(&handler_of("while true do end"));
    for _ in 0..5 {
        let mut call = handler.call(get("/"));
        assert!(matches!(call.resume(), Step::Sliced));
    }
    assert_eq!(app.text("return 'alive'"), "alive");
}

#[test]
fn the_writing_of_a_reply_counts_too() {
    let app = App::with(HostOptions { reply_bytes_max: 4 << 30, ..HostOptions::default() });
    runs_out_of_time(&app, "local t = {} for i = 1, 60 do t = { t, t } end return { json = t }");
    runs_out_of_time(&app, "local t = {} for i = 1, 60 do t = { t, t } end return tollgate.json.encode(t)");
}

#[test]
fn time_that_other_threads_have_does_not_count() {
    let app = App::new();
    let spin = |turns: u64| format!("local n = 0 for _ = 1, {turns} do n += 1 end return 204");
    let begin = Instant::now();
    assert!(app.run(&spin(100_000)).is_ok());
    // Number of turns that need 20 ms of the budget of 50 ms, if no other thread needs the core.
    let turns = 100_000 * 20_000 / u64::try_from(begin.elapsed().as_micros()).unwrap().max(1);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().unwrap().get() * 8 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(1) {
            let result = app.run(&spin(turns));
            is_done.fetch_or(result.is_err(), Ordering::Relaxed);
            assert!(result.is_ok(), "{result:?}");
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn lists_of_holes_among_the_headers_end_at_the_budget() {
    let body = "local holes, headers = table.create(500000), {}
        for i = 1, 20000 do headers[`h{i}`] = holes end
        return { headers = headers }";
    runs_out_of_time(&App::new(), body);
}

#[test]
fn functions_of_ours_do_not_lead_past_the_memory_limit() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_secs(5), ..HostOptions::default() });
    for make in [
        "local encode, value = tollgate.json.encode, { ('x'):rep(1000000) } local function make(i) value[2] = i return encode(value) end",
        "local decode, text = tollgate.json.decode, `[{('1,'):rep(60)}1]` local function make() return decode(text) end",
        "local all = req.all local function make() return all(req, 'headers', 'host') end",
    ] {
        let body = "local keep = table.create(500000) for i = 1, 500000 do keep[i] = make(i) end return 204";
        runs_out_of_memory(&app, &format!("{make}\n{body}"));
    }
}

/// Code that allocates all remaining memory of the call, in blocks of at least `block` bytes.
const TAKE_MEMORY: &str = "local taken, count = table.create(1000), 0
    local function take(block)
        local size = 1000000
        while size >= block do
            local ok, got = pcall(buffer.create, size)
            if ok then count += 1 taken[count] = got else size = size // 2 end
        end
    end";

#[test]
fn a_call_without_any_memory_left_runs_on() {
    let app = App::with(HostOptions {
        cpu_budget: Duration::from_secs(10),
        memory_bytes_max: 1 << 20,
        slice: Duration::from_millis(1),
        ..HostOptions::default()
    });
    let spin = "local function spin(depth)
            if depth > 0 then return (spin(depth - 1)) end
            take(16)
            local stop = os.clock() + 0.3 while os.clock() < stop do end
            return 204
        end
        return spin(150)";
    assert_eq!(app.run(&format!("{TAKE_MEMORY}\n{spin}")).unwrap().status, 204);
}

#[test]
fn memory_that_ends_inside_a_field_of_req_harms_nothing() {
    let app = App::with(HostOptions {
        cpu_budget: Duration::from_secs(10),
        memory_bytes_max: 1 << 20,
        ..HostOptions::default()
    });
    let query: String = (0..200).map(|i| format!("name{i}=value{i}&")).collect();
    let touch = handler_of(&format!(
        "{TAKE_MEMORY}
        local get = function() return req.query.name7 end
        take(tonumber(req:body()))
        local had = pcall(get)
        table.clear(taken)
        return if had then 200 else 201"
    ));
    let touch = app.handler(&touch);
    let mut statuses = [0, 0];
    for block in (16..90_000).step_by(901) {
        let head = format!("GET /?{query} HTTP/1.1\r\nHost: test\r\n\r\n");
        let outcome = finish(touch.call(request(&head, block.to_string().as_bytes()))).unwrap();
        statuses[usize::from(outcome.status - 200)] += 1;
        assert_eq!(app.text("return req.path"), "/42/a rest");
    }
    assert!(statuses.iter().all(|&count| count > 5), "{statuses:?}");
}

#[test]
fn memory_that_ends_while_a_module_is_loaded_is_an_error() {
    for block in [1000, 3000] {
        let app = App::with(HostOptions { memory_bytes_max: 1_000_000, ..HostOptions::default() });
        app.file("fails.luau", "error('x')");
        for pad in 0..400 {
            let pad = format!("local pad = table.create({})", pad * 5);
            let end = format!("take({block}) pcall(require, 'fails') return 204");
            let _ = app.run(&format!("{TAKE_MEMORY}\n{pad} {end}"));
        }
        assert_eq!(app.text("return 'alive'"), "alive");
    }
}

#[test]
fn an_idle_vm_gives_back_what_its_last_calls_left() {
    let app = App::new();
    let handler = app.handler(&handler_of("local text = string.rep('x', 8000000 + req.query.x) return 204"));
    for call in 0..3 {
        finish(handler.call(get(&format!("/?x={call}")))).unwrap();
    }
    assert!(app.host.memory_bytes() > 8_000_000);
    for _ in 0..10_000 {
        app.host.collect_while_idle();
    }
    let kept_bytes = app.host.memory_bytes();
    assert!(kept_bytes < 8_000_000, "{kept_bytes} bytes");
}

#[test]
fn a_call_pays_for_the_bytes_of_its_long_texts() {
    let app = App::new();
    let kept = "local kept = {} for i = 1, 20000 do kept[i] = { i } end";
    let body = "local text = string.rep('x', 800000 + req.query.x) return 204";
    let handler = app.handler(&format!("{kept} return function(req) local _ = kept {body} end"));
    let kept_bytes = app.host.memory_bytes();
    let mut bytes_max = 0;
    for call in 0..60 {
        finish(handler.call(get(&format!("/?x={call}")))).unwrap();
        bytes_max = bytes_max.max(app.host.memory_bytes());
    }
    // The VM holds the texts of at most six calls. Without the flag for the collector, it held the texts of
    // 12 calls. This VM stays below 16 MiB: above that, the server also collects for a time after each call.
    assert!(bytes_max < kept_bytes + 5_000_000, "{bytes_max} bytes, {kept_bytes} kept");
}

#[test]
fn a_vm_with_little_to_keep_holds_few_long_texts() {
    let app = App::new();
    let body = "for part = 1, 2 do local text = string.rep('x', 8000000 + part + req.query.x) end return 204";
    let handler = app.handler(&handler_of(body));
    let mut bytes_max = 0;
    for call in 0..40 {
        finish(handler.call(get(&format!("/?x={}", 10 * call)))).unwrap();
        bytes_max = bytes_max.max(app.host.memory_bytes());
    }
    // Up to 16 MiB, calls need not collect garbage.
    assert!(bytes_max < 17 << 20, "{bytes_max} bytes");
}
