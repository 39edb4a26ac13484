//! The thread `access`, which formats and writes the lines.

use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use tollgate_server::{AccessBatch, AccessQueue};

use super::format::push_line;
use super::output::{self, AccessOutput};
use crate::config::{AccessDestination, AccessFormat, AccessLogConfig};

/// Bytes of text that are written in one call.
const WRITE_BYTES: usize = 64 << 10;
/// Time that the lines have at the end of the server.
const PATIENCE: Duration = Duration::from_secs(1);
/// Shortest time between two log lines about lost lines.
const LOST_PAUSE: Duration = Duration::from_secs(10);

/// Starts, changes and ends the thread.
pub(crate) struct AccessWriter {
    reopener: AccessReopener,
    /// Closed by the end of the thread. `None`: the thread does not run.
    ended: Option<Receiver<()>>,
}

/// Orders the thread to open the file again. Clones share the order.
#[derive(Clone)]
pub(crate) struct AccessReopener {
    queue: Arc<AccessQueue>,
    orders: Arc<Mutex<Orders>>,
}

/// Orders that the thread has not followed yet.
#[derive(Default)]
struct Orders {
    is_reopening: bool,
    change: Option<AccessChange>,
}

/// A change of the access log, with a newly opened file.
pub(crate) enum AccessChange {
    /// Lines are written in another format. `None`: the file stays as it is.
    Write(Option<AccessOutput>, AccessFormat),
    /// No line is written any more.
    Stop,
}

impl AccessReopener {
    /// Opens the file again, so that another program may move it before.
    pub(crate) fn reopen(&self) {
        self.order(|orders| orders.is_reopening = true);
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner));
        self.queue.wake();
    }

    fn take_orders(&self) -> Orders {
        std::mem::take(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AccessWriter {
    /// Makes the writer of the lines in a queue. The thread starts when it has a file.
    pub(crate) fn new(queue: &Arc<AccessQueue>) -> Self {
        let reopener = AccessReopener { queue: queue.clone(), orders: Arc::default() };
        Self { reopener, ended: None }
    }

    pub(crate) fn reopener(&self) -> AccessReopener {
        self.reopener.clone()
    }

    /// Opens the file of a new configuration. The present file stays open if both configurations name it.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn prepare(
        present: Option<&AccessLogConfig>,
        new: Option<&AccessLogConfig>,
    ) -> anyhow::Result<AccessChange> {
        let Some(new) = new else { return Ok(AccessChange::Stop) };
        if present.is_some_and(|present| present.destination == new.destination) {
            return Ok(AccessChange::Write(None, new.format.clone()));
        }
        let destination = new.destination.clone();
        let file = open(&destination)?;
        Ok(AccessChange::Write(Some(AccessOutput::new(destination, file)), new.format.clone()))
    }

    /// Applies a change to the lines from now on.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn apply(&mut self, change: AccessChange) -> anyhow::Result<()> {
        let is_needed = matches!(change, AccessChange::Write(..));
        self.reopener.order(|orders| orders.change = Some(change));
        if is_needed && self.ended.is_none() {
            self.ended = Some(start(self.reopener.clone())?);
        }
        Ok(())
    }

    /// Ends the thread after the remaining lines, for `PATIENCE` at most. A blocked reader does not hold the
    /// end of the server up.
    pub(crate) fn finish(self) {
        self.reopener.queue.close();
        if let Some(ended) = self.ended {
            // The thread sends nothing. Its end closes the channel.
            let _ = ended.recv_timeout(PATIENCE);
        }
    }
}

fn open(destination: &AccessDestination) -> anyhow::Result<File> {
    let name = destination.name();
    output::open(destination).with_context(|| {
        format!(
            "cannot open the access log {name}: name a file that the server may write, in a folder that \
             exists"
        )
    })
}

fn start(orders: AccessReopener) -> anyhow::Result<Receiver<()>> {
    let (end, ended): (Sender<()>, _) = channel();
    let run = move || {
        Writing { orders, output: None, text: String::new(), lines: 0, told: Told::default() }.run();
        drop(end);
    };
    let thread = thread::Builder::new().name("access".to_owned()).spawn(run);
    thread.context("cannot start the thread of the access log")?;
    Ok(ended)
}

/// The state of the thread.
struct Writing {
    orders: AccessReopener,
    output: Option<(AccessOutput, AccessFormat)>,
    /// Lines that are formatted and not written, and their number.
    text: String,
    lines: u64,
    told: Told,
}

/// What the log lines of the server have said.
#[derive(Default)]
struct Told {
    lost: u64,
    lost_at: Option<Instant>,
    is_failing: bool,
}

impl Writing {
    fn run(&mut self) {
        loop {
            let taken = self.orders.queue.take();
            // The orders came before later lines, so they apply before these lines are written.
            let Orders { is_reopening, change } = self.orders.take_orders();
            let is_over = matches!(change, Some(AccessChange::Stop));
            if let Some(AccessChange::Write(output, format)) = change {
                self.change(output, format);
            }
            if is_reopening {
                self.reopen();
            }
            taken.batches.iter().for_each(|batch| self.push(batch));
            self.flush();
            if is_over {
                self.output = None;
            }
            self.tell_lost();
            if taken.is_end {
                return;
            }
            self.orders.queue.gather();
        }
    }

    fn change(&mut self, output: Option<AccessOutput>, format: AccessFormat) {
        let present = self.output.take().map(|(output, _)| output);
        self.output = output.or(present).map(|output| (output, format));
    }

    fn reopen(&mut self) {
        let Some((output, _)) = &mut self.output else { return };
        let file = output.destination.name();
        match output.reopen() {
            Ok(()) => tracing::info!(file, "SIGUSR1: the access log is open again"),
            Err(error) => {
                tracing::error!(file, %error, "the access log cannot be opened again: the old file stays");
            }
        }
    }

    fn push(&mut self, batch: &AccessBatch) {
        for line in batch.lines() {
            if let Some((_, format)) = &self.output {
                push_line(&mut self.text, format, &line);
            }
            self.lines += 1;
            if self.text.len() >= WRITE_BYTES {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let (text, lines) = (std::mem::take(&mut self.text), std::mem::take(&mut self.lines));
        if lines == 0 {
            return;
        }
        let queue = &self.orders.queue;
        let Some((output, _)) = &mut self.output else { return queue.note_lost(lines) };
        match output.write(&text) {
            Ok(()) => {
                self.told.is_failing = false;
                queue.note_written(lines);
            }
            Err(error) => {
                if !std::mem::replace(&mut self.told.is_failing, true) {
                    let file = output.destination.name();
                    tracing::error!(file, %error, "the access log cannot be written: its lines are lost");
                }
                queue.note_lost(lines);
            }
        }
        // The memory is used again for the next lines.
        self.text = text;
        self.text.clear();
    }

    /// Logs the number of lines that were lost since the last such log line.
    fn tell_lost(&mut self) {
        let lost = self.orders.queue.report().lost;
        let is_due = self.told.lost_at.is_none_or(|at| at.elapsed() >= LOST_PAUSE);
        if lost > self.told.lost && is_due {
            let lines = lost - self.told.lost;
            tracing::warn!(lines, "lines of the access log were lost");
            (self.told.lost, self.told.lost_at) = (lost, Some(Instant::now()));
        }
    }
}
