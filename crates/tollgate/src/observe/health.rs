//! Readiness of the server, and findings: the faults, each with its remedy.
//!
//! A *reason* makes the server not ready: a load balancer should send requests elsewhere. A *warning* leaves
//! the server ready: the server works, but an operator should look at the cause. A late load is only a
//! warning, because the records are on disk.

mod acme;
mod certificates;
mod fetching;
mod ships;

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_load::STALLED_MIN;
use tollgate_log::{LogStatus, QueueState, RoomState};
use tollgate_server::{BackendSnapshot, ServerStatus, TokenKeysStatus};

use self::acme::AcmeTrouble;
use self::certificates::CertificateTrouble;
use self::fetching::FetchTrouble;
use self::ships::{ShipTrouble, troubles_of};
use super::observer::Observer;
use super::seen::{Damaged, Phase, Seen};
use crate::print::counted;
use crate::wall;

/// If the oldest record waits longer than this time for a sync, the disk is reported as hung.
const SYNC_STALL_MAX: Duration = Duration::from_secs(10);
/// The warning begins when less than 1/10 of the descriptors is free.
const DESCRIPTORS_SHARE: u64 = 10;
/// Free descriptors that the server needs to be ready. With fewer of them, a new connection is closed at
/// once, or a requested file cannot be opened.
const DESCRIPTORS_LEFT_MIN: u64 = 4;
/// Time without a refusal for lack of descriptors or memory, after which the finding ends.
const REFUSALS_CALM: Duration = Duration::from_secs(5);
/// Time that a sink may be without a loader. A loader in another process needs this time for its own restart,
/// or to connect to a new server.
pub(super) const LOADER_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of addresses and names of a backend in a finding.
const TROUBLES_SHOWN: usize = 5;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// The server is not ready: send requests to another server.
    Reason,
    /// An operator should look at the cause.
    Warning,
}

/// Maximum number of logs in the finding about logs that the start could not repair.
const LOGS_SHOWN: usize = 5;

/// The code of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Starting,
    Draining,
    LogFailed,
    LogStalled,
    LogBehind,
    DiskFull,
    WorkerStalled,
    Behind,
    MemoryFull,
    ConnectionsFull,
    DescriptorsFull,
    SinkStopped,
    SinkFailing,
    SinkUnattended,
    SinkBehind,
    SinkWaiting,
    SinkStalled,
    LogStopped,
    LogUnmended,
    RecordsMissing,
    SegmentsDamaged,
    DiskTight,
    DescriptorsShort,
    ReloadRefused,
    ClockOff,
    BackendDown,
    BackendUnresolved,
    BackendImpaired,
    TokenKeysMissing,
    TokenKeysOld,
    ScriptsBehind,
    MemoryShort,
    ShipForked,
    NodeTwice,
    ShipStalled,
    ShipBehind,
    ShipSegmentKept,
    VolumeNotMounted,
    VolumeFailed,
    VolumeHookFailed,
    VolumeSegmentsGone,
    FetchFailing,
    FetchSegmentMissing,
    FetchSegmentDamaged,
    NodeSilent,
    CertificateUnusable,
    CertificateExpires,
    CertificateSelfSigned,
    CertificateOrderFailed,
}

