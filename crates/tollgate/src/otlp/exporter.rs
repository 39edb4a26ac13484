//! The thread `spans`, which gathers spans and posts them to the collector.
//!
//! The rules for refusals are those of the OTLP specification, section "Failures": 429, 502, 503 and 504 are
//! tried again, after `Retry-After` or with a growing pause. Another refusal loses its spans.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;
use tollgate_acme::{PostAnswer, Poster, RetryAfter};
use tollgate_server::{AccessBatch, AccessQueue};

use super::span::{END, beginning, push_span};
use crate::config::OtlpConfig;
use crate::wall;

/// Maximum spans of one request to the collector.
const SPANS_MAX: u64 = 512;
/// First pause after a failure. Each further pause has twice the length, up to `PAUSE_MAX`.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause, also if the collector asks for more.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Time after which spans that the collector does not take are lost.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Time that the spans have at the end of the server.
const PATIENCE: Duration = Duration::from_secs(1);

/// Starts, changes and ends the thread.
pub(crate) struct SpanExporter {
    orders: Orders,
    /// Closed by the end of the thread. `None`: the thread does not run.
    ended: Option<Receiver<()>>,
}

/// The queue, and the change that the thread has not followed yet.
#[derive(Clone)]
struct Orders {
    queue: Arc<AccessQueue>,
    change: Arc<Mutex<Option<SpanChange>>>,
}

/// A change of the export.
pub(crate) enum SpanChange {
    /// Spans go to this collector.
    Send(Box<Collector>),
    /// No span is exported any more.
    Stop,
}

/// A collector.
pub(crate) struct Collector {
    poster: Poster,
    beginning: String,
    queue_bytes_max: usize,
}

impl SpanExporter {
    /// Makes the exporter of the spans in a queue. The thread starts when it has a collector.
    pub(crate) fn new(queue: &Arc<AccessQueue>) -> Self {
        Self { orders: Orders { queue: queue.clone(), change: Arc::default() }, ended: None }
    }

    /// Prepares the export of a new configuration.
    ///
    /// # Errors
    /// The trusted authorities cannot be read.
    pub(crate) fn prepare(new: Option<&OtlpConfig>) -> anyhow::Result<SpanChange> {
        let Some(new) = new else { return Ok(SpanChange::Stop) };
        let poster = Poster::new(&new.url, &new.fields(), new.timeout).context("[otlp] cannot be used")?;
        let beginning = beginning(&new.service_name);
        Ok(SpanChange::Send(Box::new(Collector { poster, beginning, queue_bytes_max: new.queue_bytes_max })))
    }

    /// Applies a change to the spans from now on.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn apply(&mut self, change: SpanChange) -> anyhow::Result<()> {
        let is_needed = match &change {
            SpanChange::Send(collector) => {
                self.orders.queue.set_bytes_max(collector.queue_bytes_max);
                true
            }
            SpanChange::Stop => false,
        };
        *self.orders.change.lock().unwrap_or_else(PoisonError::into_inner) = Some(change);
        self.orders.queue.wake();
        if is_needed && self.ended.is_none() {
            self.ended = Some(start(self.orders.clone())?);
        }
        Ok(())
    }

    /// Ends the thread after the remaining spans, for `PATIENCE` at most. A slow collector does not hold the
    /// end of the server up.
    pub(crate) fn finish(self) {
        self.orders.queue.close();
        if let Some(ended) = self.ended {
            // The thread sends nothing. Its end closes the channel.
            let _ = ended.recv_timeout(PATIENCE);
        }
    }
}

fn start(orders: Orders) -> anyhow::Result<Receiver<()>> {
    let (end, ended): (Sender<()>, _) = channel();
    let run = move || {
        let open_at = Instant::now();
        Exporting { orders, collector: None, text: String::new(), spans: 0, open_at, is_failing: false }
            .run();
        drop(end);
    };
    let thread = thread::Builder::new().name("spans".to_owned()).spawn(run);
    thread.context("cannot start the thread of the spans")?;
    Ok(ended)
}

/// The state of the thread.
struct Exporting {
    orders: Orders,
    collector: Option<Box<Collector>>,
    /// Spans that are encoded and not sent, and their number.
    text: String,
    spans: u64,
    /// Time before which the collector gets no request.
    open_at: Instant,
    /// Whether the log of the server has a line about the present failure.
    is_failing: bool,
}

