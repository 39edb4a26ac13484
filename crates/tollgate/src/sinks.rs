//! The sinks of a running server. This module registers the sinks that segments are kept for, owns the
//! loaders of this process, and changes both after a reload.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_load::{FinishError, LiveLog, LoadStatus, LoadWatch, Loader, SinkError};
use tollgate_log::{Follower, Log, LogId, Sequence, SinkPlace};

use crate::config::{Config, Fault, LoadedBy, SinkConfig};
use crate::loader::{Runs, start_loader};

/// Time that the check of streams waits for databases. If a database answers later, its loader reports the
/// faults.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The sinks that segments are kept for, by name. A position that is reported for another sink is ignored.
#[derive(Clone, Default)]
pub(crate) struct Followers(Arc<Mutex<BTreeMap<String, Follower>>>);

impl Followers {
    #[cfg(test)]
    pub(crate) fn of(sink: &str, follower: Follower) -> Self {
        Self(Arc::new(Mutex::new(BTreeMap::from([(sink.to_owned(), follower)]))))
    }

    /// Notes that a sink has committed all records of a log up to `last`.
    pub(crate) fn confirm(&self, sink: &str, log: LogId, last: Sequence) {
        if let Some(follower) = self.all().get(sink) {
            follower.confirm(log, last);
        }
    }

    /// Returns the names of all sinks.
    pub(crate) fn names(&self) -> Vec<String> {
        self.all().keys().cloned().collect()
    }

    /// Locks the map, also after a panic of another thread. The map is consistent after every statement.
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Follower>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sinks of the present configuration.
pub(crate) struct Sinks {
    followers: Followers,
    loading: Loading,
}

/// The process that loads.
enum Loading {
    /// No process is expected to load, so no segment is ever deleted.
    Nobody,
    Others,
    Here(BTreeMap<String, Loader>),
}

impl Sinks {
    /// Registers the sinks. From now on, a segment is deleted only after each of these sinks has loaded it.
    pub(crate) fn follow(config: &Config, log: &Log) -> Self {
        let loading = match config.load.by {
            LoadedBy::Nobody => Loading::Nobody,
            LoadedBy::Others => Loading::Others,
            LoadedBy::Server => Loading::Here(BTreeMap::new()),
        };
        let sinks = Self { followers: Followers::default(), loading };
        sinks.admit(config, log);
        sinks
    }

    /// Registers the sinks of this configuration. From now on, a segment is deleted only after each of these
    /// sinks has loaded it.
    pub(crate) fn admit(&self, config: &Config, log: &Log) {
        if matches!(self.loading, Loading::Nobody) {
            return;
        }
        for sink in &config.sinks {
            self.followers.all().entry(sink.name().to_owned()).or_insert_with(|| log.add_sink());
        }
    }

    /// Removes the sinks that this configuration does not have. Segments are no longer kept for them.
    pub(crate) fn dismiss(&self, config: &Config, log: &Log) {
        self.followers.all().retain(|name, follower| {
            let is_kept = config.sink(name).is_some();
            if !is_kept {
                log.remove_sink(follower);
            }
            is_kept
        });
    }

    /// Returns the place of a sink in the log.
    pub(crate) fn place_of(&self, name: &str) -> Option<SinkPlace> {
        self.followers.all().get(name).and_then(Follower::place)
    }

    /// Returns the watches of this process's loaders.
    pub(crate) fn watches(&self) -> Vec<LoadWatch> {
        match &self.loading {
            Loading::Here(loaders) => loaders.values().map(Loader::watch).collect(),
            Loading::Nobody | Loading::Others => Vec::new(),
        }
    }

    /// Returns the sinks that segments are kept for.
    pub(crate) fn followers(&self) -> Followers {
        self.followers.clone()
    }

    /// Begins to load, if this process loads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(&mut self, config: &Config) -> anyhow::Result<()> {
        config.sinks.iter().try_for_each(|sink| self.start_one(config, sink))
    }

    fn start_one(&mut self, config: &Config, sink: &SinkConfig) -> anyhow::Result<()> {
        let Loading::Here(loaders) = &mut self.loading else { return Ok(()) };
        let Some(follower) = self.followers.all().get(sink.name()).cloned() else { return Ok(()) };
        let live: Arc<dyn LiveLog> = Arc::new(follower);
        loaders.insert(sink.name().to_owned(), start_loader(config, sink, live, Runs::On)?);
        Ok(())
    }

