//! `tollgate load`: loaders in a separate process, with or without a server.
//!
//! A server reports its watermark over `control.sock`, and gets the loaded positions. Without a server, only
//! sealed segments are read. Only the server that writes an open segment, or a recovery, knows which of its
//! records are synced.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tollgate_load::{ItemRow, LoadState, LoadStatus, LoadWatch, Loader, Retried, skip};
use tollgate_log::{DiskStorage, LogId, SegmentState, Sequence, Storage, join_chain, log_ids, segments};
use tollgate_server::ItemReader;
use tollgate_ship::Spool;

use crate::board::report;
use crate::cli::{LoadCommand, WrongUsage};
use crate::config::{Config, SinkConfig};
use crate::control::{RemoteLog, ask};
use crate::load_end::{OnceEnd, is_left_with_failing, print_end};
use crate::load_from::{LoadFrom, spool_of};
use crate::load_report::LoadReporters;
use crate::load_topics::{LoadTopics, brokers_of};
use crate::loader::{Runs, start_loader};
use crate::observe::LoadSource;
use crate::panic::abort_on_panic;
use crate::print::{counted, note, problem};
use crate::progress::{Load, Progress};
use crate::tracing_lines;

/// Time between two checks whether all readable records are loaded.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Time between two reports to the server on its sinks.
const REPORT_PERIOD: Duration = Duration::from_secs(1);

/// Loads until a signal, or until all readable records are loaded.
pub(crate) fn run(command: &LoadCommand) -> anyhow::Result<ExitCode> {
    let config = Config::load(&command.config)?;
    let sinks = config.chosen(command.sink.as_deref())?;
    if command.retry_rejects {
        return Ok(retry_rejects(sinks, &ItemReader::new(&config.server.streams)));
    }
    if let Some(words) = &command.skip {
        return skip_records(&config.log.dir, sinks, words);
    }
    tracing_lines::start()?;
    abort_on_panic();
    let signals = listen_for_signals()?;
    if let Some(brokers) = command.from.as_deref().and_then(brokers_of) {
        return load_topics(&config, sinks, brokers, command, &signals);
    }
    if let Some(place) = &command.from {
        let from = LoadFrom::start(&config, sinks, place, command)?;
        if command.once {
            return Ok(from.finish(&signals).exit_code(sinks));
        }
        let source = LoadSource::Store(from.fetching(place));
        let reporters = LoadReporters::start(&config, from.spool(), source, from.watches())?;
        return Ok(load_from(from, place, &signals, &reporters));
    }
    let servers = sinks.iter().map(|sink| RemoteLog::follow(&config.log.dir, sink.name()));
    let servers = servers.collect::<anyhow::Result<Vec<_>>>()?;
    let runs = if command.once { Runs::Once } else { Runs::On };
    let start = |(sink, server): (&SinkConfig, &RemoteLog)| {
        start_loader(&config, sink, Arc::new(server.clone()), runs)
    };
    let loaders = sinks.iter().zip(&servers).map(start).collect::<anyhow::Result<Vec<_>>>()?;
    if command.once {
        return Ok(load_once(&config.log.dir, loaders, &signals).exit_code(sinks));
    }
    tracing::info!(sinks = loaders.len(), log = %config.log.dir.display(), "loading until SIGTERM");
    let progress = show_progress(loaders.iter().map(Loader::watch).collect());
    // A signal and a closed channel both end the wait.
    while signals.recv_timeout(REPORT_PERIOD) == Err(RecvTimeoutError::Timeout) {
        for (loader, server) in loaders.iter().zip(&servers) {
            server.report(&report(loader.name(), &loader.status()));
        }
    }
    drop(progress);
    end(loaders);
    Ok(ExitCode::SUCCESS)
}

/// Loads topics until a signal, or until all records are loaded.
fn load_topics(
    config: &Config,
    sinks: &[SinkConfig],
    brokers: &str,
    command: &LoadCommand,
    signals: &Receiver<i32>,
) -> anyhow::Result<ExitCode> {
    ensure!(
        !command.store.is_given() && !command.volume.is_given(),
        WrongUsage("the options of stores and volumes do not go with --from kafka://: remove them")
    );
    if command.once {
        return Ok(LoadTopics::start(config, sinks, brokers, true)?.finish(signals, || ()));
    }
    let spool = Spool::take(&DiskStorage, &spool_of(config, command))?;
    let topics = LoadTopics::start(config, sinks, brokers, false)?;
    let source = LoadSource::Topics(brokers.to_owned());
    let reporters = LoadReporters::start(config, spool.folder(), source, topics.watches())?;
    tracing::info!(brokers, admin = reporters.admin(), "loading topics until SIGTERM");
    Ok(topics.finish(signals, || reporters.stopping()))
}

/// Loads from a store until a signal.
fn load_from(from: LoadFrom, store: &str, signals: &Receiver<i32>, reporters: &LoadReporters) -> ExitCode {
    tracing::info!(store, admin = reporters.admin(), "loading from a store until SIGTERM");
    let progress = show_progress(from.watches());
    // A signal and a closed channel both end the wait.
    let _ = signals.recv();
    reporters.stopping();
    drop(progress);
    drop(from);
    ExitCode::SUCCESS
}