/// Result of one request to the collector.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Posted {
    /// The collector has the spans, except this number.
    Taken { rejected: u64 },
    /// The collector never takes these spans.
    Refused(String),
    /// The collector may take the spans later.
    Later(String, Option<RetryAfter>),
}

impl Exporting {
    fn run(&mut self) {
        loop {
            self.orders.queue.wait();
            self.orders.queue.gather();
            let is_end = self.follow();
            while let Some(batch) = self.orders.queue.pop() {
                self.push(&batch);
            }
            self.flush();
            if is_end {
                return;
            }
        }
    }

    /// Follows a change. Returns whether the server ends.
    fn follow(&mut self) -> bool {
        let is_end = self.orders.queue.settle();
        let change = self.orders.change.lock().unwrap_or_else(PoisonError::into_inner).take();
        match change {
            None => return is_end,
            Some(SpanChange::Send(collector)) => self.collector = Some(collector),
            Some(SpanChange::Stop) => self.collector = None,
        }
        self.orders.queue.note_failure(None);
        (self.open_at, self.is_failing) = (Instant::now(), false);
        is_end
    }

    fn push(&mut self, batch: &AccessBatch) {
        for line in batch.lines() {
            let Some(span) = line.span else { continue };
            if self.spans > 0 {
                self.text.push(',');
            }
            push_span(&mut self.text, &line, span);
            self.spans += 1;
            if self.spans == SPANS_MAX {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        let text = std::mem::take(&mut self.text);
        if spans > 0 {
            let lost = spans - self.send(&text, spans);
            self.orders.queue.note_lost(lost);
        }
    }

    /// Sends spans until the collector has them, or they are too old. Returns the number that it has.
    fn send(&mut self, text: &str, spans: u64) -> u64 {
        let begun = Instant::now();
        let mut pause = PAUSE;
        let mut is_last = false;
        loop {
            while !is_last && Instant::now() < self.open_at {
                self.orders.queue.pause(self.open_at.saturating_duration_since(Instant::now()));
                is_last = self.follow();
            }
            let Some(collector) = &self.collector else { return 0 };
            let content = [collector.beginning.as_str(), text, END].concat().into_bytes();
            match judge(collector.poster.post(content)) {
                Posted::Taken { rejected } => {
                    let taken = spans.saturating_sub(rejected);
                    self.orders.queue.note_written(taken);
                    self.note(None);
                    return taken;
                }
                Posted::Refused(reason) => {
                    self.note(Some(reason));
                    return 0;
                }
                Posted::Later(reason, after) => {
                    self.note(Some(reason));
                    let asked = after.map(|after| after.from(wall::now().as_second().cast_unsigned()));
                    self.open_at = Instant::now() + asked.unwrap_or_else(|| varied(pause)).min(PAUSE_MAX);
                    pause = (pause * 2).min(PAUSE_MAX);
                    if is_last || begun.elapsed() >= AGE_MAX {
                        return 0;
                    }
                }
            }
        }
    }

    /// Notes the result of a request to the collector. The log of the server gets a line when it changes.
    fn note(&mut self, failure: Option<String>) {
        let was_failing = std::mem::replace(&mut self.is_failing, failure.is_some());
        match &failure {
            Some(reason) if !was_failing => {
                tracing::warn!(reason, "the collector of [otlp] does not take spans");
            }
            None if was_failing => tracing::info!("the collector of [otlp] takes spans again"),
            _ => {}
        }
        self.orders.queue.note_failure(failure);
    }
}

/// Judges the result of a request.
pub(super) fn judge(answer: std::io::Result<PostAnswer>) -> Posted {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Posted::Later(format!("it cannot be reached: {error}"), None),
    };
    let reason = format!("it answers {}", answer.status);
    match answer.status {
        200..=299 => Posted::Taken { rejected: rejected(&answer.content) },
        429 | 502..=504 => Posted::Later(reason, answer.retry_after),
        _ => Posted::Refused(reason),
    }
}

/// Returns the number of spans that a partial success rejects. It is a number, or a text as in the JSON of
/// protocol buffers.
fn rejected(content: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(content).unwrap_or_default();
    let count = &answer["partialSuccess"]["rejectedSpans"];
    count.as_u64().or_else(|| count.as_str()?.parse().ok()).unwrap_or_default()
}

/// Varies a pause by a quarter, so that servers that failed together do not return together.
fn varied(pause: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    pause.mul_f64(0.75 + 0.5 * f64::from(random) / f64::from(u32::MAX))
}
