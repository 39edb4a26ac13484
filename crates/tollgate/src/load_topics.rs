//! `tollgate load --from kafka://BROKERS`: loads the topics that a Kafka sink wrote into databases.
//!
//! Each sink has a thread of its own. The position of each partition is in the database, so any number of
//! processes may load the same topics, and an ended process continues where it was.

mod loading;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, ensure};
use tollgate_load::{DeclaredStreams, LoadWatch, SinkKind, SinkOptions, TopicLoadOptions};
use tollgate_queue::{BrokerAddress, BrokerOptions};

use crate::cli::WrongUsage;
use crate::config::{Config, SinkConfig};
use crate::load_end::OnceEnd;
use crate::print::problem;
use loading::{LoadThread, SharedProgress};

/// The beginning of the address of a cluster.
const SCHEME: &str = "kafka://";
/// Time between two checks whether the threads have ended.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Returns the addresses of the brokers in a place. `None`: the place is no cluster.
pub(crate) fn brokers_of(place: &str) -> Option<&str> {
    place.strip_prefix(SCHEME)
}

/// Returns how brokers are reached: as a Kafka sink of the configuration reaches them, if it has one of
/// these brokers.
///
/// # Errors
/// One of the addresses is not `host:port`.
pub(crate) fn broker_options(config: &Config, brokers: &str) -> anyhow::Result<BrokerOptions> {
    BrokerAddress::list(brokers).context(WrongUsage("cannot read the addresses of the brokers"))?;
    let has_one = |options: &&BrokerOptions| BrokerAddress::have_common(&options.brokers, brokers);
    let mut sinks = config.sinks.iter().filter_map(|sink| match &sink.options.kind {
        SinkKind::Kafka(kafka) => Some(&kafka.broker),
        _ => None,
    });
    let known = sinks.find(has_one).cloned();
    let options = known.unwrap_or_else(|| BrokerOptions::new(brokers));
    Ok(BrokerOptions { brokers: brokers.to_owned(), ..options })
}

/// The threads that load topics, one for each database.
pub(crate) struct LoadTopics {
    databases: Vec<SinkConfig>,
    threads: Vec<JoinHandle<bool>>,
    watches: Vec<LoadWatch>,
    stop: Arc<AtomicBool>,
    is_once: bool,
}

impl LoadTopics {
    /// Starts to load. `is_once`: the threads end when all records are loaded.
    ///
    /// # Errors
    /// No broker or no database is named, or a thread cannot be started.
    pub(crate) fn start(
        config: &Config,
        sinks: &[SinkConfig],
        brokers: &str,
        is_once: bool,
    ) -> anyhow::Result<Self> {
        ensure!(!brokers.is_empty(), WrongUsage("--from kafka:// needs a broker, like kafka://HOST:9092"));
        let databases: Vec<_> =
            sinks.iter().filter(|sink| sink.options.kind.is_database()).cloned().collect();
        ensure!(!databases.is_empty(), WrongUsage("no sink of the configuration is a database: add one"));
        let (broker, stop) = (broker_options(config, brokers)?, Arc::new(AtomicBool::new(false)));
        let mut topics = Self { databases, threads: Vec::new(), watches: Vec::new(), stop, is_once };
        for sink in &topics.databases {
            let sink = SinkOptions { declared: DeclaredStreams::default(), ..sink.options.clone() };
            let (name, progress) = (sink.name.clone(), SharedProgress::new());
            topics.watches.push(progress.watch(&name));
            let options = TopicLoadOptions { broker: broker.clone(), sink, is_once };
            let thread = LoadThread { options, stop: topics.stop.clone(), progress };
            let thread = thread::Builder::new().name(format!("load-{name}")).spawn(move || thread.run());
            topics.threads.push(thread.context("cannot start the thread of a sink")?);
        }
        Ok(topics)
    }

    /// Returns the handles of the threads, for reports.
    pub(crate) fn watches(&self) -> Vec<LoadWatch> {
        self.watches.clone()
    }

    /// Waits until a signal, or until all threads have ended. `on_stop` runs before the threads are ended.
    pub(crate) fn finish(self, signals: &Receiver<i32>, on_stop: impl FnOnce()) -> ExitCode {
        let mut is_stopped = false;
        while !is_stopped && !self.threads.iter().all(JoinHandle::is_finished) {
            is_stopped = signals.recv_timeout(LOOK_PAUSE) != Err(RecvTimeoutError::Timeout);
        }
        on_stop();
        self.stop.store(true, Ordering::SeqCst);
        let ends = self.threads.into_iter().map(|thread| thread.join().unwrap_or(false));
        let is_loaded = ends.fold(true, |all, one| all & one);
        if !self.is_once {
            return if is_loaded { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        if is_stopped {
            problem("stopped before all records were loaded: the next run continues");
            return OnceEnd::Stopped.exit_code(&self.databases);
        }
        OnceEnd::of(is_loaded).exit_code(&self.databases)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn one_broker_in_common_gives_the_security_of_the_sink_and_keeps_the_named_brokers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t.toml");
        fs::write(&file, "[sink.bus]\nkafka = \"a:1,b:2\"\ntls = true\n").unwrap();
        let config = Config::load(&file).unwrap();
        for (brokers, has_tls) in
            [("a:1,b:2", true), ("b:2", true), ("c:3, B:2", true), ("a:2", false), ("c:1,b:1", false)]
        {
            let options = broker_options(&config, brokers).unwrap();
            assert_eq!(options.security.tls.is_some(), has_tls, "{brokers}");
            assert_eq!(options.brokers, brokers);
        }
        for brokers in ["", "a", "a:1/topic"] {
            let error = broker_options(&config, brokers).unwrap_err();
            assert!(
                error.is::<WrongUsage>() && format!("{error:#}").contains("needed is host:port"),
                "{error:#}"
            );
        }
    }
}
