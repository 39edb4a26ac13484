//! The list of findings: the code, the name and the severity of each. [`Code::advice`] has its own file.

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// The server is not ready: send requests to another server.
    Reason,
    /// An operator should look at the cause.
    Warning,
}

/// The code of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Starting,
    Draining,
    LogFailed,
    LogGone,
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
    SinkRejecting,
    TableMissing,
    TopicCopiesFew,
    RouteFailing,
    LogStopped,
    LogUnmended,
    RecordsMissing,
    SegmentsDamaged,
    DiskTight,
    DescriptorsShort,
    ReloadRefused,
    OldProcessStays,
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
    DnsRecordLeft,
    AccessLogLosing,
    SpansFailing,
}

impl Code {
    pub(crate) const ALL: [Self; 58] = [
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
        Self::LogGone,
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
        Self::SinkRejecting,
        Self::TableMissing,
        Self::TopicCopiesFew,
        Self::RouteFailing,
        Self::LogStopped,
        Self::LogUnmended,
        Self::RecordsMissing,
        Self::SegmentsDamaged,
        Self::DiskTight,
        Self::DescriptorsShort,
        Self::ReloadRefused,
        Self::OldProcessStays,
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
        Self::DnsRecordLeft,
        Self::AccessLogLosing,
        Self::SpansFailing,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Draining => "draining",
            Self::LogFailed => "log_failed",
            Self::LogGone => "log_gone",
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
            Self::SinkRejecting => "sink_rejecting",
            Self::TableMissing => "table_missing",
            Self::TopicCopiesFew => "topic_copies_few",
            Self::RouteFailing => "route_failing",
            Self::LogStopped => "log_stopped",
            Self::LogUnmended => "log_unmended",
            Self::RecordsMissing => "records_missing",
            Self::SegmentsDamaged => "segments_damaged",
            Self::DiskTight => "disk_tight",
            Self::DescriptorsShort => "descriptors_short",
            Self::ReloadRefused => "reload_refused",
            Self::OldProcessStays => "old_process_stays",
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
            Self::DnsRecordLeft => "dns_record_left",
            Self::AccessLogLosing => "access_log_losing",
            Self::SpansFailing => "spans_failing",
        }
    }

    pub(crate) const fn severity(self) -> Severity {
        match self {
            Self::Starting
            | Self::Draining
            | Self::LogFailed
            | Self::LogGone
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
            | Self::SinkRejecting
            | Self::TableMissing
            | Self::TopicCopiesFew
            | Self::RouteFailing
            | Self::LogStopped
            | Self::LogUnmended
            | Self::RecordsMissing
            | Self::SegmentsDamaged
            | Self::DiskTight
            | Self::DescriptorsShort
            | Self::ReloadRefused
            | Self::OldProcessStays
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
            | Self::CertificateOrderFailed
            | Self::DnsRecordLeft
            | Self::AccessLogLosing
            | Self::SpansFailing => Severity::Warning,
        }
    }
}
