//! One round: a phase of a transaction, a fault, and progress after it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tollgate_faults::kafka::{Flow, Kafka};
use tollgate_queue::Client;

use crate::random::Random;

/// Longest time until a writer makes progress after a fault. It is many times the timeouts of the writer. A
/// writer without progress is stuck: it is killed, and the next one has to go on.
const PROGRESS_MAX: Duration = Duration::from_secs(45);

/// What fails in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundFault {
    WriterKilled,
    /// The writer is frozen, and wakes up after another writer took over.
    WriterFrozen,
    BrokerFrozen,
    /// The broker is killed and started again.
    BrokerKilled,
    LinkFrozen,
    LinkCut,
}

pub(crate) const FAULTS: [RoundFault; 5] = [
    RoundFault::WriterKilled,
    RoundFault::WriterFrozen,
    RoundFault::BrokerFrozen,
    RoundFault::LinkFrozen,
    RoundFault::LinkCut,
];
const PHASES: [&str; 4] = ["opening", "sending", "committing", "committed"];

/// A writer with the lines that it printed.
pub(crate) struct Writer {
    process: Child,
    lines: Receiver<String>,
    pub(crate) committed: u64,
}

impl Writer {
    pub(crate) fn start(client: Client, kafka: &Kafka) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "writer_process", "--ignored", "--nocapture"])
            .env("TOLLGATE_QUEUE_WRITER", client.name())
            .env("TOLLGATE_QUEUE_BROKER", kafka.address())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start the writer");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        let (teller, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| teller.send(line)));
        Self { process, lines, committed: 0 }
    }

    /// Waits for a line that begins with one of these words, and returns the line. `None`: the writer is
    /// stuck.
    fn wait_for(&mut self, words: &[&str]) -> Option<String> {
        let begun = Instant::now();
        loop {
            let left = PROGRESS_MAX.saturating_sub(begun.elapsed());
            let line = self.lines.recv_timeout(left).ok()?;
            self.note(&line);
            if words.iter().any(|word| line.starts_with(word)) {
                return Some(line);
            }
        }
    }

    /// Waits for two commits after this call. Returns false if the writer is stuck.
    pub(crate) fn makes_progress(&mut self) -> bool {
        while let Ok(line) = self.lines.try_recv() {
            self.note(&line);
        }
        (0..2).all(|_| self.wait_for(&["committed"]).is_some())
    }

    fn note(&mut self, line: &str) {
        if let Some(number) = line.strip_prefix("committed ") {
            self.committed = number.parse().expect("a number");
        }
    }

    /// Kills the writer, and starts the next one.
    fn replaced(self, client: Client, kafka: &Kafka) -> Self {
        let committed = self.committed;
        drop(self);
        let mut next = Self::start(client, kafka);
        next.committed = committed;
        next
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.process.id().cast_signed()).expect("an id");
        kill_process(id, signal).expect("signal the writer");
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// What a round showed.
pub(crate) struct Outcome {
    pub(crate) text: String,
    /// Whether a writer was stuck after the fault.
    pub(crate) is_stuck: bool,
}

/// Runs a round, and returns the writer that is left.
pub(crate) fn round(
    client: Client,
    kafka: &mut Kafka,
    mut writer: Writer,
    fault: RoundFault,
    random: &mut Random,
) -> (Writer, Outcome) {
    let phase = random.one_of(&PHASES);
    if phase == "opening" {
        // A writer opens only at its start.
        writer = writer.replaced(client, kafka);
    }
    assert!(writer.wait_for(&[phase]).is_some(), "no {phase} of an undisturbed writer");
    let delay = Duration::from_micros(random.below(8_000));
    thread::sleep(delay);
    let held = Duration::from_millis(100 + random.below(5_000));
    let mut is_stuck = false;
    match fault {
        RoundFault::WriterKilled => writer = writer.replaced(client, kafka),
        RoundFault::WriterFrozen => {
            writer.signal(Signal::STOP);
            let mut next = Writer::start(client, kafka);
            assert!(next.makes_progress(), "no progress of the writer after a frozen one");
            writer.signal(Signal::CONT);
            // The broker fences the zombie, which has to notice that.
            // If the zombie opens again, it fences the next writer.
            is_stuck = writer.wait_for(&["fenced", "failed", "opening"]).is_none();
            drop(writer);
            writer = next.replaced(client, kafka);
        }
        RoundFault::BrokerFrozen => {
            kafka.freeze();
            thread::sleep(held);
            kafka.thaw();
        }
        RoundFault::BrokerKilled => {
            kafka.kill();
            kafka.run();
        }
        RoundFault::LinkFrozen | RoundFault::LinkCut => {
            let is_frozen = fault == RoundFault::LinkFrozen;
            kafka.link().set(if is_frozen { Flow::Frozen } else { Flow::Cut });
            thread::sleep(held);
            kafka.link().set(Flow::Open);
        }
    }
    if !writer.makes_progress() {
        is_stuck = true;
        writer = writer.replaced(client, kafka);
        assert!(writer.makes_progress(), "no progress of a new writer after a stuck one");
    }
    let stuck = if is_stuck { " STUCK" } else { "" };
    (writer, Outcome { text: format!("{fault:?} {phase} {delay:?} {held:?}{stuck}"), is_stuck })
}
