//! The advice of each finding: what an operator does about it.

use super::code::Code;

impl Code {
    /// Returns the advice for this finding, as a sentence.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::Starting => "wait: the server first repairs the logs of earlier runs",
            Self::Draining => "nothing: the server ends after its requests in flight",
            Self::LogFailed => "check the disk (dmesg), then restart the server",
            Self::LogGone => {
                "mount the disk of dir in [log] again, or put the folder back: records are then accepted \
                 without a restart"
            }
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
                "check what the error names, usually the database or the queue: records wait in the log and \
                 are loaded later"
            }
            Self::SinkUnattended => {
                "start `tollgate load` for this sink: its records stay on disk until they are loaded"
            }
            Self::SinkBehind => "check the load of the database or of the queue: no record is lost meanwhile",
            Self::SinkWaiting => {
                "look at what the sink waits for. A database: locks (`pg_locks`, `pg_blocking_pids`, or \
                 `fuser FILE` for SQLite), a stopped server, a slow disk. A queue: brokers that are stopped, \
                 or too few replicas in sync"
            }
            Self::SinkStalled => {
                "check the disk of the log. If it works, report the fault with the output of gdb -p and \
                 `tollgate log verify`"
            }
            Self::SinkRejecting => {
                "read the reasons in tollgate_rejects (`tollgate sql`), correct the column or the client, then \
                 run `tollgate load --retry-rejects`"
            }
            Self::TableMissing => {
                "restore the table from a backup of the database. The loader creates it again for the next \
                 record, without its rows. If it was dropped on purpose, restart the server after that"
            }
            Self::TopicCopiesFew => {
                "give the topic three replicas (kafka-reassign-partitions) and min.insync.replicas = 2 \
                 (kafka-configs), unless the loss of one broker may lose its records"
            }
            Self::RouteFailing => {
                "correct the cause that is named. The log shows failed scripts and backends, and \
                 RUST_LOG=debug shows each refused request"
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
                "run `tollgate log verify`, and restore the segment from a copy. Without a copy, accept \
                 the damage with `tollgate log accept`"
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
            Self::OldProcessStays => {
                "look at the log lines of this process. Two SIGTERM end it: records that it acknowledged as \
                 synced stay, and this process loads them"
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
            Self::DnsRecordLeft => {
                "correct what the reason names, usually the hook: the server tries again at least once an \
                 hour"
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
            Self::AccessLogLosing => {
                "free space on its disk, or read its pipe faster. Else set sample or only = \"errors\" in \
                 [access_log]"
            }
            Self::SpansFailing => {
                "start the collector, or correct url and headers in [otlp]. 400 and 404 mean that it takes \
                 no OTLP over HTTP with JSON at this address"
            }
            Self::CertificateExpires => {
                "renew the certificate and write its files: the server reads them without a reload"
            }
        }
    }
}