impl Code {
    pub(crate) const ALL: [Self; 49] = [
        Self::BackendDown,
        Self::BackendUnresolved,
        Self::BackendImpaired,
        Self::TokenKeysMissing,
        Self::TokenKeysOld,
        Self::ScriptsBehind,
        Self::MemoryShort,
        Self::DescriptorsFull,
        Self::Starting,
        Self::Draining,
        Self::LogFailed,
        Self::LogStalled,
        Self::LogBehind,
        Self::DiskFull,
        Self::WorkerStalled,
        Self::Behind,
        Self::MemoryFull,
        Self::ConnectionsFull,
        Self::SinkStopped,
        Self::SinkFailing,
        Self::SinkUnattended,
        Self::SinkBehind,
        Self::SinkWaiting,
        Self::SinkStalled,
        Self::LogStopped,
        Self::LogUnmended,
        Self::RecordsMissing,
        Self::SegmentsDamaged,
        Self::DiskTight,
        Self::DescriptorsShort,
        Self::ReloadRefused,
        Self::ClockOff,
        Self::ShipForked,
        Self::NodeTwice,
        Self::ShipStalled,
        Self::ShipBehind,
        Self::ShipSegmentKept,
        Self::VolumeNotMounted,
        Self::VolumeFailed,
        Self::VolumeHookFailed,
        Self::VolumeSegmentsGone,
        Self::FetchFailing,
        Self::FetchSegmentMissing,
        Self::FetchSegmentDamaged,
        Self::NodeSilent,
        Self::CertificateUnusable,
        Self::CertificateExpires,
        Self::CertificateSelfSigned,
        Self::CertificateOrderFailed,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Draining => "draining",
            Self::LogFailed => "log_failed",
            Self::LogStalled => "log_stalled",
            Self::LogBehind => "log_behind",
            Self::DiskFull => "disk_full",
            Self::WorkerStalled => "worker_stalled",
            Self::Behind => "behind",
            Self::MemoryFull => "memory_full",
            Self::ConnectionsFull => "connections_full",
            Self::DescriptorsFull => "descriptors_full",
            Self::ScriptsBehind => "scripts_behind",
            Self::MemoryShort => "memory_short",
            Self::SinkStopped => "sink_stopped",
            Self::SinkFailing => "sink_failing",
            Self::SinkUnattended => "sink_unattended",
            Self::SinkBehind => "sink_behind",
            Self::SinkWaiting => "sink_waiting",
            Self::SinkStalled => "sink_stalled",
            Self::LogStopped => "log_stopped",
            Self::LogUnmended => "log_unmended",
            Self::RecordsMissing => "records_missing",
            Self::SegmentsDamaged => "segments_damaged",
            Self::DiskTight => "disk_tight",
            Self::DescriptorsShort => "descriptors_short",
            Self::ReloadRefused => "reload_refused",
            Self::ClockOff => "clock_off",
            Self::BackendDown => "backend_down",
            Self::BackendUnresolved => "backend_unresolved",
            Self::BackendImpaired => "backend_impaired",
            Self::TokenKeysMissing => "token_keys_missing",
            Self::TokenKeysOld => "token_keys_old",
            Self::ShipForked => "ship_forked",
            Self::NodeTwice => "node_twice",
            Self::ShipStalled => "ship_stalled",
            Self::ShipBehind => "ship_behind",
            Self::ShipSegmentKept => "ship_segment_kept",
            Self::VolumeNotMounted => "volume_not_mounted",
            Self::VolumeFailed => "volume_failed",
            Self::VolumeHookFailed => "volume_hook_failed",
            Self::VolumeSegmentsGone => "volume_segments_gone",
            Self::FetchFailing => "fetch_failing",
            Self::FetchSegmentMissing => "fetch_segment_missing",
            Self::FetchSegmentDamaged => "fetch_segment_damaged",
            Self::NodeSilent => "node_silent",
            Self::CertificateUnusable => "certificate_unusable",
            Self::CertificateExpires => "certificate_expires",
            Self::CertificateSelfSigned => "certificate_self_signed",
            Self::CertificateOrderFailed => "certificate_order_failed",
        }
    }

    pub(crate) const fn severity(self) -> Severity {
        match self {
            Self::Starting
            | Self::Draining
            | Self::LogFailed
            | Self::LogStalled
            | Self::LogBehind
            | Self::DiskFull
            | Self::WorkerStalled
            | Self::Behind
            | Self::MemoryFull
            | Self::ConnectionsFull
            | Self::DescriptorsFull => Severity::Reason,
            Self::SinkStopped
            | Self::SinkFailing
            | Self::SinkUnattended
            | Self::SinkBehind
            | Self::SinkWaiting
            | Self::SinkStalled
            | Self::LogStopped
            | Self::LogUnmended
            | Self::RecordsMissing
            | Self::SegmentsDamaged
            | Self::DiskTight
            | Self::DescriptorsShort
            | Self::ReloadRefused
            | Self::ClockOff
            | Self::BackendDown
            | Self::BackendUnresolved
            | Self::BackendImpaired
            | Self::TokenKeysMissing
            | Self::TokenKeysOld
            | Self::ScriptsBehind
            | Self::MemoryShort
            | Self::ShipForked
            | Self::NodeTwice
            | Self::ShipStalled
            | Self::ShipBehind
            | Self::ShipSegmentKept
            | Self::VolumeNotMounted
            | Self::VolumeFailed
            | Self::VolumeHookFailed
            | Self::VolumeSegmentsGone
            | Self::FetchFailing
            | Self::FetchSegmentMissing
            | Self::FetchSegmentDamaged
            | Self::NodeSilent
            | Self::CertificateUnusable
            | Self::CertificateExpires
            | Self::CertificateSelfSigned
            | Self::CertificateOrderFailed => Severity::Warning,
        }
    }

    /// Returns the advice for this finding, as a sentence.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::Starting => "wait: the server first repairs the logs of earlier runs",
            Self::Draining => "nothing: the server ends after its requests in flight",
            Self::LogFailed => "check the disk (dmesg), then restart the server",
            Self::LogStalled => "check the disk, which completes no writes (dmesg, iostat -x 1)",
            Self::LogBehind => "check the disk, which is slower than records arrive (dmesg, iostat -x 1)",
            Self::DiskFull => {
                "free disk space in dir of [log], or repair the sink that has not loaded the segments"
            }
            Self::WorkerStalled => {
                "find out what the worker does (perf top, gdb -p), then restart the server"
            }
            Self::Behind | Self::ScriptsBehind => {
                "add workers or machines, or find the slow route with `tollgate status`"
            }
            Self::MemoryFull | Self::MemoryShort => {
                "look for slow clients or a slow disk, or raise in_flight_bytes_max in [server]"
            }
            Self::ConnectionsFull => {
                "raise connections_max in [server] and LimitNOFILE, or lower idle_timeout in [server]"
            }
            Self::SinkStopped => "correct what the error names: records wait in the log meanwhile",
            Self::SinkFailing => {
                "check what the error names, usually the database: records wait in the log and are loaded \
                 later"
            }
            Self::SinkUnattended => {
                "start `tollgate load` for this sink: its records stay on disk until they are loaded"
            }
            Self::SinkBehind => "check the load of the database: no record is lost meanwhile",
            Self::SinkWaiting => {
                "look at the database: locks (`pg_locks`, `pg_blocking_pids`), a stopped server, a slow disk"
            }
            Self::SinkStalled => {
                "check the disk of the log. If it works, report the fault with the output of gdb -p and \
                 `tollgate log verify`"
            }
            Self::LogStopped => {
                "check what the reason names: `tollgate log verify` and docs/how-to/load-into-postgresql.md \
                 help"
            }
            Self::LogUnmended => {
                "correct what the reason names, then restart: until then the open segments of this log are \
                 not loaded"
            }
            Self::RecordsMissing => {
                "run `tollgate audit` and `tollgate log verify`. Restore the segment from a copy, or give \
                 the records up with `tollgate load --skip`"
            }
            Self::SegmentsDamaged => {
                "run `tollgate log verify`, and restore the segment from a copy if there is one"
            }
            Self::DiskTight => "free disk space in dir of [log] before the server refuses records",
            Self::DescriptorsFull => {
                "raise LimitNOFILE (ulimit -n), or lower connections_max and idle_timeout in [server]"
            }
            Self::DescriptorsShort => "raise LimitNOFILE (ulimit -n), or lower connections_max in [server]",
            Self::BackendDown => "check the backend: its routes get 503 at once until it answers again",
            Self::BackendUnresolved => {
                "check the names in its urls, and the name server: its routes get 503 until a name is found"
            }
            Self::BackendImpaired => {
                "check these addresses and names: requests go to the other addresses of the backend, if it \
                 has any"
            }
            Self::TokenKeysMissing => {
                "check the backend and the path of its jwt: every token of its routes gets 503 until the keys \
                 are there"
            }
            Self::TokenKeysOld => {
                "check the backend and the path of its jwt: the last keys verify tokens meanwhile, and tokens \
                 of newer keys get 401"
            }
            Self::ClockOff => "set the clock (timedatectl): no restart is needed",
            Self::ReloadRefused => {
                "correct the configuration, then run `tollgate reload`: the version before serves meanwhile"
            }
            Self::ShipForked => {
                "find the other machine that writes this log, such as a copy of its disk: \
                 docs/how-to/hand-over.md helps"
            }
            Self::NodeTwice => "give each machine its own node in [log], then restart the server",
            Self::ShipStalled => {
                "check that the store is mounted, writable and not full: segments wait on this disk"
            }
            Self::ShipBehind => {
                "check the speed of the store and bytes_per_second: no record is lost meanwhile"
            }
            Self::ShipSegmentKept => "run `tollgate log verify`: the segment stays on this disk",
            Self::VolumeNotMounted => {
                "mount the volume, or make a new one with `tollgate ship init`: nothing is written meanwhile"
            }
            Self::VolumeFailed => {
                "check what the reason names (dmesg), then unmount and mount the volume: its segments go to \
                 another one"
            }
            Self::VolumeHookFailed => {
                "run the program of on_full by hand for this volume: it is full and may be moved"
            }
            Self::VolumeSegmentsGone => {
                "find the lost volume and load it: no other copy of these segments is known"
            }
            Self::FetchFailing => {
                "check what the error names: the store, or the database of a sink. No record is lost meanwhile"
            }
            Self::FetchSegmentMissing | Self::FetchSegmentDamaged => {
                "check that the machine that wrote the log runs and ships: the loader has asked it for the \
                 segment, and loads the other logs"
            }
            Self::CertificateSelfSigned => {
                "wait for the first order. If it failed, correct what the reason names, then run `tollgate cert renew`"
            }
            Self::CertificateOrderFailed => {
                "correct what the reason names, then run `tollgate cert renew`: the present certificate serves \
                 meanwhile"
            }
            Self::NodeSilent => {
                "check that this machine runs and reaches the store: its records wait on its disk"
            }
            Self::CertificateUnusable => {
                "correct what the reason names: the certificate before is served, and the server reads the \
                 files again when they change"
            }
            Self::CertificateExpires => {
                "renew the certificate and write its files: the server reads them without a reload"
            }
        }
    }
}

