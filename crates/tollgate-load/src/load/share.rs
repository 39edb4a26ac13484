//! How much of the machine a loader takes: less than who answers requests, as much as anybody while it is far behind.

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;
use std::thread;

use super::worker::{Ended, Worker};

/// What a thread of a loader is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Share {
    /// What the others leave, though never nothing.
    #[default]
    Small,
    /// As much as any other thread.
    Equal,
}

/// How much nicer than the process whoever has a small share is.
const NICER: i32 = 5;

impl Share {
    /// Gives it to this thread. A loader that cannot be nice loads all the same.
    fn take(self) {
        if self == Self::Small
            && let Err(error) = be_nicer()
        {
            tracing::debug!(%error, "the loader has an equal share");
        }
    }
}

fn be_nicer() -> rustix::io::Result<()> {
    let thread = Some(gettid());
    setpriority_process(thread, getpriority_process(thread)? + NICER)
}

/// Runs the worker until it ends, each time in a thread of the share that it asked for.
///
/// Anybody may become nicer, but only who is privileged takes it back: so each share has a thread of its own, and this
/// one, which starts them, has never been nice.
pub(super) fn run(name: &str, worker: &mut Worker) {
    let mut share = Share::default();
    loop {
        let ended = thread::scope(|scope| {
            let run = || {
                share.take();
                worker.run(share)
            };
            let thread = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, run);
            thread.map(|thread| thread.join().unwrap_or(Ended::Over))
        });
        share = match ended {
            Ok(Ended::Wants(other)) => other,
            Ok(Ended::Over) => return,
            // Without a thread of its own it runs in this one, as it is.
            Err(_) => match worker.run(share) {
                Ended::Wants(other) => other,
                Ended::Over => return,
            },
        };
    }
}