    /// Returns the reasons why the sinks of a new configuration cannot be used. No sink may move to another
    /// database, and the streams must fit the tables.
    pub(crate) fn faults(&self, present: &Config, new: &Config) -> Vec<String> {
        let moved = new.sinks.iter().filter_map(|sink| move_of(present.sink(sink.name())?, sink));
        let left = present.awaited_sinks().filter_map(|(stream, sink)| leaving_of(stream, sink, new));
        let faults = moved.chain(left).map(|fault| Fault::of_file(&new.source, fault).to_string());
        let mut faults: Vec<_> = faults.collect();
        if matches!(self.loading, Loading::Here(_)) {
            faults.extend(unfit_streams(new));
        }
        faults
    }

    /// Changes to the sinks of another configuration, after [`Self::admit`] registered them. A sink that both
    /// configurations have keeps its loader. The loader of a removed sink ends, and segments are no longer
    /// kept for this sink.
    pub(crate) fn change(&mut self, present: &Config, new: &Config, log: &Log) {
        if matches!(self.loading, Loading::Nobody) {
            return;
        }
        for sink in &new.sinks {
            match present.sink(sink.name()) {
                None => self.begin(new, sink),
                Some(before) if before.options != sink.options => self.change_one(sink),
                Some(_) => {}
            }
        }
        self.dismiss(new, log);
        if let Loading::Here(loaders) = &mut self.loading {
            let gone: Vec<_> = loaders.extract_if(.., |name, _| new.sink(name).is_none()).collect();
            gone.into_iter().for_each(|(_, loader)| loader.leave());
        }
    }

    fn begin(&mut self, config: &Config, sink: &SinkConfig) {
        if let Err(error) = self.start_one(config, sink) {
            tracing::error!(sink = sink.name(), "the sink is not loaded until the next start: {error:#}");
        }
    }

    fn change_one(&self, sink: &SinkConfig) {
        if let Loading::Here(loaders) = &self.loading
            && let Some(loader) = loaders.get(sink.name())
        {
            loader.change(sink.options.clone());
        }
    }

    /// Ends all loaders at the same time, each within `timeout`. A slow loader therefore does not shorten the
    /// time of another.
    pub(crate) fn finish(self, timeout: Duration) {
        let Loading::Here(loaders) = self.loading else { return };
        thread::scope(|scope| {
            for (sink, loader) in loaders {
                scope.spawn(move || report_load(&sink, loader.finish(timeout)));
            }
        });
    }
}

fn report_load(sink: &str, finished: Result<LoadStatus, FinishError>) {
    match finished {
        Ok(status) => {
            let (rows, rejects, duplicates) = (status.rows, status.rejects, status.duplicates);
            tracing::info!(sink, rows, rejects, duplicates, "loaded");
        }
        Err(error) => tracing::warn!("not all records are loaded, the next start continues: {error}"),
    }
}

/// Returns a fault if the new configuration gives this sink another place.
fn move_of(present: &SinkConfig, new: &SinkConfig) -> Option<String> {
    let differs = present.options.moved_by(&new.options)?;
    let (name, before) = (new.name(), present);
    Some(format!(
        "[sink.{name}] has {differs} now: {before} -> {new}. Its positions are at the present place: give \
         the new sink another name, or restart"
    ))
}

/// Returns a fault if the new configuration takes a stream from the sink that its replies wait for. Replies
/// to earlier requests may still wait for this sink.
fn leaving_of(stream: &str, sink: &str, new: &Config) -> Option<String> {
    let is_kept = new.sink(sink).is_some_and(|sink| sink.options.taken.takes(stream));
    (!is_kept).then(|| {
        format!(
            "[sink.{sink}] no longer takes stream {stream:?}, but replies of the stream wait for it: first \
             change ack of [stream.{stream}], by a separate reload"
        )
    })
}

/// Returns the streams that do not fit the tables of a sink. A database that does not answer within
/// `LOOK_TIMEOUT` is left out. Other faults of a database are left out too, because its loader waits for the
/// database and reports them.
pub(crate) fn unfit_streams(config: &Config) -> Vec<String> {
    let (teller, answers) = channel();
    for sink in &config.sinks {
        let (name, options) = (sink.name().to_owned(), sink.options.clone());
        let teller = teller.clone();
        let look = move || {
            // The receiver may have stopped waiting.
            drop(teller.send((name, options.check())));
        };
        drop(thread::Builder::new().name("load-look".to_owned()).spawn(look));
    }
    drop(teller);
    let (end, mut faults) = (Instant::now() + LOOK_TIMEOUT, Vec::new());
    loop {
        match answers.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok((name, answer)) => faults.extend(unfit(&config.source, &name, answer)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return faults,
        }
    }
}

fn unfit(source: &Path, sink: &str, answer: Result<(), SinkError>) -> Option<String> {
    let error = answer.err().filter(SinkError::is_of_configuration)?;
    Some(Fault::of_file(source, format!("sink {sink}: {error}")).to_string())
}