/// A fault of the running server, with its code and its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) code: Code,
    /// The value found, and the limit.
    pub(crate) text: String,
}

impl Finding {
    pub(crate) fn json(&self) -> Value {
        json!({ "code": self.code.name(), "text": self.text, "advice": self.code.advice() })
    }
}

/// All findings, the most severe first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Health(pub(crate) Vec<Finding>);

impl Health {
    /// Returns whether requests should be sent to this server.
    pub(crate) fn is_ready(&self) -> bool {
        self.of(Severity::Reason).next().is_none()
    }

    pub(crate) fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.0.iter().filter(move |finding| finding.code.severity() == severity)
    }

    pub(crate) fn has(&self, code: Code) -> bool {
        self.0.iter().any(|finding| finding.code == code)
    }

    fn add(&mut self, code: Code, text: impl Into<String>) {
        self.0.push(Finding { code, text: text.into() });
    }
}

impl Observer {
    /// Finds the faults in the present state.
    pub(crate) fn health(&self, seen: &Seen) -> Health {
        let mut health = Health::default();
        match seen.phase {
            Phase::Starting => health.add(Code::Starting, "the server is starting"),
            Phase::Draining => health.add(Code::Draining, "the server is stopping"),
            Phase::Serving | Phase::Loading => {}
        }
        if let Some(log) = &seen.log {
            look_at_log(&mut health, log, seen.records);
        }
        if let Some(server) = &seen.server {
            look_at_server(&mut health, server, self.0.worker_stall_max);
        }
        for sink in &seen.sinks {
            look_at_sink(&mut health, sink, seen.phase, self.0.lag_max);
        }
        for (trouble, text) in seen.ships.iter().flat_map(troubles_of) {
            health.add(code_of(trouble), text);
        }
        for (trouble, text) in seen.fetch.iter().flat_map(fetching::troubles_of) {
            health.add(code_of_fetch(trouble), text);
        }
        for (trouble, text) in certificates::troubles_of(&seen.certificates, wall::now()) {
            health.add(code_of_certificate(trouble), text);
        }
        for (trouble, text) in seen.acme.iter().flat_map(acme::troubles_of) {
            health.add(code_of_acme(trouble), text);
        }
        look_at_damaged(&mut health, &seen.damaged);
        let (open, max) = (seen.process.descriptors, seen.process.descriptors_max);
        let paused_ago = seen.server.as_ref().and_then(|server| server.accept_paused_ago);
        let is_pausing = paused_ago.is_some_and(|ago| ago < REFUSALS_CALM);
        if is_pausing || (max > 0 && open + DESCRIPTORS_LEFT_MIN > max) {
            let text = format!("{open} descriptors are open, limit {max}: new connections wait");
            health.add(Code::DescriptorsFull, text);
        } else if max > 0 && open > max - max / DESCRIPTORS_SHARE {
            health.add(Code::DescriptorsShort, format!("{open} descriptors are open, limit {max}"));
        }
        if let Some((at, reason)) = &seen.reloads.refusal {
            let version = seen.reloads.version;
            let text = format!("the reload at {at:.0} was refused, version {version} still serves: {reason}");
            health.add(Code::ReloadRefused, text);
        }
        if let Some(fault) = seen.clock {
            health.add(Code::ClockOff, fault.text());
        }
        health.0.sort_by_key(|finding| finding.code.severity());
        health
    }
}

