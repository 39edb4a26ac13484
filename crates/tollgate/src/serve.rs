//! `tollgate serve`: starts and connects the log, the loaders and the workers, then waits for a signal.
//!
//! Reloads run during the wait. When the server stops, it ends these parts in the reverse order of their
//! start.

mod announce;
mod ending;
mod hand_over;
mod reporters;
mod running;
mod take_over;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use std::{process, thread};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tollgate_log::{
    DiskStorage, Log, LogEvent, LogPredecessor, QueueState, RecoveryReport, RoomState, Space, Storage,
    join_chain,
};
use tollgate_server::{Server, StreamSpec, check_scripts};

use crate::access_log::{AccessReopener, AccessWriter};
use crate::acme::PreparedCertificates;
use crate::board::Board;
use crate::cli::ServeCommand;
use crate::config::{Config, ConfigError, Fault, LoadedBy};
use crate::control::{Control, ControlOrder, Reloaded};
use crate::descriptors;
use crate::destinations::Destinations;
use crate::dev;
use crate::event::{Event, Stop};
use crate::local_tls;
use crate::observe::Observer;
use crate::otlp::SpanExporter;
use crate::panic::abort_on_panic;
use crate::print::note;
use crate::reload::Present;
use crate::sinks::unfit_streams;
use crate::tracing_lines;
use crate::upgrade::{self, UpgradeOrder};
use announce::announce;
use ending::{FINISH_TIMEOUT, delay_drain, refuse_from_now_on, wait_failed};
use hand_over::HandOver;
use reporters::Reporters;
use running::Running;
use take_over::TakeOver;

/// Time that the loader has after the log failed. This time is short, because a failed log needs a restart of
/// the server.
const FINISH_TIMEOUT_FAILED: Duration = Duration::from_secs(1);

impl ServeCommand {
    /// Reads the configuration with the options of this start.
    ///
    /// # Errors
    /// All faults that were found.
    pub(crate) fn load(&self) -> Result<Config, ConfigError> {
        let mut config = Config::load_to_serve(&self.config)?;
        if !self.listen.is_empty() {
            config.server.listen = self.listen.iter().map(|address| (*address).into()).collect();
        }
        local_tls::add_to(self, &mut config)
            .map_err(|error| Fault::of_file(&config.source, format!("--https: {error:#}")))?;
        if self.dev {
            config.show_requests();
        }
        Ok(config)
    }
}

/// Serves until a signal arrives or the log fails. Also loads rows, unless an option leaves them to a later
/// start.
///
/// If a running server started this process for an upgrade, this process takes over from that server.
pub(crate) fn run(command: ServeCommand) -> anyhow::Result<ExitCode> {
    upgrade::note_path();
    let mut take_over = TakeOver::find()?;
    let result = serve(command, &mut take_over);
    take_over.end(&result);
    result
}

