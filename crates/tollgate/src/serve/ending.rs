//! The end of a server, from the reason to stop to the drain.
//!
//! A failed log is waited out. A load balancer gets its time. A request to reload is refused.

use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use super::reporters::Reporters;
use crate::config::Config;
use crate::control::Reloaded;
use crate::event::{Event, Stop};
use crate::observe::Phase;

/// Time that the loader has for the rest of the log when the server stops. The next run loads the remaining
/// records.
pub(super) const FINISH_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the parts of the end that have no bound of their own.
const END_TIME: Duration = Duration::from_secs(10);

/// Keeps serving the routes without a stream after the log failed, for `drain_timeout` at most. A signal ends
/// this early.
pub(super) fn wait_failed(events: &Receiver<Event>, drain_timeout: Duration) {
    let end = Instant::now() + drain_timeout;
    while let Ok(event @ (Event::Reload(_) | Event::Changed(_))) =
        events.recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        refuse_reload(event, "not reloaded: the log failed, the server stops");
    }
}

/// Reports that the server stops before it does. A load balancer has `drain_delay` to send requests
/// elsewhere.
pub(super) fn delay_drain(stop: &Stop, config: &Config, reporters: &Reporters, events: &Receiver<Event>) {
    reporters.observer.enter(Phase::Draining);
    let delay = match stop {
        Stop::Signal(_) => config.drain_delay,
        Stop::LogFailed(_) => Duration::ZERO,
    };
    reporters.notifier.stopping(delay + config.server.drain_timeout + FINISH_TIMEOUT + END_TIME);
    if delay.is_zero() {
        return;
    }
    let delay_ms = delay.as_millis() as u64;
    tracing::info!(delay_ms, "not ready any more: connections are accepted until the delay is over");
    let end = Instant::now() + delay;
    while let Ok(event) = events.recv_timeout(end.saturating_duration_since(Instant::now())) {
        match event {
            Event::Reload(_) | Event::Changed(_) => refuse_reload(event, STOPS),
            // The log failed meanwhile, so more waiting gains nothing.
            Event::Stop(_) => return,
        }
    }
}

/// Refuses reloads while the main thread takes the server down. If this thread cannot start, the askers wait
/// for the end.
pub(super) fn refuse_from_now_on(events: Receiver<Event>) {
    let refuse = move || {
        for event in events {
            match event {
                Event::Reload(_) | Event::Changed(_) => refuse_reload(event, STOPS),
                // The server stops already. A failed log is reported at the end.
                Event::Stop(_) => {}
            }
        }
    };
    drop(thread::Builder::new().name("refuser".to_owned()).spawn(refuse));
}

/// Reports to the log and to the asker that a server which stops does not reload.
fn refuse_reload(event: Event, text: &str) {
    tracing::warn!("{text}");
    if let Event::Reload(Some(asker)) = event {
        asker.reply(&Reloaded { code: 1, text: text.to_owned() });
    }
}

const STOPS: &str = "not reloaded: the server stops";
