//! The state of a loader.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tollgate_log::LogId;
use tollgate_meter::OutcomeBlock;
use tollgate_queue::TopicCopies;

use super::backlog::LoadBacklog;
use crate::sink::LostTable;

/// Time without progress after which a loader counts as stalled.
///
/// A loader makes progress when it reads a batch, commits, or waits for records. Between two such steps, it
/// makes only one call of the database or reads one batch.
pub const STALLED_MIN: Duration = Duration::from_secs(5);

/// Activity of a loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadState {
    /// There are records to load.
    #[default]
    Loading,
    /// The loader opens the sink, and the sink has not answered yet.
    Opening,
    /// All synced records are loaded.
    CaughtUp,
    /// The loader waits after an error.
    Retrying,
    /// An operator has to act. Until then, the loader tries again every `backoff_max`.
    Stopped,
    /// The thread has ended.
    Ended,
}

impl LoadState {
    /// Returns the name in log lines and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Opening => "opening",
            Self::CaughtUp => "caught up",
            Self::Retrying => "retrying",
            Self::Stopped => "stopped",
            Self::Ended => "ended",
        }
    }
}

/// State of a loader. All counts begin with the start of the loader.
#[derive(Debug, Clone, Default)]
pub struct LoadStatus {
    /// Current activity.
    pub state: LoadState,
    /// Number of rows loaded.
    pub rows: u64,
    /// Number of rejects loaded.
    pub rejects: u64,
    /// Number of duplicates: records with the key of an earlier record. Duplicates are counted, not loaded.
    pub duplicates: u64,
    /// Number of records in gaps that the position passed.
    pub missing: u64,
    /// Number of records of gaps that were found later and loaded.
    pub filled: u64,
    /// Number of records in the current gaps of the sink, including gaps of earlier runs. Gaps that were
    /// given up by command do not count.
    pub in_gaps: u64,
    /// Streams with more rejects than rows, with their last records: good are rows and duplicates, bad are
    /// rejects.
    pub rejecting_streams: BTreeMap<String, OutcomeBlock>,
    /// Tables that are missing although rows were loaded into them, by stream.
    pub lost_tables: BTreeMap<String, LostTable>,
    /// Lost tables that this loader created again without their rows, by stream.
    pub remade_tables: BTreeMap<String, LostTable>,
    /// How many copies the topics of a Kafka sink have.
    pub topics: BTreeMap<String, TopicCopies>,
    /// What an operator has to know about the rows of the sink, because of its options.
    pub notes: Vec<&'static str>,
    /// Number of commits.
    pub commits: u64,
    /// Number of files that the commits made. Only a sink of files makes any.
    pub files: u64,
    /// Bytes of these files.
    pub file_bytes: u64,
    /// Bytes of the committed records, as they are in the log. Records that filled gaps do not count.
    pub bytes: u64,
    /// Age of the oldest record that is not loaded, by the stamp of its batch. Zero if all records are
    /// loaded.
    pub lag: Duration,
    /// How long the sink lets whole segments wait for more of them. Zero for a sink that loads each record as
    /// soon as it can.
    pub file_age: Duration,
    /// Number of passes that found nothing more to load. A server that writes without a pause may never be
    /// caught up at the moment of a look.
    pub caught_up: u64,
    /// Records to load. The records are counted now, and the segments and bytes at the last look at the disk.
    pub backlog: LoadBacklog,
    /// Logs that the loader does not load any more, with the reason.
    pub stopped_logs: BTreeMap<LogId, String>,
    /// Logs that cannot be read at present, with the reason. Each is tried again.
    pub failing_logs: BTreeMap<LogId, String>,
    /// Time since which only failing logs remain to be loaded. `None` if other logs remain, or no log.
    pub only_failing_since: Option<Instant>,
    /// How long the database has not answered, through all tries. Zero if that is shorter than
    /// [`WAITING_MIN`](super::calls::WAITING_MIN).
    pub waiting: Duration,
    /// When the sink failed first, after it last worked. `None` while it works.
    pub failing_since: Option<Instant>,
    /// How long the loader has made no progress. Zero if that is shorter than [`STALLED_MIN`].
    pub stalled: Duration,
    /// The last error, with its causes.
    pub last_error: Option<String>,
    /// Whether the last attempt to open the sink failed with an error that does not end by waiting.
    pub is_unusable: bool,
    /// Current wait after errors. Zero while the sink works.
    pub backoff: Duration,
    /// Number of restarts of the thread after a panic.
    pub restarts: u64,
}