const fn code_of(trouble: ShipTrouble) -> Code {
    match trouble {
        ShipTrouble::Stalled => Code::ShipStalled,
        ShipTrouble::Behind => Code::ShipBehind,
        ShipTrouble::Forked => Code::ShipForked,
        ShipTrouble::SegmentKept => Code::ShipSegmentKept,
        ShipTrouble::NodeTwice => Code::NodeTwice,
        ShipTrouble::VolumeNotMounted => Code::VolumeNotMounted,
        ShipTrouble::VolumeFailed => Code::VolumeFailed,
        ShipTrouble::VolumeHookFailed => Code::VolumeHookFailed,
        ShipTrouble::VolumeSegmentsGone => Code::VolumeSegmentsGone,
    }
}

const fn code_of_acme(trouble: AcmeTrouble) -> Code {
    match trouble {
        AcmeTrouble::SelfSigned => Code::CertificateSelfSigned,
        AcmeTrouble::OrderFailed => Code::CertificateOrderFailed,
    }
}

const fn code_of_certificate(trouble: CertificateTrouble) -> Code {
    match trouble {
        CertificateTrouble::Unusable => Code::CertificateUnusable,
        CertificateTrouble::Expires => Code::CertificateExpires,
    }
}

const fn code_of_fetch(trouble: FetchTrouble) -> Code {
    match trouble {
        FetchTrouble::Failing => Code::FetchFailing,
        FetchTrouble::SegmentMissing => Code::FetchSegmentMissing,
        FetchTrouble::SegmentDamaged => Code::FetchSegmentDamaged,
        FetchTrouble::NodeSilent => Code::NodeSilent,
    }
}

