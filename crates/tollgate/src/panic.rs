//! The effect of a panic in a thread on the process.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::{panic, process, thread};

use crate::print::note;
use crate::tracing_lines;

/// Ends the process when a thread panics. Loader threads and the thread `acme` are the exception, because
/// their work begins again.
///
/// The state of a worker or a log thread is unknown after a panic. The end of the process is safe, because
/// the next start recovers the log.
pub(crate) fn abort_on_panic() {
    panic::set_hook(Box::new(|info| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("without a name");
        note(&format!("thread {name} {info}{}", backtrace()));
        if !name.starts_with("load-") && name != "acme" {
            tracing_lines::finish();
            process::abort();
        }
    }));
}

/// Returns the stack of the thread, if `RUST_BACKTRACE` is set.
fn backtrace() -> String {
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() }
}
