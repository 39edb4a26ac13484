//! One call of a handler, with its coroutine, its slices and its memory. The call ends with an outcome or an
//! error.
//!
//! Memory: the allocator has a limit only while the script itself runs. The limit is the memory in use plus
//! the remaining growth of the call. At all other times there is no limit (0), so that mlua pushes values
//! without a protected call. Garbage counts until it is collected. Setting and removing the limit costs less
//! than the noise of the measurement (30 ns). A permanent limit costs about 110 ns for each call.
//!
//! Measured (release, 2-core x86-64, Linux 6.18, best of 7 x 100,000 calls):
//!
//! | handler | time of a call |
//! | --- | --- |
//! | `return 204` | 0.24 us |
//! | `return { json = { score = 7 }, record = { score = 7 } }` | 0.62 us |
//! | the same with `req.query.x` and arithmetic | 1.10 us |
//!
//! `cargo run --release -p tollgate-script --example call_speed` prints these figures.
//!
//! If the script catches an error, the memory and the time that it used still count.

use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use mlua::{Function, Lua, Table};
use tokio::time::{Sleep, sleep};

use crate::active::Active;
use crate::emitted::Emitted;
use crate::error::CallError;
use crate::pipe::Pipe;
use crate::reply::{Outcome, Reader, Replied, Streamed};
use crate::request::Request;
use crate::script::Script;
use crate::sys::coroutine::{Coroutine, Ran};
use crate::vm::Vm;
use crate::waits::{Operation, ReturnValues};

/// A call of a handler. Dropping it ends the call.
pub struct Call {
    script: Rc<Script>,
    state: State,
    spent: Duration,
    grown_bytes: isize,
    /// Timer for the end of the wall budget. `None` before the first wait.
    wall: Option<Pin<Box<Sleep>>>,
    stream: Option<Box<Stream>>,
}

/// The content that a call writes after its handler returned.
struct Stream {
    streamed: Streamed,
    pipe: Rc<Pipe>,
    out: Table,
    /// Number of bytes that the connection had taken from the pipe when the budgets were last renewed.
    taken_bytes: u64,
}

enum State {
    Ready(Rc<Request>, Option<Box<Replied>>),
    Suspended(Running),
    Waiting(Running, Operation),
    /// The result of the operation is available.
    Settled(Running, ReturnValues),
    /// The call waited longer than its wall budget.
    Expired(Running),
    /// The handler returned. The function that writes the content has not begun.
    Streaming(Box<Streaming>),
    Over,
}

/// State of a call that has begun.
struct Running {
    coroutine: Coroutine,
    active: Active,
}

struct Streaming {
    coroutine: Coroutine,
    request: Rc<Request>,
    req: Table,
    function: Function,
}

/// Result of resuming a call.
#[derive(Debug)]
pub enum Step {
    /// The slice of the call is over. Resume the call after the other calls had their turn.
    Sliced,
    /// The call waits for an operation. Poll [`Call::poll_wait`], then resume the call.
    Waiting,
    /// The call is over.
    Done(Result<Outcome, CallError>),
    /// The handler returned, and the call continues to write the content into [`Call::pipe`].
    ///
    /// Resume the call when its content may be sent, or drop the call.
    Streams(Outcome),
    /// The call passes the request to the next stage, with the records that it emitted.
    Passed(Vec<Emitted>),
    /// The call has written the whole content, or has failed before that.
    Ended(Result<(), CallError>),
}

/// Reason why a coroutine returned to the `Host` before its end.
enum Pause {
    Slice,
    Wait(Operation),
}

/// Result of one run of the coroutine.
enum End {
    Paused(Pause),
    Replied(Result<Option<Outcome>, CallError>),
    /// The function that streams the content returned.
    Written,
    Failed(CallError),
}

impl Call {
    pub(crate) fn new(script: Rc<Script>, request: Rc<Request>, replied: Option<Box<Replied>>) -> Self {
        Self {
            script,
            state: State::Ready(request, replied),
            spent: Duration::ZERO,
            grown_bytes: 0,
            wall: None,
            stream: None,
        }
    }

    /// Returns whether any code of the script ran.
    pub fn has_begun(&self) -> bool {
        !matches!(self.state, State::Ready(..))
    }

