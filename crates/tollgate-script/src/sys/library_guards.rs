//! Guards for library functions of Luau that have no interrupt, and whose work is not bounded by their input.
//!
//! A guard refuses a call that may need more time than two CPU budgets, or does the work with another
//! algorithm.
//!
//! Each guard calls Luau's own function within the same stack frame. A guard costs a few nanoseconds, and
//! errors still name the line of the script. Functions whose work is linear in their input have no guard. The
//! slowest of these functions need about 40 ms for 16 MiB.

mod arguments;
mod pattern;

use std::ffi::{CStr, c_int, c_void};
use std::time::Duration;

use memchr::{memchr, memmem};
use mlua::{Lua, ffi};

use arguments::Arguments;
use pattern::{has_specials, longest_set};

/// Replaces functions of `string` and `os` with their guards.
///
/// # Errors
/// Out of memory.
pub(crate) fn guard(lua: &Lua, cpu_budget: Duration) -> mlua::Result<()> {
    let budgets = (cpu_budget.as_secs_f64() / BUDGET_USUAL.as_secs_f64()).max(1.0);
    for (library, functions) in GUARDED {
        let library: mlua::Table = lua.globals().raw_get(*library)?;
        // SAFETY: the library is the only value on the stack. `guarded` and `Arguments` read exactly these
        // upvalues.
        unsafe {
            lua.exec_raw::<()>(library, |state| {
                for &(name, guarded) in *functions {
                    ffi::lua_getfield(state, 1, name.as_ptr());
                    let original = ffi::lua_tocfunction(state, -1);
                    ffi::lua_settop(state, 1);
                    let original = original.map_or(std::ptr::null_mut(), |original| original as *mut c_void);
                    ffi::lua_pushlightuserdata(state, original);
                    ffi::lua_pushnumber(state, SET_STEPS_MAX * budgets);
                    ffi::lua_pushcclosured(state, guarded, name.as_ptr(), 2);
                    ffi::lua_setfield(state, 1, name.as_ptr());
                }
            })?;
        }
    }
    Ok(())
}

type Functions = &'static [(&'static CStr, ffi::lua_CFunction)];

const GUARDED: &[(&str, Functions)] = &[
    (
        "string",
        &[
            (c"find", guarded::<Find>),
            (c"match", guarded::<Match>),
            (c"gmatch", guarded::<Gmatch>),
            (c"gsub", guarded::<Gsub>),
            (c"split", guarded::<Split>),
            (c"pack", guarded::<Pack>),
            (c"packsize", guarded::<Packsize>),
            (c"unpack", guarded::<Unpack>),
        ],
    ),
    ("os", &[(c"date", guarded::<Date>)]),
];

/// Decision of a guard about a call.
enum GuardDecision {
    /// Luau's own function runs.
    Pass,
    /// The guard did the work. The value is the number of return values on the stack.
    Done(c_int),
    Refuse(String),
}

trait Guard {
    fn decide(arguments: &Arguments) -> GuardDecision;
}

unsafe extern "C-unwind" fn guarded<G: Guard>(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Luau calls this function with its arguments on the stack. `guard` pushed the upvalues.
    unsafe {
        let refusal = match G::decide(&Arguments::of(state)) {
            GuardDecision::Pass => {
                let original = ffi::lua_tolightuserdata(state, ffi::lua_upvalueindex(1));
                let original: Option<ffi::lua_CFunction> = std::mem::transmute(original);
                return original.map_or(0, |original| original(state));
            }
            GuardDecision::Done(count) => return count,
            GuardDecision::Refuse(refusal) => refusal,
        };
        ffi::luaL_where(state, 1);
        ffi::lua_pushlstring_(state, refusal.as_ptr().cast(), refusal.len());
        drop(refusal);
        ffi::lua_concat(state, 2);
        ffi::lua_error(state)
    }
}

struct Find;
struct Match;
struct Gmatch;
struct Gsub;
struct Split;
struct Pack;
struct Packsize;
struct Unpack;
struct Date;

impl Guard for Find {
    /// A plain search in Luau may compare each byte many times. A long search therefore uses a linear
    /// algorithm.
    fn decide(arguments: &Arguments) -> GuardDecision {
        let (Some(text), Some(pattern)) = (arguments.text(1), arguments.text(2)) else {
            return GuardDecision::Pass;
        };
        if text.len() <= TEXT_USUAL && product(text, pattern.len()) <= PRODUCT_USUAL {
            return GuardDecision::Pass;
        }
        if !arguments.is_true(4) && has_specials(pattern) {
            return judge_sets("string.find", arguments, text, pattern);
        }
        let start = arguments.position(3, text.len());
        let found = text.get(start..).and_then(|rest| memmem::find(rest, pattern)).map(|at| start + at);
        GuardDecision::Done(arguments.push_range(found.map(|at| (at + 1, at + pattern.len()))))
    }
}

