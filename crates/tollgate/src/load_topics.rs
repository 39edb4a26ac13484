//! `tollgate load --from kafka://BROKERS`: loads the topics that a Kafka sink wrote into databases.
//!
//! Each sink has a thread of its own. The position of each partition is in the database, so any number of
//! processes may load the same topics, and an ended process continues where it was.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tollgate_load::{
    DeclaredStreams, SinkError, SinkKind, SinkOptions, TopicLoadCounts, TopicLoadOptions, TopicLoader,
};
use tollgate_log::join_chain;
use tollgate_queue::BrokerOptions;

use crate::cli::WrongUsage;
use crate::config::{Config, SinkConfig};
use crate::load_end::OnceEnd;
use crate::print::{counted, note, problem};

/// The beginning of the address of a cluster.
const SCHEME: &str = "kafka://";
/// Shortest and longest pause after an error.
const BACKOFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// How long a single run tries again after errors.
const ONCE_PATIENCE: Duration = Duration::from_secs(60);
/// Time between two checks whether the threads have ended.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Returns the addresses of the brokers in a place. `None`: the place is no cluster.
pub(crate) fn brokers_of(place: &str) -> Option<&str> {
    place.strip_prefix(SCHEME)
}

/// Returns how brokers are reached: as a Kafka sink of the configuration reaches them, if it has the same
/// brokers.
pub(crate) fn broker_options(config: &Config, brokers: &str) -> BrokerOptions {
    let known = config.sinks.iter().find_map(|sink| match &sink.options.kind {
        SinkKind::Kafka(kafka) if kafka.broker.brokers == brokers => Some(kafka.broker.clone()),
        _ => None,
    });
    known.unwrap_or_else(|| BrokerOptions::new(brokers))
}

/// Loads until a signal, or until all records are loaded.
pub(crate) fn run(
    config: &Config,
    sinks: &[SinkConfig],
    brokers: &str,
    is_once: bool,
    signals: &Receiver<i32>,
) -> anyhow::Result<ExitCode> {
    ensure!(!brokers.is_empty(), WrongUsage("--from kafka:// needs a broker, like kafka://HOST:9092"));
    let databases: Vec<_> = sinks.iter().filter(|sink| sink.options.kind.is_database()).cloned().collect();
    ensure!(!databases.is_empty(), WrongUsage("no sink of the configuration is a database: add one"));
    let broker = broker_options(config, brokers);
    let stop = Arc::new(AtomicBool::new(false));
    tracing::info!(brokers, sinks = databases.len(), "loading topics");
    let start = |sink: &SinkConfig| {
        let sink = SinkOptions { declared: DeclaredStreams::default(), ..sink.options.clone() };
        let name = sink.name.clone();
        let options = TopicLoadOptions { broker: broker.clone(), sink };
        let thread = LoadThread { options, is_once, stop: stop.clone(), total: TopicLoadCounts::default() };
        let thread = thread::Builder::new().name(format!("load-{name}")).spawn(move || thread.run());
        thread.context("cannot start the thread of a sink")
    };
    let threads = databases.iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
    let mut is_stopped = false;
    while !threads.iter().all(thread::JoinHandle::is_finished) {
        if signals.recv_timeout(LOOK_PAUSE) != Err(RecvTimeoutError::Timeout) {
            is_stopped = true;
            break;
        }
    }
    stop.store(true, Ordering::SeqCst);
    let ends = threads.into_iter().map(|thread| thread.join().unwrap_or(false));
    let is_loaded = ends.fold(true, |all, one| all & one);
    if !is_once {
        return Ok(if is_loaded { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if is_stopped {
        problem("stopped before all records were loaded: the next run continues");
        return Ok(OnceEnd::Stopped.exit_code(&databases));
    }
    Ok(OnceEnd::of(is_loaded).exit_code(&databases))
}

/// The thread of one sink.
struct LoadThread {
    options: TopicLoadOptions,
    is_once: bool,
    stop: Arc<AtomicBool>,
    /// Counts of the loaders that ended.
    total: TopicLoadCounts,
}

impl LoadThread {
    /// Loads until the end. Returns whether no error ended it.
    fn run(mut self) -> bool {
        let mut failing_since: Option<Instant> = None;
        let mut pause = BACKOFF[0];
        while !self.stop.load(Ordering::SeqCst) {
            let begun = Instant::now();
            let Err(error) = self.load() else { break };
            if begun.elapsed() > BACKOFF[1] {
                (failing_since, pause) = (None, BACKOFF[0]);
            }
            let since = *failing_since.get_or_insert(begun);
            let text = join_chain(&error);
            if !error.is_retriable() || self.is_once && since.elapsed() > ONCE_PATIENCE {
                problem(&format!("sink {} is stopped: {text}", self.options.sink.name));
                self.print();
                return false;
            }
            tracing::warn!(sink = self.options.sink.name, error = text, "the load of topics is tried again");
            thread::sleep(pause);
            pause = (pause * 2).min(BACKOFF[1]);
        }
        self.print();
        true
    }

    /// Loads until an error, the end of a single run, or the stop.
    fn load(&mut self) -> Result<(), SinkError> {
        let mut loader = TopicLoader::open(&self.options)?;
        let loaded = loop {
            let is_over = self.stop.load(Ordering::SeqCst) || self.is_once && loader.is_caught_up();
            if is_over {
                break Ok(());
            }
            if let Err(error) = loader.step() {
                break Err(error);
            }
        };
        let counts = loader.counts();
        self.total.rows += counts.rows;
        self.total.rejects += counts.rejects;
        self.total.duplicates += counts.duplicates;
        self.total.missing += counts.missing;
        loaded
    }

    fn print(&self) {
        let TopicLoadCounts { rows, rejects, duplicates, missing } = self.total;
        note(&format!(
            "sink {}: {}, {}, {}, {missing} missing",
            self.options.sink.name,
            counted(rows, "row"),
            counted(rejects, "reject"),
            counted(duplicates, "duplicate")
        ));
    }
}
