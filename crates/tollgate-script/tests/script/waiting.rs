//! Tests of calls that wait: other calls run during a wait, places where a script may wait, the cost of a
//! wait, and its end.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tollgate_script::{Call, CallError, HostOptions, Outcome, Step};

use crate::app::{App, get, handler_of, text};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Runs a call to its end, as a worker does.
async fn settled(mut call: Call) -> Result<Outcome, CallError> {
    loop {
        match call.resume() {
            Step::Sliced => tokio::task::yield_now().await,
            Step::Waiting => poll_fn(|context| call.poll_wait(context)).await,
            Step::Done(result) => return result,
            step => panic!("{step:?}"),
        }
    }
}

/// Resumes a call until the result is not the end of a slice. On a busy machine a slice may end first.
fn unsliced(call: &mut Call) -> Step {
    loop {
        match call.resume() {
            Step::Sliced => {}
            step => return step,
        }
    }
}

fn begin_to_wait(call: &mut Call) {
    let step = unsliced(call);
    assert!(matches!(step, Step::Waiting) && call.is_waiting(), "{step:?}");
}

fn waited(app: &App, body: &str) -> Result<Outcome, CallError> {
    runtime().block_on(settled(app.handler(&handler_of(body)).call(get("/?x=7"))))
}

fn waited_text(app: &App, body: &str) -> String {
    text(&waited(app, body).unwrap_or_else(|error| panic!("{body}: {error}")))
}

#[test]
fn a_call_that_sleeps_goes_on_where_it_was_and_gets_nothing() {
    let app = App::new();
    let begun = Instant::now();
    let body = "local n = 1
        local function deep() n += select('#', tollgate.sleep(0.05)) tollgate.sleep(0) return n end
        return req.query.x .. deep()";
    assert_eq!(waited_text(&app, body), "71");
    assert!(begun.elapsed() >= Duration::from_millis(50));
}

#[test]
fn others_run_while_a_call_waits() {
    let app = App::new();
    let source = "local order = {}
        return function(req)
            table.insert(order, 'in ' .. req.query.x)
            if req.query.x == 'slow' then tollgate.sleep(0.05) end
            table.insert(order, 'out ' .. req.query.x)
            return table.concat(order, ', ')
        end";
    let handler = app.handler(source);
    let mut slow = handler.call(get("/?x=slow"));
    begin_to_wait(&mut slow);
    assert!(matches!(slow.resume(), Step::Waiting));
    let runtime = runtime();
    let quick = runtime.block_on(settled(handler.call(get("/?x=quick")))).unwrap();
    assert_eq!(text(&quick), "in slow, in quick, out quick");
    let slow = runtime.block_on(settled(slow)).unwrap();
    assert_eq!(text(&slow), "in slow, in quick, out quick, out slow");
}

#[test]
fn a_wait_inside_pcall_is_one() {
    let app = App::new();
    let body = "local ok, first, second = pcall(function() tollgate.sleep(0.001) return 'a', 'b' end)
        local direct = pcall(tollgate.sleep, 0.001)
        local failed, problem = pcall(function() tollgate.sleep(0.001) error('later', 0) end)
        local _, handled = xpcall(function() tollgate.sleep(0.001) error('x', 0) end, function(e) return e .. '!' end)
        return table.concat({ tostring(ok), first, second, tostring(direct), tostring(failed), problem, handled }, ' ')";
    assert_eq!(waited_text(&app, body), "true a b true false later x!");
}

#[test]
fn time_that_is_waited_is_no_processor_time() {
    let app = App::with(HostOptions { cpu_budget: Duration::from_millis(20), ..HostOptions::default() });
    assert_eq!(waited_text(&app, "for i = 1, 4 do tollgate.sleep(0.02) end return 'rested'"), "rested");
    let error =
        waited(&app, "while true do tollgate.sleep(0.001) local n = 0 for i = 1, 2e5 do n += i end end");
    assert!(matches!(error, Err(CallError::CpuBudget { .. })), "{error:?}");
}

#[test]
fn memory_is_summed_over_waits() {
    let app = App::with(HostOptions { memory_bytes_max: 1 << 20, ..HostOptions::default() });
    let body = "local all = {} for i = 1, 32 do tollgate.sleep(0) all[i] = string.rep(tostring(i), 50000) end return 'kept'";
    let error = waited(&app, body);
    assert!(matches!(error, Err(CallError::Memory { .. })), "{error:?}");
}