    /// Returns whether the call waits for an operation.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(..))
    }

    /// Returns whether the slice of the call is over. Such a call only has to be resumed.
    pub fn is_sliced(&self) -> bool {
        matches!(self.state, State::Suspended(..))
    }

    /// Returns an estimate of the memory that a suspended call holds, in bytes.
    ///
    /// The estimate is the growth of the VM during the call, the size of the call itself, and the bytes in
    /// its pipe.
    pub fn memory_bytes(&self) -> usize {
        match self.state {
            State::Ready(..) | State::Over => 0,
            _ => {
                let written_bytes = self.pipe().map_or(0, |pipe| pipe.memory_bytes());
                SUSPENDED_BYTES + usize::try_from(self.grown_bytes).unwrap_or(0) + written_bytes
            }
        }
    }

    /// Returns the pipe for the content of a streamed reply.
    pub fn pipe(&self) -> Option<&Rc<Pipe>> {
        self.stream.as_ref().map(|stream| &stream.pipe)
    }

    /// Returns the maximum pause between server-sent events before a comment is sent. `None` for any other
    /// reply.
    pub fn heartbeat(&self) -> Option<Duration> {
        let stream = self.stream.as_ref()?;
        (stream.streamed == Streamed::Events).then_some(self.script.vm.parts.options.heartbeat)
    }

    /// Returns whether the wall budget counts now.
    ///
    /// The wall budget does not apply to events. The wall budget also does not count while a full pipe waits
    /// for the client. That wait has other bounds.
    fn is_on_the_clock(&self) -> bool {
        let stream = self.stream.as_ref();
        stream.is_none_or(|stream| stream.streamed == Streamed::Write && !stream.pipe.is_full())
    }

    /// Polls the operation that the call waits for. The result is ready when the call can be resumed.
    ///
    /// The result is ready at the latest when the wall budget is used up.
    ///
    /// # Panics
    /// This function panics if the call waits, and no tokio runtime with timers runs the function.
    pub fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let State::Waiting(_, operation) = &mut self.state else { return Poll::Ready(()) };
        let polled = operation.as_mut().poll(context);
        let settled = match polled {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending if self.given_up().is_some() => None,
            Poll::Pending if !self.is_on_the_clock() => return Poll::Pending,
            Poll::Pending => {
                let wall_budget = self.script.vm.parts.options.wall_budget;
                let wall = self.wall.get_or_insert_with(|| Box::pin(sleep(wall_budget)));
                if wall.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                None
            }
        };
        self.state = match (mem::replace(&mut self.state, State::Over), settled) {
            (State::Waiting(running, _), Some(answer)) => State::Settled(running, answer),
            (State::Waiting(running, _), None) => State::Expired(running),
            (state, _) => state,
        };
        Poll::Ready(())
    }

    /// Runs the call until it ends or waits, or its slice is over.
    pub fn resume(&mut self) -> Step {
        if let Some(end) = self.given_up() {
            self.state = State::Over;
            return Step::Ended(end);
        }
        let step = self.go_on();
        let vm = &self.script.vm;
        vm.extra_collection.after_call(&vm.lua);
        step
    }

    #[inline]
    fn go_on(&mut self) -> Step {
        match mem::replace(&mut self.state, State::Over) {
            State::Ready(request, replied) => match prepare(&self.script, request, replied.as_deref()) {
                Ok(running) if replied.is_some() => self.run(running, Coroutine::start_with_argument),
                Ok(running) => self.run(running, Coroutine::start),
                Err(error) => Step::Done(Err(error)),
            },
            State::Suspended(running) => {
                if self.stream.as_ref().is_some_and(|stream| stream.pipe.taken_bytes() > stream.taken_bytes) {
                    self.renew_budgets();
                }
                self.run(running, Coroutine::resume)
            }
            State::Settled(running, answer) => {
                if self.stream.is_some() {
                    self.renew_budgets();
                }
                self.run(running, |coroutine, lua| coroutine.settle(lua, answer(lua)))
            }
            State::Expired(running) => {
                let vm = &self.script.vm;
                self.failed(vm.wall_error(running.coroutine.traceback(&vm.lua)))
            }
            State::Streaming(streaming) => self.begin_stream(*streaming),
            waiting @ State::Waiting(..) => {
                self.state = waiting;
                Step::Waiting
            }
            State::Over => Step::Done(Err(CallError::script("the call is over already"))),
        }
    }

    fn run(&mut self, running: Running, go: impl FnOnce(&Coroutine, &Lua) -> Ran) -> Step {
        let Running { coroutine, active } = running;
        let vm = Rc::clone(&self.script.vm);
        vm.budget.enter(self.spent, Some(coroutine.address()));
        vm.waits.enter(coroutine.address());
        if let Some(stream) = &self.stream {
            vm.waits.write_to(stream.out.to_pointer(), Rc::clone(&stream.pipe));
        }
        vm.active.replace(Some(active));
        let ran = self.limited(&vm, |lua| go(&coroutine, lua));
        let begun = vm.waits.leave();
        let end = match ran {
            Ran::Returned if self.stream.is_some() => match self.pipe().and_then(|pipe| pipe.unclosed()) {
                None => End::Written,
                Some(fault) => End::Failed(CallError::script(fault)),
            },
            Ran::Returned => {
                let reader = self.reader(&vm);
                End::Replied(
                    coroutine.read_returned(|value, second| reader.decision(self.script.role, value, second)),
                )
            }
            Ran::Yielded => match paused(&vm, begun, &coroutine) {
                Ok(pause) => End::Paused(pause),
                Err(error) => End::Failed(error),
            },
            Ran::Failed(error) => End::Failed(vm.call_error(&error)),
        };
        let active = vm.active.take();
        vm.kept.take_out();
        let stretch = vm.budget.leave();
        self.spent = stretch.spent;
        if let Some(traceback) = stretch.over {
            // If an interrupt found the overrun, `traceback` has the frames of the script. If a function in
            // Rust found it, they are still on the coroutine.
            let is_known = traceback.contains('\n');
            return self.failed(vm.cpu_error(if is_known {
                traceback
            } else {
                coroutine.traceback(&vm.lua)
            }));
        }
        match (end, active) {
            (End::Failed(error), active) => {
                self.failed(error.or_refusal(active.and_then(|active| active.refusal)))
            }
            (End::Written, _) => {
                coroutine.clear();
                keep(&vm, coroutine);
                Step::Ended(Ok(()))
            }
            (End::Paused(pause), Some(active)) => self.pause(Running { coroutine, active }, pause),
            (End::Paused(_), None) => self.failed(CallError::script("the call lost its request")),
            (End::Replied(_), None) => self.failed(CallError::script("the call lost its request")),
            (End::Replied(Ok(Some(mut outcome))), Some(mut active)) if outcome.streamed.is_some() => {
                outcome.emitted = active.take_emitted();
                self.replied(coroutine, active, outcome)
            }
            (End::Replied(result), Some(mut active)) => {
                coroutine.clear();
                if result.is_ok() {
                    keep(&vm, coroutine);
                }
                match result {
                    Ok(Some(outcome)) => {
                        let emitted = active.take_emitted();
                        Step::Done(Ok(Outcome { emitted, ..outcome }))
                    }
                    Ok(None) => Step::Passed(active.take_emitted()),
                    Err(error) => Step::Done(Err(error)),
                }
            }
        }
    }

    /// Renews the budgets of a streamed reply. The budgets begin again after a wait, and after the connection
    /// took content.
    fn renew_budgets(&mut self) {
        (self.spent, self.grown_bytes, self.wall) = (Duration::ZERO, 0, None);
        if let Some(stream) = &mut self.stream {
            stream.taken_bytes = stream.pipe.taken_bytes();
        }
    }

    /// Returns how a streamed reply must end because its VM was replaced, or `None` if it may continue.
    ///
    /// Events are complete messages, so their stream may end at any time.
    fn given_up(&self) -> Option<Result<(), CallError>> {
        let stream = self.stream.as_ref()?;
        self.script.vm.is_given_up().then_some(match stream.streamed {
            Streamed::Events => Ok(()),
            Streamed::Write => Err(CallError::Replaced),
        })
    }

    fn failed(&self, error: CallError) -> Step {
        if self.stream.is_some() { Step::Ended(Err(error)) } else { Step::Done(Err(error)) }
    }

    /// Suspends the call between the head of its reply and the content.
    fn replied(&mut self, coroutine: Coroutine, active: Active, outcome: Outcome) -> Step {
        let vm = &self.script.vm;
        let Some(streamed) = outcome.streamed else { return Step::Done(Ok(outcome)) };
        let taken = coroutine.streaming(&vm.lua, streamed.name());
        coroutine.clear();
        match taken.and_then(|taken| Ok((taken, vm.outs.make(&vm.lua, streamed)?))) {
            Err(error) => Step::Done(Err(vm.call_error(&error))),
            Ok(((req, function), out)) => {
                self.stream = Some(Box::new(Stream { streamed, pipe: Rc::default(), out, taken_bytes: 0 }));
                let request = active.request;
                self.state = State::Streaming(Box::new(Streaming { coroutine, request, req, function }));
                Step::Streams(outcome)
            }
        }
    }

    /// Runs the function that writes the content, with new budgets.
    fn begin_stream(&mut self, streaming: Streaming) -> Step {
        let Streaming { coroutine, request, req, function } = streaming;
        let vm = &self.script.vm;
        let Some(stream) = &self.stream else { return Step::Ended(Err(CallError::script("no stream"))) };
        if let Err(error) = coroutine.prepare_stream(&vm.lua, &req, &function, &stream.out) {
            return Step::Ended(Err(vm.call_error(&error)));
        }
        self.renew_budgets();
        let active = Active { emissions: None, ..Active::new(request, req.to_pointer(), &self.script.reach) };
        self.run(Running { coroutine, active }, Coroutine::start)
    }

    fn pause(&mut self, running: Running, pause: Pause) -> Step {
        let (state, step) = match pause {
            Pause::Slice => (State::Suspended(running), Step::Sliced),
            Pause::Wait(operation) => (State::Waiting(running, operation), Step::Waiting),
        };
        self.state = state;
        step
    }

    /// Runs the coroutine under the memory limit.
    fn limited(&mut self, vm: &Vm, go: impl FnOnce(&Lua) -> Ran) -> Ran {
        let before = vm.lua.used_memory();
        let grown = usize::try_from(self.grown_bytes).unwrap_or(0);
        let allowed = vm.parts.options.memory_bytes_max.saturating_sub(grown).max(1);
        // `set_memory_limit` fails only for a VM that mlua did not create.
        let _ = vm.lua.set_memory_limit(before.saturating_add(allowed));
        let ran = go(&vm.lua);
        let _ = vm.lua.set_memory_limit(0);
        let after = vm.lua.used_memory();
        self.grown_bytes += after.cast_signed() - before.cast_signed();
        vm.note_used(after);
        ran
    }

    fn reader<'a>(&'a self, vm: &'a Vm) -> Reader<'a> {
        Reader {
            marks: &vm.marks,
            budget: &vm.budget,
            scratch: &vm.scratch,
            active: &vm.active,
            reply_bytes_max: vm.parts.options.reply_bytes_max,
            parts: &vm.reply_parts,
            columns: &self.script.columns,
            whole: self.script.whole,
        }
    }
}

