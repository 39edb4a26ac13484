//! The names of all objects of a lake.
//!
//! ```text
//! STREAM/day=2026-11-27/LOG-FIRST-LAST.parquet          rows of a load
//! STREAM/day=2026-11-27/LOG-FIRST-LAST.2.parquet        rows of a second set of columns
//! STREAM/day=2026-11-27/LOG-FIRST-LAST.fill.parquet     rows of a gap that was filled
//! STREAM/day=2026-11-27/retry-N.parquet                 rows of rejects that were retried
//! tollgate_rejects/day=2026-11-27/LOG-FIRST-LAST.parquet
//! _tollgate/SINK/sink                                   where the sink began
//! _tollgate/SINK/swept                                  when unneeded files of tables were removed
//! _tollgate/SINK/columns/STREAM/COLUMN                  the type of a column, its name in lower case
//! _tollgate/SINK/log/LOG/FIRST.plan, FIRST.commit       a load
//! _tollgate/SINK/log/LOG/fill/FIRST-LAST.plan, .commit  the fill of a gap
//! _tollgate/SINK/log/LOG/named/FIRST-LAST.N             another reason of a gap
//! _tollgate/SINK/retry/N.plan, N.commit                 a retry of rejects
//! _tollgate/SINK/lease/STORE/NAME                       which loader has a log of a store
//! ```
//!
//! Readers skip a folder whose name begins with `_`.

use std::fmt;

use tollgate_log::{LogId, Sequence};
use tollgate_value::Date;

use crate::plan::RecordDigest;

/// Folder of everything that is not for readers. No stream and no namespace has this name, in any case.
pub const OWN_FOLDER: &str = "_tollgate";
/// The table of rejects.
pub const REJECTS: &str = "tollgate_rejects";
/// The table of gaps, among tables of Iceberg.
pub const GAPS: &str = "tollgate_gaps";
/// Names that no column of a stream has in a file, in any case. `day` is the name of the partition.
pub const RESERVED_IN_FILES: [&str; 4] = ["_key", "_log", "_seq", "day"];
/// Further names that no column of a stream has in a table of Iceberg: the time, and the partitions by it.
pub const RESERVED_IN_TABLES: [&str; 4] = ["_time", "_time_day", "_time_month", "_time_year"];
const DAY_US: i64 = 86_400_000_000;
/// Number of digits of a sequence number in names. The names are then in the order of the numbers.
const DIGITS: usize = 20;

/// Returns the day of a time in microseconds since 1970, in UTC.
pub fn day_of(stamp_us: i64) -> Date {
    let days = i32::try_from(stamp_us.div_euclid(DAY_US)).unwrap_or(i32::MAX);
    Date::from_days(days).unwrap_or(if days < 0 { Date::FIRST } else { Date::LAST })
}

/// The kind of a load, and the records that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadName {
    /// Records after the position.
    Next {
        /// The log.
        log: LogId,
        /// The first record.
        first: Sequence,
    },
    /// Records of a gap.
    Fill {
        /// The log.
        log: LogId,
        /// The first record of the gap.
        first: Sequence,
        /// The last record of the gap.
        last: Sequence,
    },
    /// Rejects of any logs.
    Retry {
        /// The number of the retry.
        number: u64,
    },
}

impl LoadName {
    /// Returns the name of files of the load, without table, day and extension. `last` is its last record.
    pub fn file_stem(self, last: Sequence) -> String {
        match self {
            Self::Next { log, first } | Self::Fill { log, first, .. } => format!("{log}-{first}-{last}"),
            Self::Retry { number } => format!("retry-{number}"),
        }
    }

    /// Reads the name of a file of a load, without its folder. `None`: another program made the file.
    #[cfg(feature = "parquet")]
    pub fn of_file(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(".parquet")?;
        let (stem, is_fill) = stem.strip_suffix(".fill").map_or((stem, false), |stem| (stem, true));
        let (stem, schema) = stem.split_once('.').map_or((stem, None), |(stem, schema)| (stem, Some(schema)));
        if schema.is_some_and(|number| number.parse::<u64>().is_err()) {
            return None;
        }
        if let Some(number) = stem.strip_prefix("retry-") {
            return number.parse().ok().map(|number| Self::Retry { number });
        }
        let (rest, last) = stem.rsplit_once('-')?;
        let (log, first) = rest.rsplit_once('-')?;
        let (log, first, last) =
            (log.parse().ok()?, Sequence(first.parse().ok()?), Sequence(last.parse().ok()?));
        Some(if is_fill { Self::Fill { log, first, last } } else { Self::Next { log, first } })
    }

    /// Returns the part of the names of files before the extension.
    pub const fn file_kind(self) -> &'static str {
        match self {
            Self::Fill { .. } => ".fill",
            Self::Next { .. } | Self::Retry { .. } => "",
        }
    }

    /// Returns the name without its extension, below the folder of a sink.
    fn stem(self) -> String {
        match self {
            Self::Next { log, first } => format!("log/{log}/{}", number(first)),
            Self::Fill { log, first, last } => format!("log/{log}/fill/{}-{}", number(first), number(last)),
            Self::Retry { number } => format!("retry/{number:0DIGITS$}"),
        }
    }
}