#[test]
fn a_call_that_waits_too_long_ends_and_tells_where_it_was() {
    let app = App::with(HostOptions { wall_budget: Duration::from_millis(50), ..HostOptions::default() });
    let source = "local function nap()\n  tollgate.sleep(60)\nend\nreturn function(req)\n  pcall(nap)\n  return 204\nend";
    let begun = Instant::now();
    let error = runtime().block_on(settled(app.handler(source).call(get("/")))).unwrap_err().to_string();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(error.starts_with("script exceeds its wall budget: limit 50 ms\n"), "{error}");
    assert!(error.contains("tollgate.sleep") && error.contains("main.luau:2"), "{error}");
    // The wall budget applies to the whole call, not to each wait.
    let error = waited(&app, "for i = 1, 1000 do tollgate.sleep(0.005) end return 204");
    assert!(matches!(error, Err(CallError::WallBudget { limit_ms: 50, .. })), "{error:?}");
    assert_eq!(waited_text(&app, "return 'alive'"), "alive");
}

#[test]
fn a_wait_where_luau_cannot_be_suspended_is_an_error_that_says_so() {
    let app = App::new();
    let own = "inside a coroutine of the script: call it outside";
    let library = "inside a metamethod, or in a callback of a library function";
    for (body, expect) in [
        ("return coroutine.wrap(function() tollgate.sleep(0) return 'slept' end)()", own),
        (
            "local _, e = coroutine.resume(coroutine.create(function() tollgate.sleep(0) end)) error(e, 0)",
            own,
        ),
        ("table.sort({ 2, 1 }, function(a, b) tollgate.sleep(0) return a < b end) return 204", library),
        ("return string.gsub('a', 'a', function() tollgate.sleep(0) return 'b' end)", library),
        (
            "return tostring(setmetatable({}, { __tostring = function() tollgate.sleep(0) return '' end }))",
            library,
        ),
    ] {
        let error = waited(&app, body).expect_err(body).to_string();
        assert!(
            error.contains(&format!("main.luau:2: tollgate.sleep cannot wait {expect}")),
            "{body}: {error}"
        );
    }
    let error =
        app.load("tollgate.sleep(0)\nreturn function() end", &Default::default()).err().unwrap().to_string();
    assert!(error.contains("main.luau:1: tollgate.sleep cannot wait while a script is loaded"), "{error}");
    // A script may use its own coroutine before and after a wait.
    let body = "local co = coroutine.wrap(function() coroutine.yield(1) return 2 end)
        local a = co() tollgate.sleep(0) return tostring(a + co())";
    assert_eq!(waited_text(&app, body), "3");
}

#[test]
fn a_wrong_time_is_refused() {
    let app = App::new();
    for (value, found) in [
        ("-1", "-1"),
        ("0/0", "NaN"),
        ("math.huge", "inf"),
        ("86401", "86401"),
        ("'1'", "a string"),
        ("", "a nil"),
    ] {
        let error = waited(&app, &format!("tollgate.sleep({value})")).unwrap_err().to_string();
        let expect =
            format!("main.luau:2: time of tollgate.sleep is {found}: allowed are seconds from 0 to 86400");
        assert!(error.contains(&expect), "{value}: {error}");
    }
}

#[test]
fn a_script_can_neither_resume_nor_close_the_coroutine_of_a_waiting_call() {
    let app = App::new();
    let source = "local kept
        return function(req)
            local x = req.query.x
            if x == 'wait' then
                kept = coroutine.running()
                local value = tollgate.sleep(0.02)
                return 'woken by ' .. tostring(value) .. ' ' .. req.query.x
            end
            if x == 'close' then coroutine.close(kept) end
            if x == 'resume' then error(select(2, coroutine.resume(kept, 'another')), 0) end
            if x == 'wrap' then coroutine.wrap(function() coroutine.close(kept) end)() end
            return 'fine'
        end";
    let runtime = runtime();
    for (meddling, refusal) in [
        ("close", "main.luau:9: cannot close the coroutine of a call"),
        ("resume", "cannot resume the coroutine of a call"),
        ("wrap", "main.luau:11: cannot close the coroutine of a call"),
    ] {
        let handler = app.handler(source);
        let mut waiting = handler.call(get("/?x=wait"));
        begin_to_wait(&mut waiting);
        let refused = runtime.block_on(settled(handler.call(get(&format!("/?x={meddling}"))))).unwrap_err();
        assert!(refused.to_string().contains(refusal), "{meddling}: {refused}");
        assert_eq!(text(&runtime.block_on(settled(waiting)).unwrap()), "woken by nil wait", "{meddling}");
        assert_eq!(text(&runtime.block_on(settled(handler.call(get("/?x=other")))).unwrap()), "fine");
    }
}

#[test]
fn five_thousand_calls_wait_at_once_and_small() {
    let app = App::new();
    let handler = app.handler(&handler_of("local x = req.query.x tollgate.sleep(0.01) return x"));
    let mut calls: Vec<_> = (0..5000).map(|n| handler.call(get(&format!("/?x={n}")))).collect();
    for call in &mut calls {
        begin_to_wait(call);
    }
    // The test uses the mean, because a single call may make a table of the VM grow.
    let mean = calls.iter().map(Call::memory_bytes).sum::<usize>() / calls.len();
    assert!((1024..8192).contains(&mean), "{mean} bytes are counted for each");
    let runtime = runtime();
    // All calls begin to sleep at the same time.
    runtime.block_on(poll_fn(|context| {
        calls.iter_mut().for_each(|call| _ = call.poll_wait(context));
        Poll::Ready(())
    }));
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(text(&runtime.block_on(settled(call)).unwrap()), n.to_string());
    }
}