impl Guard for Match {
    fn decide(arguments: &Arguments) -> GuardDecision {
        judge_pattern("string.match", arguments)
    }
}

impl Guard for Gmatch {
    fn decide(arguments: &Arguments) -> GuardDecision {
        judge_pattern("string.gmatch", arguments)
    }
}

impl Guard for Gsub {
    /// References to captures in a replacement may be empty. Empty references cost time but no memory, so the
    /// memory limit does not bound them.
    fn decide(arguments: &Arguments) -> GuardDecision {
        match arguments.text(3) {
            Some(replacement)
                if replacement.len() > REPLACEMENT_BYTES_MAX && memchr(b'%', replacement).is_some() =>
            {
                let bytes = replacement.len();
                GuardDecision::Refuse(format!(
                    "string.gsub exceeds limit: replacement with % of {bytes} bytes, limit {REPLACEMENT_BYTES_MAX} bytes"
                ))
            }
            _ => judge_pattern("string.gsub", arguments),
        }
    }
}

impl Guard for Split {
    fn decide(arguments: &Arguments) -> GuardDecision {
        let (Some(text), Some(separator)) = (arguments.text(1), arguments.text(2)) else {
            return GuardDecision::Pass;
        };
        if separator.len() <= SEPARATOR_USUAL || product(text, separator.len()) <= SPLIT_PRODUCT_MAX {
            return GuardDecision::Pass;
        }
        GuardDecision::Refuse(format!(
            "string.split exceeds limit: {} bytes of text times {} of a separator, limit {SPLIT_PRODUCT_MAX}",
            text.len(),
            separator.len()
        ))
    }
}

impl Guard for Pack {
    fn decide(arguments: &Arguments) -> GuardDecision {
        judge_format("string.pack", arguments)
    }
}

impl Guard for Packsize {
    fn decide(arguments: &Arguments) -> GuardDecision {
        judge_format("string.packsize", arguments)
    }
}

impl Guard for Unpack {
    fn decide(arguments: &Arguments) -> GuardDecision {
        judge_format("string.unpack", arguments)
    }
}

impl Guard for Date {
    fn decide(arguments: &Arguments) -> GuardDecision {
        judge_format("os.date", arguments)
    }
}

fn judge_pattern(function: &str, arguments: &Arguments) -> GuardDecision {
    match (arguments.text(1), arguments.text(2)) {
        (Some(text), Some(pattern)) => judge_sets(function, arguments, text, pattern),
        _ => GuardDecision::Pass,
    }
}

/// Refuses a call whose sets may need too many comparisons. A repetition consumes all characters that match
/// without an interrupt, and compares each character with every item of its set.
fn judge_sets(function: &str, arguments: &Arguments, text: &[u8], pattern: &[u8]) -> GuardDecision {
    if product(text, pattern.len()) <= PRODUCT_USUAL {
        return GuardDecision::Pass;
    }
    let (items, steps_max) = (longest_set(pattern), arguments.set_steps_max());
    if product(text, items) <= steps_max {
        return GuardDecision::Pass;
    }
    GuardDecision::Refuse(format!(
        "{function} exceeds limit: {} bytes of text times {items} items of a set, limit {steps_max}",
        text.len()
    ))
}

fn judge_format(function: &str, arguments: &Arguments) -> GuardDecision {
    match arguments.text(1) {
        Some(format) if format.len() > FORMAT_BYTES_MAX => GuardDecision::Refuse(format!(
            "{function} exceeds limit: format of {} bytes, limit {FORMAT_BYTES_MAX} bytes",
            format.len()
        )),
        _ => GuardDecision::Pass,
    }
}

fn product(text: &[u8], factor: usize) -> u64 {
    (text.len() as u64).saturating_mul(factor as u64)
}

/// CPU budget for which [`SET_STEPS_MAX`] applies. A larger budget allows proportionally more comparisons.
const BUDGET_USUAL: Duration = Duration::from_millis(50);
/// Maximum number of comparisons of characters with items of a set. That many comparisons need about 100 ms.
const SET_STEPS_MAX: f64 = (1 << 26) as f64;
/// Maximum product of text bytes and pattern bytes that is always accepted.
const PRODUCT_USUAL: u64 = 1 << 26;
/// Maximum bytes of text for Luau's own plain search. For this number of bytes, the search needs a few
/// milliseconds.
const TEXT_USUAL: usize = 1 << 20;
/// Maximum bytes of a separator that is always accepted. Such separators are compared as fast as one byte.
const SEPARATOR_USUAL: usize = 64;
/// Maximum number of bytes that a split compares in the worst case. The comparison needs about 100 ms.
const SPLIT_PRODUCT_MAX: u64 = 1 << 28;
/// Maximum bytes of a replacement that refers to captures. Each two bytes may refer to a capture, which costs
/// 80 ns.
const REPLACEMENT_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of a format, far more than a real format needs. Each two bytes may be a conversion, which
/// costs 300 ns.
const FORMAT_BYTES_MAX: usize = 64 << 10;