/// Creates the coroutine and the `req` of a call.
fn prepare(script: &Script, request: Rc<Request>, replied: Option<&Replied>) -> Result<Running, CallError> {
    let vm = &script.vm;
    let method = request.head.method();
    let Some(function) = script.function(method) else {
        let name = request.head.method_name();
        return Err(CallError::script(format!("script has no function for {name}")));
    };
    let idle = vm.idle.borrow_mut().pop();
    let coroutine = idle.map_or_else(|| Coroutine::new(&vm.lua, function, &vm.marks.call_coroutines), Ok);
    let prepared = coroutine.and_then(|coroutine| {
        let req = coroutine.prepare(&vm.lua, function, &vm.req_metatable)?;
        if let Some(replied) = replied {
            coroutine.add_argument(&vm.lua, &replied.table(&vm.lua)?)?;
        }
        Ok(Running { coroutine, active: Active::new(request, req, &script.reach) })
    });
    prepared.map_err(|error| vm.call_error(&error))
}

/// Returns whether the coroutine waits or its slice ended. A yield by the script itself is an error.
fn paused(vm: &Vm, begun: Option<Operation>, coroutine: &Coroutine) -> Result<Pause, CallError> {
    match begun {
        Some(operation) => Ok(Pause::Wait(operation)),
        None if vm.budget.is_slice_end() => Ok(Pause::Slice),
        None => Err(CallError::Script {
            message: "handler called coroutine.yield outside a coroutine of its own: return the reply"
                .to_owned(),
            traceback: coroutine.traceback(&vm.lua),
        }),
    }
}

/// Keeps the coroutine of a successful call for the next call.
fn keep(vm: &Vm, coroutine: Coroutine) {
    let mut idle = vm.idle.borrow_mut();
    if idle.len() < IDLE_MAX {
        idle.push(coroutine);
    }
}

const IDLE_MAX: usize = 64;
/// Memory of a waiting call in bytes, apart from values of the script. `--example waiting` measures 1852
/// bytes.
const SUSPENDED_BYTES: usize = 2048;
