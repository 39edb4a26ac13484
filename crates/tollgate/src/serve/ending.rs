//! From the reason to stop to the drain: a failed log is waited out, a balancer is given its time, and who
//! wants a reload is told that there will be none.

use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use super::reporters::Reporters;
use crate::config::Config;
use crate::control::Reloaded;
use crate::event::{Event, Stop};
use crate::observe::Phase;

/// How long the loader may take for the rest of the log when the server stops. The next run loads what is
/// left.
pub(super) const FINISH_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the unbounded parts of the end.
const END_TIME: Duration = Duration::from_secs(10);

/// A failed log leaves routes without a stream served for as long as draining may take; a signal ends this
/// early.
pub(super) fn wait_failed(events: &Receiver<Event>, drain_timeout: Duration) {
    let end = Instant::now() + drain_timeout;
    while let Ok(event @ (Event::Reload(_) | Event::Changed(_))) =
        events.recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        refuse_reload(event, "not reloaded: the log failed, the server stops");
    }
}

/// Says that the server stops before it does: whoever balances has `drain_delay` to send requests elsewhere.
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
            // The log failed meanwhile: nothing is gained by waiting.
            Event::Stop(_) => return,
        }
    }
}

/// Answers who wants a reload while main takes the server down. Without a thread for it, they wait for the
/// end.
pub(super) fn refuse_from_now_on(events: Receiver<Event>) {
    let refuse = move || {
        for event in events {
            match event {
                Event::Reload(_) | Event::Changed(_) => refuse_reload(event, STOPS),
                // It stops already, and a log that failed is told by its end.
                Event::Stop(_) => {}
            }
        }
    };
    drop(thread::Builder::new().name("refuser".to_owned()).spawn(refuse));
}

/// Tells the log, and whoever asked, that a server which stops does not reload.
fn refuse_reload(event: Event, text: &str) {
    tracing::warn!("{text}");
    if let Event::Reload(Some(asker)) = event {
        asker.reply(&Reloaded { code: 1, text: text.to_owned() });
    }
}

const STOPS: &str = "not reloaded: the server stops";