fn serve(command: ServeCommand, take_over: &mut TakeOver) -> anyhow::Result<ExitCode> {
    let mut config = command.load()?;
    let watch = dev::watch(&command, &mut config)?;
    if command.no_load {
        config.load.by = LoadedBy::Nobody;
    }
    let unloaded = config.find_awaited();
    tracing_lines::start()?;
    abort_on_panic();
    let mut faults: Vec<_> = unloaded.iter().map(ToString::to_string).collect();
    faults.extend(check_scripts(&config.server));
    if config.load.by == LoadedBy::Server {
        faults.extend(unfit_streams(&config));
    }
    descriptors::raise_limit();
    faults.extend(descriptors::fit(&mut config, descriptors::limit()).err());
    faults.extend(take_over.faults(&config));
    if !faults.is_empty() {
        faults.iter().for_each(|fault| note(fault));
        take_over.refuse(2, &faults.join("\n"));
        return Ok(ExitCode::from(2));
    }
    config.connections_note.iter().for_each(|note| tracing::warn!("{note}"));
    let (teller, events) = channel();
    let mut access = AccessWriter::new(&config.server.access_queue);
    listen_for_signals(teller.clone(), access.reopener())?;
    access.apply(AccessWriter::prepare(None, config.access_log.as_ref())?)?;
    let mut spans = SpanExporter::new(&config.server.span_queue);
    spans.apply(SpanExporter::prepare(config.otlp.as_ref())?)?;
    let listeners = take_over.listen(&config)?;
    let addresses = listeners.addresses().to_vec();
    if let Some(text) = dev::refusal(&command, &addresses) {
        note(&text);
        take_over.refuse(2, &text);
        return Ok(ExitCode::from(2));
    }
    let https = local_tls::line_of(&command, &addresses)?;
    let mut reporters = Reporters::start(&config, take_over)?;
    let log = open_log(&config, &reporters, take_over, teller.clone())?;
    let mut destinations = Destinations::follow(&config, &log);
    config.place_awaited(|sink| destinations.sinks.place_of(sink));
    let config = &config;
    reporters.observer.see_log(log.watch(), Board::of(destinations.sinks.followers()));
    let start_control = |destinations: &Destinations, observer: &Observer| {
        start_control(config, &log, destinations, observer, teller.clone())
    };
    let mut control = None;
    if !take_over.is_upgrade() {
        control = start_control(&destinations, &reporters.observer);
    }
    destinations.start_loaders(config)?;
    let certificates = PreparedCertificates::new(config);
    take_over.expect_no_stop(&events)?;
    let (server, sources) = Server::start(config.server.clone(), listeners, &log)?;
    let old = take_over.serve(&server, &log)?;
    if let Some(old) = old.clone() {
        reporters.observer.see_old_process(move || old.drain());
        control = start_control(&destinations, &reporters.observer);
        reporters.take_over(config, take_over)?;
    }
    destinations.start_ships(config, &log)?;
    destinations.show(&reporters.observer);
    if let Some(watch) = watch {
        dev::follow(watch, &command, config, teller.clone())?;
    }
    let mut present = Present::new(command, config.clone(), &sources, &addresses, reporters.admin.as_ref());
    reporters.observer.note_reload(|reloads| reloads.serves(&present.version, config));
    reporters.observer.see_server(server.watch());
    let mut certificates = certificates.start(&server.watch());
    reporters.observer.show_acme(certificates.watch());
    announce(config, &addresses, reporters.admin.as_ref(), https.as_deref())?;
    reporters.notifier.ready();
    let mut hand_over = HandOver::new(teller, old);
    let mut running = Running {
        server: &server,
        log: &log,
        control: &mut control,
        destinations: &mut destinations,
        certificates: &mut certificates,
        access: &mut access,
        spans: &mut spans,
    };
    let stop = wait(&events, &mut present, &mut running, &mut reporters, &mut hand_over);
    delay_drain(&stop, &present.config, &reporters, &events);
    refuse_from_now_on(events);
    server.drain();
    access.finish();
    spans.finish();
    control.as_ref().inspect(|control| control.release_followers());
    drop(control);
    let (failure, successor) = match (stop, log.close()) {
        (Stop::LogFailed(reason), _) => (Some(reason), None),
        (Stop::Signal(_), closed) => (closed.err(), None),
        (Stop::Replaced(successor), closed) => (closed.err(), Some(successor)),
    };
    let timeout = if failure.is_some() { FINISH_TIMEOUT_FAILED } else { FINISH_TIMEOUT };
    destinations.finish(timeout);
    if successor.is_some_and(|successor| !successor.is_safe()) {
        anyhow::bail!("the new process of the upgrade died, and no other one could be started");
    }
    match failure {
        Some(reason) => anyhow::bail!("the log failed: {reason}"),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn listen_for_signals(teller: Sender<Event>, access: AccessReopener) -> anyhow::Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2]).context("cannot listen for signals")?;
    let listen = move || {
        let mut is_stopping = false;
        for signal in signals.forever() {
            let event = match signal {
                SIGHUP => Event::Reload(None),
                SIGUSR2 => Event::Upgrade(UpgradeOrder { program: None, asker: None }),
                SIGUSR1 => {
                    access.reopen();
                    continue;
                }
                // A second signal ends the process at once.
                _ if is_stopping => {
                    note(
                        "stopped at once: requests in flight are lost, records that were acknowledged as \
                         written or synced are kept",
                    );
                    tracing_lines::finish();
                    process::exit(1);
                }
                signal => {
                    is_stopping = true;
                    Event::Stop(Stop::Signal(signal))
                }
            };
            // If the server stops by itself, the receiver is gone and the event is dropped.
            let _ = teller.send(event);
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(listen)
        .context("cannot start the thread of signals")?;
    Ok(())
}

fn open_log(
    config: &Config,
    reporters: &Reporters,
    take_over: &mut TakeOver,
    teller: Sender<Event>,
) -> anyhow::Result<Log> {
    let schemas = config.server.streams.iter().map(StreamSpec::schema);
    let schemas = schemas.collect::<Result<Vec<_>, _>>().context("a stream cannot be recorded")?;
    let observer = reporters.observer.clone();
    let on_event = move |event: &LogEvent| {
        report_event(event, &observer);
        if let LogEvent::Failed(reason) = event {
            // If the server stops by itself, the receiver is gone and the event is dropped.
            let _ = teller.send(Event::Stop(Stop::LogFailed(reason.clone())));
        }
    };
    let (log, report) = match take_over.take_lock() {
        Some(lock) => {
            let predecessor = LogPredecessor { lock: Box::new(lock) };
            Log::succeed(storage(), config.log.clone(), schemas, predecessor, on_event)?
        }
        None => {
            take_over.open(|| Log::open(storage(), config.log.clone(), schemas.clone(), on_event.clone()))?
        }
    };
    report_recovery(&report, &reporters.observer);
    Ok(log)
}

/// Starts the control socket. If it cannot start, the server serves without it.
fn start_control(
    config: &Config,
    log: &Log,
    destinations: &Destinations,
    observer: &Observer,
    teller: Sender<Event>,
) -> Option<Control> {
    // If the server stops, the event is dropped. Dropping it closes the connection of the asker.
    let on_order = move |order, asker| {
        drop(teller.send(match order {
            ControlOrder::Reload => Event::Reload(Some(asker)),
            ControlOrder::Renew(name) => Event::Renew(name, asker),
            ControlOrder::Upgrade(program) => Event::Upgrade(UpgradeOrder { program, asker: Some(asker) }),
        }));
    };
    let (board, asked) = (observer.board(), observer.clone());
    let on_status = move || asked.status_line();
    let followers = destinations.sinks.followers();
    Control::serve(&config.log.dir, Some(log.follower()), followers, board, on_status, on_order)
        .inspect_err(|error| {
            let error = format!("{error:#}");
            tracing::warn!(
                error,
                "the control socket cannot be opened: `reload`, `status` and other loaders do not work, `log \
                 tail` shows only sealed segments"
            );
        })
        .ok()
}

fn storage() -> Arc<dyn Storage> {
    Arc::new(DiskStorage)
}

fn report_event(event: &LogEvent, observer: &Observer) {
    match event {
        LogEvent::Failed(reason) => {
            tracing::error!(reason, "the log failed: no further record is written, the server stops");
        }
        LogEvent::Room { state, space, reserve_bytes } => report_room(*state, *space, *reserve_bytes),
        LogEvent::Queue { state, age, age_max, queued_bytes, queue_bytes_max } => {
            report_queue(*state, [*age, *age_max], [*queued_bytes, *queue_bytes_max]);
        }
        LogEvent::Mended(report) => report_recovery(report, observer),
        LogEvent::Unsound { log, file, reason } => {
            if observer.note_damaged(*log, file) {
                tracing::error!(
                    %log,
                    file = %file.display(),
                    reason,
                    "segment is damaged: its intact records are loaded"
                );
            }
        }
        LogEvent::Deleted { log, segment, bytes, reason } => {
            tracing::debug!(%log, %segment, bytes, due = reason.name(), "segment deleted");
        }
        LogEvent::NotDeleted(error) => {
            let reason = join_chain(error);
            tracing::warn!(reason, "a segment that every sink has cannot be deleted, trying again");
        }
    }
}

fn report_room(state: RoomState, space: Space, reserve_bytes: u64) {
    let Space { free_bytes, free_inodes, .. } = space;
    match state {
        RoomState::Short => tracing::error!(
            free_bytes,
            free_inodes,
            reserve_bytes,
            "the disk is nearly full: requests that are recorded are refused"
        ),
        RoomState::Enough => tracing::info!(
            free_bytes,
            free_inodes,
            reserve_bytes,
            "the disk has enough free space again: requests are recorded"
        ),
    }
}

fn report_queue(state: QueueState, [age, age_max]: [Duration; 2], [queued_bytes, queue_bytes_max]: [u64; 2]) {
    let (age_ms, queue_age_max_ms) = (age.as_millis() as u64, age_max.as_millis() as u64);
    match state {
        QueueState::Behind => tracing::warn!(
            age_ms,
            queue_age_max_ms,
            queued_bytes,
            queue_bytes_max,
            "the disk is behind: requests whose records would wait for it are refused"
        ),
        QueueState::KeepsUp => {
            tracing::info!(age_ms, queued_bytes, "the disk keeps up again: records are accepted");
        }
    }
}

fn report_recovery(report: &RecoveryReport, observer: &Observer) {
    for recovered in &report.logs {
        let log = &recovered.log;
        if recovered.sealed > 0 {
            let (segments, torn_bytes) = (recovered.sealed, recovered.torn_bytes);
            tracing::info!(%log, segments, torn_bytes, "sealed the open segments of an earlier run");
        }
        for (file, reason) in &recovered.set_aside {
            observer.note_damaged(*log, file);
            tracing::error!(%log, file = %file.display(), reason, "damaged segment set aside: its intact records are loaded");
        }
        for file in &recovered.unknown {
            tracing::error!(
                %log,
                file = %file.display(),
                "segment has a newer format version: it is not changed and not loaded"
            );
        }
    }
    for (log, error) in &report.failed {
        tracing::error!(
            %log,
            error = join_chain(error),
            "log cannot be repaired: it is not changed, and its open segments are not loaded"
        );
    }
    observer.note_unmended(report.failed.iter().map(|(log, error)| (*log, join_chain(error))).collect());
}

/// Waits for a reason to stop. Handles orders until then.
fn wait(
    events: &Receiver<Event>,
    present: &mut Present,
    running: &mut Running<'_>,
    reporters: &mut Reporters,
    hand_over: &mut HandOver,
) -> Stop {
    let stop = loop {
        match events.recv() {
            Ok(Event::Stop(stop)) => break stop,
            Ok(Event::Reload(asker)) => {
                if asker.is_none() {
                    tracing::info!("SIGHUP: reloading");
                }
                let reloaded = match hand_over.refusal_of_reload() {
                    Some(refusal) => refusal,
                    None => reload(present, running, reporters),
                };
                if let Some(asker) = asker {
                    asker.reply(&reloaded);
                }
            }
            Ok(Event::Renew(name, asker)) => {
                let done = running.certificates.renew(&present.config, name.as_deref());
                asker.reply(&match done {
                    Ok(text) => Reloaded { code: 0, text },
                    Err(text) => Reloaded { code: 2, text },
                });
            }
            Ok(Event::Upgrade(order)) => hand_over.begin(order, &present.config, running, reporters),
            Ok(Event::Upgraded(outcome)) => {
                if let Some(successor) = hand_over.finish(outcome, running, reporters) {
                    break Stop::Replaced(successor);
                }
            }
            Ok(Event::Changed(watcher)) => {
                tracing::info!("a file changed: reloading");
                reload(present, running, reporters);
                // The watcher may be gone.
                let _ = watcher.send(present.watched());
            }
            Err(_) => break Stop::Signal(SIGTERM),
        }
    };
    hand_over.end();
    match &stop {
        Stop::Replaced(successor) => {
            tracing::info!(process = successor.process(), "another process serves: draining");
        }
        Stop::Signal(SIGINT) => tracing::info!("SIGINT: draining"),
        Stop::Signal(_) => tracing::info!("SIGTERM: draining"),
        Stop::LogFailed(_) => wait_failed(events, present.config.server.drain_timeout),
    }
    stop
}

fn reload(present: &mut Present, running: &mut Running<'_>, reporters: &Reporters) -> Reloaded {
    let Running { server, log, destinations, certificates, access, spans, .. } = running;
    reporters.notifier.reloading();
    let reloaded = present.reload(server, log, destinations, access, spans, &reporters.observer);
    if reloaded.code == 0 {
        certificates.change(&present.config, &server.watch());
    }
    destinations.show(&reporters.observer);
    reporters.observer.show_acme(certificates.watch());
    reporters.notifier.ready();
    reloaded
}