fn look_at_damaged(health: &mut Health, damaged: &Damaged) {
    let Damaged { segments, first, unmended } = damaged;
    if *segments > 0 {
        let first = first.as_ref().map(|file| format!(", the first is {}", file.display()));
        let verb = if *segments == 1 { "is" } else { "are" };
        let first = first.unwrap_or_default();
        let text = format!("{} {verb} damaged{first}", counted(*segments, "segment"));
        health.add(Code::SegmentsDamaged, text);
    }
    for (log, reason) in unmended.iter().take(LOGS_SHOWN) {
        health.add(Code::LogUnmended, format!("log {log} cannot be repaired: {reason}"));
    }
    if unmended.len() > LOGS_SHOWN {
        let more = counted((unmended.len() - LOGS_SHOWN) as u64, "further log");
        health.add(Code::LogUnmended, format!("{more} cannot be repaired"));
    }
}

fn look_at_log(health: &mut Health, log: &LogStatus, records: bool) {
    if let Some(reason) = &log.failure {
        health.add(Code::LogFailed, format!("the log failed: {reason}"));
    } else if log.unsynced_age > SYNC_STALL_MAX {
        let (age, limit) = (log.unsynced_age.as_secs(), SYNC_STALL_MAX.as_secs());
        health.add(
            Code::LogStalled,
            format!("the oldest record has waited {age} s for the disk, limit {limit} s"),
        );
    }
    if log.queue == QueueState::Behind && log.failure.is_none() {
        health.add(Code::LogBehind, queue_text(log));
    }
    let (free, reserve) = (size(log.free_bytes), size(log.reserve_bytes));
    match log.room {
        RoomState::Short if records => {
            let text = format!(
                "{free} are free on the disk of the log, reserve {reserve}: records are refused until a \
                 quarter more than the reserve is free"
            );
            health.add(Code::DiskFull, text);
        }
        RoomState::Enough if log.free_bytes < log.reserve_bytes.saturating_mul(2) => {
            health.add(Code::DiskTight, format!("{free} are free on the disk of the log, reserve {reserve}"));
        }
        RoomState::Short | RoomState::Enough => {}
    }
}