/// The names of the objects of one sink.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    sink: String,
}

impl Names {
    pub(crate) fn new(sink: &str) -> Self {
        Self { sink: sink.to_owned() }
    }

    fn own(&self, rest: impl fmt::Display) -> String {
        format!("{OWN_FOLDER}/{}/{rest}", self.sink)
    }

    pub(crate) fn sink(&self) -> String {
        self.note("sink")
    }

    pub(crate) fn note(&self, name: &str) -> String {
        self.own(name)
    }

    pub(crate) fn column(&self, stream: &str, column: &str) -> String {
        self.own(format_args!("columns/{}/{}", escaped(stream), escaped(column)))
    }

    /// Returns the prefix of the types of the columns of a stream.
    pub(crate) fn columns(&self, stream: &str) -> String {
        self.own(format_args!("columns/{}/", escaped(stream)))
    }

    pub(crate) fn plan(&self, load: LoadName) -> String {
        self.own(format_args!("{}.plan", load.stem()))
    }

    pub(crate) fn commit(&self, load: LoadName) -> String {
        self.own(format_args!("{}.commit", load.stem()))
    }

    pub(crate) fn logs(&self) -> String {
        self.own("log/")
    }

    pub(crate) fn log(&self, log: LogId) -> String {
        self.own(format_args!("log/{log}/"))
    }

    pub(crate) fn fills(&self, log: LogId) -> String {
        self.own(format_args!("log/{log}/fill/"))
    }

    pub(crate) fn renames(&self, log: LogId) -> String {
        self.own(format_args!("log/{log}/named/"))
    }

    pub(crate) fn rename(&self, log: LogId, first: Sequence, last: Sequence, count: usize) -> String {
        self.own(format_args!("log/{log}/named/{}-{}.{count:06}", number(first), number(last)))
    }

    /// Returns the prefix of the leases of loaders that read one store.
    pub(crate) fn leases(&self, store: &str) -> String {
        let mut digest = RecordDigest::default();
        digest.text(store);
        self.own(format_args!("lease/{}/", &digest.finish()[..DIGITS]))
    }

    pub(crate) fn retries(&self) -> String {
        self.own("retry/")
    }
}

fn number(sequence: Sequence) -> String {
    format!("{:0DIGITS$}", sequence.0)
}

/// Returns the name of the folder of a table.
pub fn table_folder(table: &str) -> String {
    escaped(table)
}

/// Returns a text as a part of a name: ASCII letters, digits, `_` and `-` stay, any other byte becomes `%XX`.
pub(crate) fn escaped(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            byte => name.push_str(&format!("%{byte:02X}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_separator_and_no_name_above_it() {
        for (text, name) in [("visits", "visits"), ("a/b", "a%2Fb"), ("..", "%2E%2E"), ("é", "%C3%A9")] {
            assert_eq!(escaped(text), name);
        }
    }

    #[test]
    #[cfg(feature = "parquet")]
    fn the_name_of_a_file_gives_its_load() {
        let (log, first, last) = (LogId::random(), Sequence(3), Sequence(9));
        let loads = [
            LoadName::Next { log, first },
            LoadName::Fill { log, first, last },
            LoadName::Retry { number: 7 },
        ];
        for load in loads {
            for number in ["", ".2"] {
                let name = format!("{}{number}{}.parquet", load.file_stem(last), load.file_kind());
                assert_eq!(LoadName::of_file(&name), Some(load), "{name}");
            }
        }
        let of_load = format!("{log}-3-9.parquet");
        let others = [".new", ".crc", ".part", ".parquet"].map(|end| format!("{of_load}{end}"));
        let copy = format!("{log}-3-9.copy.parquet");
        let named = ["a.parquet", "00000-1-2.parquet", "retry-x.parquet", "x.avro", "_SUCCESS", &copy];
        for name in others.iter().map(String::as_str).chain(named) {
            assert_eq!(LoadName::of_file(name), None, "{name}");
        }
    }

    #[test]
    fn the_day_is_the_one_in_utc() {
        let cases = [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (86_400_000_000 - 1, "1970-01-01"),
            (86_400_000_000, "1970-01-02"),
            (i64::MAX, "9999-12-31"),
            (i64::MIN, "0001-01-01"),
        ];
        for (us, day) in cases {
            assert_eq!(day_of(us).to_string(), day, "{us}");
        }
    }

    #[test]
    fn names_of_loads_are_in_the_order_of_their_records() {
        let names = Names::new("lake");
        let log = LogId::random();
        let name = |first| names.commit(LoadName::Next { log, first: Sequence(first) });
        let ordered = [1, 9, 10, 99, 100, u64::MAX].map(name);
        assert!(ordered.is_sorted(), "{ordered:?}");
    }
}