fn show_progress(watches: Vec<LoadWatch>) -> Progress {
    Progress::of_load(move || {
        let statuses: Vec<_> = watches.iter().map(LoadWatch::status).collect();
        Load {
            records: statuses.iter().map(|status| status.rows + status.rejects + status.duplicates).sum(),
            bytes: statuses.iter().map(|status| status.bytes).sum(),
            left_bytes: statuses.iter().map(|status| status.backlog.bytes).sum(),
        }
    })
}

/// Ends all loaders at the same time, each after its current chunk.
fn end(loaders: Vec<Loader>) {
    thread::scope(|scope| loaders.into_iter().for_each(|loader| drop(scope.spawn(|| drop(loader)))));
}

fn listen_for_signals() -> anyhow::Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen for signals")?;
    let (teller, receiver) = channel();
    let listen = move || {
        for signal in signals.forever() {
            // If the process ends by itself, the receiver is gone and the signal is dropped.
            let _ = teller.send(signal);
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(listen)
        .context("cannot start the thread of signals")?;
    Ok(receiver)
}

/// Waits until one check finds that every loader is caught up or cannot continue. The command must end by
/// itself, so it does not wait until an operator corrects a fault.
fn load_once(dir: &Path, loaders: Vec<Loader>, signals: &Receiver<i32>) -> OnceEnd {
    let progress = show_progress(loaders.iter().map(Loader::watch).collect());
    let is_over = |status: &LoadStatus| {
        status.caught_up > 0 || matches!(status.state, LoadState::Stopped | LoadState::Ended)
    };
    let is_waiting =
        |status: LoadStatus| !status.is_unusable && !is_over(&status) && !is_left_with_failing(&status);
    while loaders.iter().any(|loader| is_waiting(loader.status())) {
        match signals.recv_timeout(LOOK_PAUSE) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => {
                end(loaders);
                problem("stopped before all records were loaded: the next run continues");
                return OnceEnd::Stopped;
            }
        }
    }
    drop(progress);
    let statuses: Vec<_> = loaders.iter().map(|loader| (loader.name().to_owned(), loader.status())).collect();
    end(loaders);
    let is_done =
        statuses.iter().map(|(sink, status)| print_end(sink, status)).fold(true, |all, one| all & one);
    print_unsealed(dir);
    OnceEnd::of(is_done)
}

/// Tries the rejects of each sink again. A failure of one sink does not stop the others.
fn retry_rejects(sinks: &[SinkConfig], reader: &ItemReader) -> ExitCode {
    let read = |stream: &str, item: &[u8]| {
        let mut row = ItemRow::default();
        if let Some((key, window)) =
            reader.read(stream, item, &mut |column, value| row.push(column, value))?
        {
            row.set_key(&key, window);
        }
        Ok(row)
    };
    let mut code = ExitCode::SUCCESS;
    for sink in sinks {
        let name = sink.name();
        match sink.options.retry_rejects(&read) {
            Ok(retried) => note(&format!("sink {name}: {}", told(retried))),
            Err(error) => {
                problem(&format!("sink {name}: {}", join_chain(&error)));
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn told(retried: Retried) -> String {
    let loaded = counted(retried.loaded, "reject");
    let duplicates = match retried.duplicates {
        0 => String::new(),
        duplicates => format!("{duplicates} are duplicates of rows, "),
    };
    format!("{loaded} became rows, {duplicates}{} remain rejects", retried.kept)
}

/// Makes each sink skip the next records of a log.
fn skip_records(dir: &Path, sinks: &[SinkConfig], words: &[String]) -> anyhow::Result<ExitCode> {
    let (log, range) = read_skip(words)
        .ok_or(WrongUsage("--skip needs the id of a log and a range of records, like LOG 17-20"))?;
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    for sink in sinks {
        let name = sink.name();
        skip(&storage, dir, &sink.options, log, range).with_context(|| format!("sink {name}"))?;
        note(&format!("sink {name}: records {}-{} of log {log} are a gap now", range.0, range.1));
    }
    Ok(ExitCode::SUCCESS)
}

fn read_skip(words: &[String]) -> Option<(LogId, (Sequence, Sequence))> {
    let [log, range] = words else { return None };
    let (first, last) = range.split_once('-')?;
    Some((log.parse().ok()?, (Sequence(first.parse().ok()?), Sequence(last.parse().ok()?))))
}

/// Prints the logs with segments that must not be read yet.
pub(crate) fn print_unsealed(dir: &Path) {
    let live = ask(dir).ok().map(|watermark| watermark.log);
    for log in log_ids(&DiskStorage, dir).unwrap_or_default() {
        let segments = segments(&DiskStorage, dir, log).unwrap_or_default();
        let open = segments.iter().filter(|(name, _)| name.state == SegmentState::Open).count() as u64;
        if open > 0 && live != Some(log) {
            let open = counted(open, "unsealed segment");
            note(&format!(
                "log {log}: {open} not loaded, because a server may still write to it. If no server runs, \
                 use `tollgate log repair`"
            ));
        }
    }
}
