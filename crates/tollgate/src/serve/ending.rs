//! The end of a server, from the reason to stop until the drain begins.
//!
//! After a failed log, routes without a stream are served for `drain_timeout`. After a signal, a load
//! balancer has `drain_delay` to notice the end. Requests to reload are refused.

use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use super::reporters::Reporters;
use crate::config::Config;
use crate::control::Reloaded;
use crate::event::{Event, Stop};
use crate::observe::Phase;
use crate::upgrade::UpgradeOrder;

/// Time that the loader has for the remaining records when the server stops. Records that are not loaded in
/// this time are loaded by the next run.
pub(super) const FINISH_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the steps of the end that have no timeout of their own. This time is added to the others in the
/// report to systemd.
const END_TIME: Duration = Duration::from_secs(10);

/// Keeps serving the routes without a stream after the log failed, for `drain_timeout` at most. A signal ends
/// this early.
pub(super) fn wait_failed(events: &Receiver<Event>, drain_timeout: Duration) {
    let end = Instant::now() + drain_timeout;
    while let Ok(event) = events.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if let Event::Stop(_) = event {
            return;
        }
        refuse_order(event, "the log failed, the server stops");
    }
}

/// Reports that the server will stop, then waits for `drain_delay`. In this time a load balancer can send
/// requests elsewhere.
pub(super) fn delay_drain(stop: &Stop, config: &Config, reporters: &Reporters, events: &Receiver<Event>) {
    reporters.observer.enter(Phase::Draining);
    let delay = match stop {
        Stop::Signal(_) => config.drain_delay,
        // The new process serves the same addresses.
        Stop::LogFailed(_) | Stop::Replaced(_) => Duration::ZERO,
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
            // The log failed or a second order to stop arrived, so the delay ends.
            Event::Stop(_) => return,
            order => refuse_order(order, STOPS),
        }
    }
}

/// Refuses reloads in a thread of its own, while the main thread stops the server. If this thread cannot
/// start, the askers get no answer until the server ends.
pub(super) fn refuse_from_now_on(events: Receiver<Event>) {
    let refuse = move || {
        for event in events {
            match event {
                // The server is already stopping. The main thread reports a failed log later.
                Event::Stop(_) => {}
                order => refuse_order(order, STOPS),
            }
        }
    };
    drop(thread::Builder::new().name("refuser".to_owned()).spawn(refuse));
}

/// Logs that a stopping server neither reloads nor renews nor upgrades, and sends this answer to the asker.
fn refuse_order(event: Event, reason: &str) {
    let (done, asker) = match event {
        Event::Reload(asker) => ("reloaded", asker),
        Event::Renew(_, asker) => ("reloaded", Some(asker)),
        Event::Upgrade(UpgradeOrder { asker, .. }) => ("upgraded", asker),
        Event::Changed(_) => ("reloaded", None),
        // The new process is killed.
        Event::Upgraded(_) | Event::Stop(_) => return,
    };
    let text = format!("not {done}: {reason}");
    tracing::warn!("{text}");
    if let Some(asker) = asker {
        asker.reply(&Reloaded { code: 1, text });
    }
}

const STOPS: &str = "the server stops";