#[test]
fn a_script_that_writes_waits_until_what_it_wrote_is_taken() {
    let app = App::new();
    let body = "return { write = function(out)
        local block, all = string.rep('x', 10000), true
        for i = 1, 20 do all = out:write(block) and all end
        out:write(tostring(all) .. ' ' .. tostring(out:write('')) .. ' ' .. req.query.x)
    end }";
    let mut call = app.handler(&handler_of(body)).call(get("/?x=7"));
    assert!(matches!(unsliced(&mut call), Step::Streams(_)));
    let pipe = call.pipe().unwrap().clone();
    let mut content = Vec::new();
    runtime().block_on(async {
        loop {
            match unsliced(&mut call) {
                Step::Waiting => {
                    assert_eq!(pipe.bytes_len(), 70_000);
                    assert!(poll_once(&mut call).await.is_pending());
                    content.extend(pipe.take());
                    assert!(poll_once(&mut call).await.is_ready());
                }
                Step::Ended(ended) => return ended.unwrap(),
                step => panic!("{step:?}"),
            }
        }
    });
    content.extend(pipe.take());
    let text = String::from_utf8(content).unwrap();
    assert_eq!((text.len(), text.trim_start_matches('x')), (200_011, "true true 7"));
}

#[test]
fn a_script_hears_when_nobody_takes_what_it_writes() {
    let app = App::new();
    let source = "local heard = 'nothing'
        return function(req)
            if req.query.x == 'heard' then return heard end
            return { write = function(out)
                heard = tostring(out:write(string.rep('x', 100000))) .. ' ' .. tostring(out:write('y'))
            end }
        end";
    let handler = app.handler(source);
    let mut call = handler.call(get("/"));
    assert!(matches!(unsliced(&mut call), Step::Streams(_)));
    begin_to_wait(&mut call);
    call.pipe().unwrap().close();
    let runtime = runtime();
    assert!(runtime.block_on(poll_once(&mut call)).is_ready());
    assert!(matches!(unsliced(&mut call), Step::Ended(Ok(()))));
    assert_eq!(text(&runtime.block_on(settled(handler.call(get("/?x=heard")))).unwrap()), "false false");
}

#[test]
fn a_long_write_waits_in_parts_and_comes_whole() {
    let app = App::new();
    let length = 1_000_000;
    let text = "string.rep('0123456789', 100000)";
    // The bytes of a buffer exist three times: as text, as the buffer, and as a copy. The copy is needed
    // because the script may change the buffer during the wait.
    for (data, copies) in [(text.to_owned(), 1), (format!("buffer.fromstring({text})"), 3)] {
        let body = format!(
            "return {{ write = function(out) out:write('ab') assert(out:write({data})) out:write('c') end }}"
        );
        let mut call = app.handler(&handler_of(&body)).call(get("/"));
        assert!(matches!(unsliced(&mut call), Step::Streams(_)));
        let pipe = call.pipe().unwrap().clone();
        let mut content = Vec::new();
        runtime().block_on(async {
            while let Step::Waiting = unsliced(&mut call) {
                while poll_once(&mut call).await.is_pending() {
                    assert!(pipe.bytes_len() < 128 << 10, "{} bytes", pipe.bytes_len());
                    assert!(
                        call.memory_bytes() < copies * length + (256 << 10),
                        "{} bytes",
                        call.memory_bytes()
                    );
                    content.extend(pipe.take());
                }
            }
        });
        content.extend(pipe.take());
        let whole = ["ab", &"0123456789".repeat(length / 10), "c"].concat();
        assert!(content == whole.as_bytes(), "{data}: {} bytes", content.len());
    }
}

#[test]
fn an_event_beyond_the_limit_of_a_reply_is_refused() {
    let app = App::with(HostOptions { reply_bytes_max: 1000, ..HostOptions::default() });
    for (lines, is_refused) in [(100, false), (200, true)] {
        // Each line becomes seven bytes of the encoded event.
        let body = format!(
            "return {{ events = function(out) out:send{{ data = string.rep('\\n', {lines}) }} end }}"
        );
        let mut call = app.handler(&handler_of(&body)).call(get("/"));
        assert!(matches!(unsliced(&mut call), Step::Streams(_)));
        let ended = unsliced(&mut call);
        match ended {
            Step::Ended(Err(error)) => assert!(is_refused && error.to_string().contains("limit"), "{error}"),
            step => assert!(!is_refused && matches!(step, Step::Ended(Ok(()))), "{step:?}"),
        }
    }
}

async fn poll_once(call: &mut Call) -> Poll<()> {
    poll_fn(|context| Poll::Ready(call.poll_wait(context))).await
}