fn queue_text(log: &LogStatus) -> String {
    let (age, age_max) = (log.queue_age.as_millis(), log.queue_age_max.as_millis());
    let (bytes, bytes_max) = (size(log.queued_bytes), size(log.queue_bytes_max));
    format!(
        "the disk is behind and records are refused: the oldest has waited {age} ms, limit {age_max} ms; \
         {bytes} wait, limit {bytes_max}"
    )
}

fn look_at_server(health: &mut Health, server: &ServerStatus, stall_max: Duration) {
    for (index, worker) in server.workers.iter().enumerate() {
        if worker.silence > stall_max {
            let (silent, limit) = (worker.silence.as_secs(), stall_max.as_secs());
            let text = format!(
                "worker {index} has made no pass over its connections for {silent} s, limit {limit} s"
            );
            health.add(Code::WorkerStalled, text);
        }
    }
    if !server.workers.is_empty() && server.workers.iter().all(|worker| worker.refused_share >= 1.0) {
        health.add(
            Code::Behind,
            "requests wait longer than queue_age_max in every worker, so all requests are refused",
        );
    }
    let refusing = server.workers.iter().filter(|worker| worker.refuses_scripts).count();
    if refusing > 0 {
        let of = counted(server.workers.len() as u64, "worker");
        let text = format!(
            "{refusing} of {of} refuse requests for long scripts, because more arrive than they can run"
        );
        health.add(Code::ScriptsBehind, text);
    }
    server.backends.iter().for_each(|backend| look_at_backend(health, backend));
    server.token_keys.iter().for_each(|keys| look_at_token_keys(health, keys));
    let (held, max) = (server.in_flight_bytes, server.in_flight_bytes_max);
    if held > max {
        health.add(
            Code::MemoryFull,
            format!("{} are held for requests and replies, limit {}", size(held), size(max)),
        );
    } else if server.starved_ago.is_some_and(|ago| ago < REFUSALS_CALM) {
        let text = format!(
            "{} of {} are held for requests and replies: requests that get no memory are refused",
            size(held),
            size(max)
        );
        health.add(Code::MemoryShort, text);
    }
    let (connections, max) = (server.connections, server.connections_max);
    if connections >= max {
        health.add(Code::ConnectionsFull, format!("{connections} connections are open, limit {max}"));
    }
}

fn look_at_backend(health: &mut Health, backend: &BackendSnapshot) {
    let name = &backend.name;
    if backend.addresses.is_empty() {
        let text = format!("backend {name} has no address: no name in its urls was found");
        return health.add(Code::BackendUnresolved, text);
    }
    if backend.breaker.is_failing() {
        let text = format!("the breaker of backend {name} is {}", backend.breaker.name());
        return health.add(Code::BackendDown, text);
    }
    let failing = backend.addresses.iter().filter(|address| address.state().is_failing());
    let failing = failing.map(|address| format!("{} is {}", address.address, address.state().name()));
    let missing = backend.missing_names.iter().map(|name| format!("name {name} is not found"));
    let troubles: Vec<_> = failing.chain(missing).collect();
    if !troubles.is_empty() {
        let shown = troubles[..troubles.len().min(TROUBLES_SHOWN)].join(", ");
        let more = troubles.len().saturating_sub(TROUBLES_SHOWN);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        health.add(Code::BackendImpaired, format!("backend {name}: {shown}{more}"));
    }
}

