//! The machine from which records are counted: which counts it knows, and in which order they are printed.

use super::counts::Count;

/// The machine from which records are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// A machine with a log and the database. No store is read.
    Local,
    /// A machine that wrote a log. It reads its log and the store.
    Web,
    /// A machine that loads. It reads the store and its database.
    Database,
}

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    Log,
    Stream,
    Count(Count),
    /// Whether the log has ended.
    Complete,
    Node,
}

/// New columns are before the last one, the machine. So a script that reads the others by their place
/// continues to work.
const LOCAL: [Cell; 10] = [
    Cell::Log,
    Cell::Stream,
    Cell::Count(Count::Ingested),
    Cell::Count(Count::Pending),
    Cell::Count(Count::Loaded),
    Cell::Count(Count::Rejected),
    Cell::Count(Count::Duplicate),
    Cell::Count(Count::Missing),
    Cell::Count(Count::GivenUp),
    Cell::Node,
];

const WEB: [Cell; 9] = [
    Cell::Log,
    Cell::Stream,
    Cell::Count(Count::Ingested),
    Cell::Count(Count::Unshipped),
    Cell::Count(Count::Shipped),
    Cell::Count(Count::Answered),
    Cell::Count(Count::Missing),
    Cell::Complete,
    Cell::Node,
];

const DATABASE: [Cell; 12] = [
    Cell::Log,
    Cell::Stream,
    Cell::Count(Count::Ingested),
    Cell::Count(Count::Shipped),
    Cell::Count(Count::Pending),
    Cell::Count(Count::Loaded),
    Cell::Count(Count::Rejected),
    Cell::Count(Count::Duplicate),
    Cell::Count(Count::GivenUp),
    Cell::Count(Count::Missing),
    Cell::Complete,
    Cell::Node,
];

/// The order of the keys is the order of earlier versions.
const LOCAL_JSON: [Count; 7] = [
    Count::Ingested,
    Count::Pending,
    Count::Loaded,
    Count::Rejected,
    Count::Duplicate,
    Count::Missing,
    Count::GivenUp,
];

impl Side {
    /// Returns the columns of the table.
    pub(super) const fn cells(self) -> &'static [Cell] {
        match self {
            Self::Local => &LOCAL,
            Self::Web => &WEB,
            Self::Database => &DATABASE,
        }
    }

    /// Returns the counts of a JSON object, including the counts that this side does not know.
    pub(super) const fn json_counts(self) -> &'static [Count] {
        match self {
            Self::Local => &LOCAL_JSON,
            Self::Web | Self::Database => &Count::ALL,
        }
    }

    /// Returns whether this side knows a count.
    pub(super) fn knows(self, count: Count) -> bool {
        self.cells().contains(&Cell::Count(count))
    }

    /// Returns the name in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Web => "web",
            Self::Database => "database",
        }
    }

    /// Returns the names of the columns.
    pub(super) fn header(self) -> Vec<&'static str> {
        let name = |cell: &Cell| match cell {
            Cell::Log => "log",
            Cell::Stream => "stream",
            Cell::Count(count) => count.name(),
            Cell::Complete => "complete",
            Cell::Node => "node",
        };
        self.cells().iter().map(name).collect()
    }
}
