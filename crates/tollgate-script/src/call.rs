//! Answers for one call of a handler: its coroutine, its slices, its memory, until it is an outcome or an error.
//!
//! Memory: the allocator's limit stands only while the script itself runs, at what is used now plus what the call may
//! still grow by. Outside it is zero, so that mlua pushes without a protected call. Garbage counts until it is
//! collected. Setting and lifting the limit costs less than the noise of the measurement (30 ns); one that is left
//! standing costs some 110 ns a call.
//!
//! Measured (release, 2-core x86-64, Linux 6.18, best of 7 x 100,000 calls): 0.24 us for `return 204`, 0.62 us for
//! `return { json = { score = 7 }, record = { score = 7 } }`, 1.10 us with `req.query.x` and arithmetic on top.
//! `cargo run --release -p tollgate-script --example speed` prints these.
//!
//! An error that the script catches frees nothing from the limits: memory stays limited and time stays over.

use std::mem;
use std::rc::Rc;
use std::time::Duration;

use mlua::Lua;

use crate::error::CallError;
use crate::host::{Script, Vm};
use crate::reply::{Outcome, Reader};
use crate::request::{Active, Request};
use crate::sys::coroutine::{Coroutine, Ran};

/// A call under way. Dropping it ends it.
pub struct Call {
    script: Rc<Script>,
    state: State,
    spent: Duration,
    grown_bytes: isize,
}

enum State {
    Ready(Rc<Request>),
    Suspended(Running),
    Over,
}

/// What a call holds once it began.
struct Running {
    coroutine: Coroutine,
    active: Active,
}

/// What became of a call.
#[derive(Debug)]
pub enum Step {
    /// It ran its slice: give the worker back and resume it after the others.
    Sliced,
    /// It is over.
    Done(Result<Outcome, CallError>),
}

impl Call {
    pub(crate) fn new(script: Rc<Script>, request: Rc<Request>) -> Self {
        Self { script, state: State::Ready(request), spent: Duration::ZERO, grown_bytes: 0 }
    }

    /// Tells whether any of the script has run.
    pub fn has_begun(&self) -> bool {
        !matches!(self.state, State::Ready(_))
    }

    /// Runs the call until it is over or its slice is.
    pub fn resume(&mut self) -> Step {
        match mem::replace(&mut self.state, State::Over) {
            State::Ready(request) => match prepare(&self.script, request) {
                Ok(running) => self.run(running, Coroutine::start),
                Err(error) => Step::Done(Err(error)),
            },
            State::Suspended(running) => self.run(running, Coroutine::resume),
            State::Over => Step::Done(Err(CallError::script("the call is over already"))),
        }
    }

    fn run(&mut self, running: Running, go: fn(&Coroutine, &Lua) -> Ran) -> Step {
        let Running { coroutine, active } = running;
        let vm = Rc::clone(&self.script.vm);
        vm.budget.enter(self.spent, Some(coroutine.address()));
        vm.active.replace(Some(active));
        let end = match self.limited(&vm, |lua| go(&coroutine, lua)) {
            Ran::Returned => {
                let reader = self.reader(&vm);
                Some(coroutine.look(|value, second| reader.outcome(value, second)))
            }
            Ran::Yielded => yielded(&vm),
            Ran::Failed(error) => Some(Err(vm.call_error(&error))),
        };
        let active = vm.active.take();
        vm.kept.take_out();
        let stretch = vm.budget.leave();
        self.spent = stretch.spent;
        if let Some(traceback) = stretch.over {
            return Step::Done(Err(vm.cpu_error(traceback)));
        }
        match (end, active) {
            (None, Some(active)) => {
                self.state = State::Suspended(Running { coroutine, active });
                Step::Sliced
            }
            (None, None) => Step::Done(Err(CallError::script("the call lost its request"))),
            (Some(result), _) => {
                if result.is_ok() {
                    keep(&vm, coroutine);
                }
                Step::Done(result)
            }
        }
    }

    /// Runs the coroutine under the memory limit.
    fn limited(&mut self, vm: &Vm, go: impl FnOnce(&Lua) -> Ran) -> Ran {
        let before = vm.lua.used_memory();
        let grown = usize::try_from(self.grown_bytes).unwrap_or(0);
        let allowed = vm.options.memory_bytes_max.saturating_sub(grown).max(1);
        // A limit is refused only by a VM that mlua did not make.
        let _ = vm.lua.set_memory_limit(before.saturating_add(allowed));
        let ran = go(&vm.lua);
        let _ = vm.lua.set_memory_limit(0);
        self.grown_bytes += vm.lua.used_memory().cast_signed() - before.cast_signed();
        ran
    }

    fn reader<'a>(&'a self, vm: &'a Vm) -> Reader<'a> {
        Reader {
            marks: &vm.marks,
            budget: &vm.budget,
            scratch: &vm.scratch,
            reply_bytes_max: vm.options.reply_bytes_max,
            parts: &vm.reply_parts,
            columns: &self.script.columns,
            whole: self.script.whole,
        }
    }
}

/// Makes the coroutine and the `req` of a call.
fn prepare(script: &Script, request: Rc<Request>) -> Result<Running, CallError> {
    let vm = &script.vm;
    let method = request.head.method();
    let Some(function) = script.function(method) else {
        return Err(CallError::script(format!("script has no function for {}", method.as_str())));
    };
    let idle = vm.idle.borrow_mut().pop();
    let coroutine = idle.map_or_else(|| Coroutine::new(&vm.lua, function), Ok);
    let prepared = coroutine.and_then(|coroutine| {
        let req = coroutine.prepare(&vm.lua, function, &vm.req_metatable)?;
        Ok(Running { coroutine, active: Active { request, req } })
    });
    prepared.map_err(|error| vm.call_error(&error))
}

/// Tells a slice's end from a yield of the script.
fn yielded(vm: &Vm) -> Option<Result<Outcome, CallError>> {
    if vm.budget.is_slice_end() {
        return None;
    }
    Some(Err(CallError::script(
        "handler called coroutine.yield outside a coroutine of its own: return the reply",
    )))
}

/// Keeps the coroutine of a call that ended well for the next one.
fn keep(vm: &Vm, coroutine: Coroutine) {
    let mut idle = vm.idle.borrow_mut();
    if idle.len() < IDLE_MAX {
        idle.push(coroutine);
    }
}

const IDLE_MAX: usize = 64;