/// Reports keys of tokens that a backend does not publish now. A start begins without keys, so that a first
/// fetch which has not failed is no finding.
fn look_at_token_keys(health: &mut Health, keys: &TokenKeysStatus) {
    let Some((reason, since)) = &keys.trouble else { return };
    let (section, backend, seconds) = (&keys.section, &keys.backend, since.as_secs());
    let text = format!("{section} gets no keys of tokens from backend {backend} for {seconds} s: {reason}");
    health.add(if keys.is_there { Code::TokenKeysOld } else { Code::TokenKeysMissing }, text);
}

fn look_at_sink(health: &mut Health, sink: &Value, phase: Phase, lag_max: Duration) {
    let name = sink["sink"].as_str().unwrap_or_default();
    let because = sink["last_error"].as_str().map(|error| format!(": {error}")).unwrap_or_default();
    match sink["state"].as_str().unwrap_or_default() {
        "stopped" => health.add(Code::SinkStopped, format!("sink {name} stopped{because}")),
        "retrying" => health.add(Code::SinkFailing, format!("sink {name} takes no rows{because}")),
        "no loader" => {
            let absent_seconds = sink["absent_seconds"].as_f64().unwrap_or_default();
            let is_late = phase != Phase::Starting && absent_seconds >= LOADER_PATIENCE.as_secs_f64();
            if is_late {
                let limit = LOADER_PATIENCE.as_secs();
                let text =
                    format!("sink {name} has had no loader for {absent_seconds:.0} s, limit {limit} s");
                health.add(Code::SinkUnattended, text);
            }
        }
        _ => {}
    }
    let waiting = sink["waiting_seconds"].as_f64().unwrap_or_default();
    let stalled = sink["stalled_seconds"].as_f64().unwrap_or_default();
    if waiting > 0.0 {
        let records = counted(sink["lag_records"].as_u64().unwrap_or_default(), "record");
        let text = format!("sink {name} has waited for the database for {waiting:.0} s, {records} to load");
        health.add(Code::SinkWaiting, text);
    } else if stalled > 0.0 {
        let limit = STALLED_MIN.as_secs();
        let text =
            format!("the loader of sink {name} has made no progress for {stalled:.0} s, limit {limit} s");
        health.add(Code::SinkStalled, text);
    }
    let lag = sink["lag_seconds"].as_f64().unwrap_or_default();
    if lag > lag_max.as_secs_f64() {
        let (records, limit) = (sink["lag_records"].as_u64().unwrap_or_default(), lag_max.as_secs());
        let text = format!("sink {name} is {lag:.0} s behind, {records} records, limit {limit} s");
        health.add(Code::SinkBehind, text);
    }
    for (log, reason) in sink["stopped_logs"].as_object().into_iter().flatten() {
        let reason = reason.as_str().unwrap_or_default();
        health.add(Code::LogStopped, format!("sink {name} stopped loading log {log}: {reason}"));
    }
    let missing = sink["in_gaps"].as_u64().unwrap_or_default();
    if missing > 0 {
        health.add(
            Code::RecordsMissing,
            format!("sink {name} is missing {} of the log", counted(missing, "record")),
        );
    }
}

fn size(bytes: u64) -> String {
    crate::progress::size(bytes)
}

/// Returns the answer of `/readyz` as text for people.
pub(crate) fn text_of(health: &Health) -> String {
    let mut text = if health.is_ready() { "ready\n".to_owned() } else { "not ready\n".to_owned() };
    for finding in &health.0 {
        let kind = match finding.code.severity() {
            Severity::Reason => "reason",
            Severity::Warning => "warning",
        };
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "{kind}: {}: {} ({})", finding.code.name(), finding.text, finding.code.advice());
    }
    text
}

/// Returns the answer of `/readyz` as JSON.
pub(crate) fn json_of(health: &Health) -> Value {
    let findings = |severity| health.of(severity).map(Finding::json).collect::<Vec<_>>();
    json!({
        "ready": health.is_ready(),
        "reasons": findings(Severity::Reason),
        "warnings": findings(Severity::Warning),
    })
}

#[cfg(test)]
mod tests;
