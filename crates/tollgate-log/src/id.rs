//! The two parts of a record's identity: its log, and its number in that log.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_value::TIMESTAMP_LAST_US;
use uuid::{ContextV7, Timestamp, Uuid};

/// Id of a log. A log has the records that one process run wrote.
///
/// Shape: 16 bytes, a UUID version 7 (RFC 9562 section 5.7). People who list the folders therefore see them
/// sorted by age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId([u8; 16]);

impl LogId {
    /// Returns the log that the folder of a segment is named after. Returns `None` if the name of the folder
    /// is no log id.
    pub(crate) fn of_segment(path: &Path) -> Option<Self> {
        path.parent()?.file_name()?.to_str()?.parse().ok()
    }

    /// Makes a new id with 74 random bits, so that no other run has the same id.
    ///
    /// If the clock is outside the years 1970 to 9999, the id has the nearest time in these years.
    pub fn random() -> Self {
        static CONTEXT: Mutex<ContextV7> = Mutex::new(ContextV7::new());
        let since = wall_clock();
        Self(Uuid::new_v7(Timestamp::from_unix(&CONTEXT, since.as_secs(), since.subsec_nanos())).into_bytes())
    }

    /// Makes the id of a partition of a topic. Its records are numbered by their offsets, and some offsets
    /// have no record.
    ///
    /// Shape: a UUID version 8 (RFC 9562 section 5.8), from the id of the topic and the partition.
    pub fn of_partition(topic: [u8; 16], partition: i32) -> Self {
        let mut bytes = topic;
        for (byte, part) in bytes[12..].iter_mut().zip(partition.to_be_bytes()) {
            *byte ^= part;
        }
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid().into_bytes())
    }

    /// Returns whether this is the id of a partition of a topic.
    pub fn is_of_partition(&self) -> bool {
        Uuid::from_bytes(self.0).get_version_num() == 8
    }

    /// Makes an id from its 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the 16 bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

#[expect(clippy::disallowed_methods, reason = "the order of ids is for people, and nothing is decided by it")]
fn wall_clock() -> Duration {
    const LAST: Duration = Duration::from_micros(TIMESTAMP_LAST_US.cast_unsigned());
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().min(LAST)
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_bytes(self.0).hyphenated().fmt(f)
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for LogId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(|id| Self(id.into_bytes()))
    }
}

/// Number of a record in its log. The first record has the number 1, and each next record has one more. Zero
/// means the position before the first record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The number of the first record of a log.
    pub const FIRST: Self = Self(1);

    /// The highest number in a log. At ten million records a second, a log reaches it after 228 years.
    ///
    /// A larger number in a file or a name is damage. Databases store numbers as signed 64-bit integers, and
    /// sums over many logs have to fit into these too.
    pub const MAX: Self = Self((1 << 56) - 1);

    /// Returns whether the number is at most [`Self::MAX`]. No record has a higher number.
    pub const fn is_possible(self) -> bool {
        self.0 >= Self::FIRST.0 && self.0 <= Self::MAX.0
    }

    /// Returns the count of records from this number to `last`, both included. Returns 0 if `last` is lower.
    pub const fn count_to(self, last: Self) -> u64 {
        last.0.saturating_add(1).saturating_sub(self.0)
    }

    /// Returns the number after `count` further records.
    #[must_use]
    pub const fn after(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// Returns the previous number. Zero stays zero.
    #[must_use]
    pub const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
