//! Options of a sink: its name, its database, its streams. Functions that open the sink or read its
//! bookkeeping.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tollgate_log::{LogId, Position, Schema};

use super::accounts::LogCounts;
use super::after::AfterLoad;
use super::contract::{Sink, TopicSink};
use super::declared::DeclaredStreams;
use super::duplicates::Duplicates;
use super::iceberg::{self, IcebergOptions};
use super::kafka::{self, KafkaOptions, KafkaSink, NoLeases};
use super::leases::{LeaseScope, LeaseTable};
use super::parquet::{self, LakeLeases, MadeOf, ParquetOptions};
use super::postgres::{self, PostgresLeases, PostgresOptions, PostgresSink};
use super::reject::{ReadItem, Retried};
use super::sqlite::{self, SqliteLeases, SqliteSink};
use super::streams::Taken;
use super::write_rules::WriteRules;
use crate::error::SinkError;

/// Default of `rejects_max`, in rows. If the database refuses more rows of one segment, the cause is probably
/// not their content.
const REJECTS_MAX: u64 = 1_000;

/// Options of a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkOptions {
    /// Name of the sink in configuration, log lines and metrics.
    pub name: String,
    /// Database of the sink.
    pub kind: SinkKind,
    /// Streams whose records the sink takes.
    pub taken: Taken,
    /// Streams of the configuration. The sink creates no table or column that their rows would not fit.
    pub declared: DeclaredStreams,
    /// Where the sink begins if the database does not know it.
    pub from: LoadFrom,
    /// A file of SQL that runs in the transaction of each load, after its rows are written.
    pub after_load: Option<PathBuf>,
    /// Maximum number of rows of one segment that the database may refuse. If it refuses more, the sink
    /// stops.
    pub rejects_max: u64,
    /// Whether replies wait for the sink. After an error, the loader then tries again sooner, because the
    /// server refuses the records of these replies until the sink works.
    pub is_awaited: bool,
}

/// Where a new sink begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadFrom {
    /// The sink begins at the oldest kept record.
    #[default]
    Oldest,
    /// The sink begins after the records that may be read at its first start. Earlier records are neither
    /// pending nor missing.
    Now,
}

impl LoadFrom {
    /// All values, with their names in configuration.
    pub const ALL: [(&'static str, Self); 2] = [("oldest", Self::Oldest), ("now", Self::Now)];

    /// Returns the name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oldest => "oldest",
            Self::Now => "now",
        }
    }
}

/// Kinds of sinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkKind {
    /// An SQLite database in a file. If the file or its folder is missing, the sink creates it.
    Sqlite {
        /// Path of the file.
        path: PathBuf,
    },
    /// A PostgreSQL database.
    Postgres(Box<PostgresOptions>),
    /// Topics of a Kafka cluster.
    Kafka(Box<KafkaOptions>),
    /// Parquet files in a folder or an object store.
    Parquet(Box<ParquetOptions>),
    /// Tables of Iceberg in a folder or an object store.
    Iceberg(Box<IcebergOptions>),
}

impl SinkKind {
    /// Returns whether the sink is a database: rows can be updated and queried, and each commit is its own.
    pub const fn is_database(&self) -> bool {
        match self {
            Self::Sqlite { .. } | Self::Postgres(_) => true,
            Self::Kafka(_) | Self::Parquet(_) | Self::Iceberg(_) => false,
        }
    }

    /// Checks whether a sink of files can have the names of a stream and of its columns. Reads no file.
    ///
    /// # Errors
    /// A name is reserved.
    pub fn check_names(&self, schema: &Schema) -> Result<(), SinkError> {
        match self {
            Self::Parquet(_) => parquet::check_names(schema, MadeOf::Files),
            Self::Iceberg(_) => parquet::check_names(schema, MadeOf::Table),
            Self::Sqlite { .. } | Self::Postgres(_) | Self::Kafka(_) => Ok(()),
        }
    }
}

impl SinkOptions {
    /// Returns the default options: the sink takes all streams, from the oldest record.
    pub fn new(name: impl Into<String>, kind: SinkKind) -> Self {
        Self {
            name: name.into(),
            kind,
            taken: Taken::default(),
            declared: DeclaredStreams::default(),
            from: LoadFrom::default(),
            after_load: None,
            rejects_max: REJECTS_MAX,
            is_awaited: false,
        }
    }

    /// Returns the option that makes `new` a different database under the same name. The positions would be
    /// missing there. Returns `None` if the database is the same.
    pub fn moved_by(&self, new: &Self) -> Option<&'static str> {
        match (&self.kind, &new.kind) {
            (SinkKind::Sqlite { path }, SinkKind::Sqlite { path: new }) if path == new => None,
            (SinkKind::Postgres(present), SinkKind::Postgres(new)) => present.moved_by(new),
            (SinkKind::Kafka(present), SinkKind::Kafka(new)) => present.moved_by(new),
            (SinkKind::Parquet(present), SinkKind::Parquet(new)) => present.moved_by(new),
            (SinkKind::Iceberg(present), SinkKind::Iceberg(new)) => present.moved_by(new),
            _ => Some("another database"),
        }
    }

    /// Returns what an operator has to know about the rows of the sink, because of its options.
    pub fn notes(&self) -> Vec<&'static str> {
        let (duplicates, is_exact) = match &self.kind {
            SinkKind::Sqlite { .. } | SinkKind::Postgres(_) => return Vec::new(),
            SinkKind::Kafka(kafka) => (kafka.duplicates, kafka.exactly_once),
            SinkKind::Parquet(parquet) => (parquet.duplicates, true),
            SinkKind::Iceberg(iceberg) => (iceberg.files.duplicates, true),
        };
        let mut taken = self.declared.iter().filter(|schema| self.taken.takes(schema.stream()));
        let keeps = duplicates == Duplicates::Keep && taken.any(|schema| schema.key().is_some());
        let notes = [
            (keeps, "retries with the same key appear twice, because duplicates is \"keep\""),
            (!is_exact, "rows may appear again after a crash or a retry, because exactly_once is false"),
        ];
        notes.into_iter().filter(|(is_true, _)| *is_true).map(|(_, note)| note).collect()
    }

    fn rules(&self) -> WriteRules {
        WriteRules {
            after: self.after_load.clone().map(AfterLoad::new),
            rejects_max: self.rejects_max,
            declared: self.declared.clone(),
        }
    }

    /// Opens the sink to load topics into it. `None`: the sink is no database.
    pub(crate) fn open_for_topics(&self) -> Result<Option<Box<dyn TopicSink>>, SinkError> {
        let (name, rules) = (&self.name, self.rules());
        Ok(Some(match &self.kind {
            SinkKind::Sqlite { path } => Box::new(SqliteSink::open(path, name, rules)?),
            SinkKind::Postgres(options) => Box::new(PostgresSink::open(options, name, rules)?),
            SinkKind::Kafka(_) | SinkKind::Parquet(_) | SinkKind::Iceberg(_) => return Ok(None),
        }))
    }

    /// Opens the sink for writing.
    pub(crate) fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let rules = self.rules();
        match &self.kind {
            SinkKind::Sqlite { path } => Ok(Box::new(SqliteSink::open(path, &self.name, rules)?)),
            SinkKind::Postgres(options) => Ok(Box::new(PostgresSink::open(options, &self.name, rules)?)),
            SinkKind::Kafka(options) => {
                Ok(Box::new(KafkaSink::open(options, &self.name, self.rejects_max, &self.declared)?))
            }
            SinkKind::Parquet(options) => parquet::open(options, &self.name, rules),
            SinkKind::Iceberg(options) => iceberg::open(options, &self.name, rules),
        }
    }

    /// Opens the leases of the sink, by a connection of their own.
    pub(crate) fn open_leases(&self, scope: LeaseScope) -> Result<Box<dyn LeaseTable>, SinkError> {
        match &self.kind {
            SinkKind::Sqlite { path } => Ok(Box::new(SqliteLeases::new(path, &self.name, scope))),
            SinkKind::Postgres(options) => Ok(Box::new(PostgresLeases::open(options, &self.name, scope)?)),
            SinkKind::Kafka(_) => Ok(Box::new(NoLeases)),
            SinkKind::Parquet(options) => Ok(Box::new(LakeLeases::open(options, &self.name, scope)?)),
            SinkKind::Iceberg(options) => Ok(Box::new(LakeLeases::open(&options.files, &self.name, scope)?)),
        }
    }

    /// Checks whether the rows of the declared streams fit the existing tables. Does not change the database.
    ///
    /// # Errors
    /// If rows do not fit, [`SinkError::is_of_configuration`] of the error is true. Any other error means
    /// that the check was not possible.
    pub fn check(&self) -> Result<(), SinkError> {
        let taken = self.declared.iter().filter(|schema| self.taken.takes(schema.stream()));
        match &self.kind {
            SinkKind::Sqlite { path } => sqlite::check(path, taken),
            SinkKind::Postgres(options) => postgres::check(options, taken),
            SinkKind::Kafka(options) => kafka::check(options, taken),
            SinkKind::Parquet(options) => {
                let free = |stream: &str, _: &str, _: &str| parquet::free_column(options, &self.name, stream);
                parquet::check(options, &self.name, taken, (MadeOf::Files, &free))
            }
            SinkKind::Iceberg(options) => iceberg::check(options, &self.name, taken),
        }
    }

    /// Tries the rejects of the sink again. `read` reads items with the columns of the current streams.
    ///
    /// # Errors
    /// The sink cannot be opened or fails. Transactions that were committed before the error stay committed.
    pub fn retry_rejects(&self, read: &ReadItem<'_>) -> Result<Retried, SinkError> {
        self.open()?.retry_rejects(read)
    }

    /// Reads the position of each log, without changing the database. Returns `None` if the database does not
    /// exist or no record was loaded.
    ///
    /// # Errors
    /// The database exists and cannot be read.
    pub fn positions(&self) -> Result<Option<BTreeMap<LogId, Position>>, SinkError> {
        match &self.kind {
            SinkKind::Sqlite { path } => sqlite::read_positions(path, &self.name),
            SinkKind::Postgres(options) => postgres::read_positions(options, &self.name),
            SinkKind::Kafka(options) => kafka::read_positions(options, &self.name),
            SinkKind::Parquet(options) => parquet::read_positions(options, &self.name),
            SinkKind::Iceberg(options) => parquet::read_positions(&options.files, &self.name),
        }
    }

    /// Reads positions and counters, without changing the database. A missing database has no counts.
    pub(crate) fn counts(&self) -> Result<Vec<LogCounts>, SinkError> {
        match &self.kind {
            SinkKind::Sqlite { path } => sqlite::read_counts(path, &self.name),
            SinkKind::Postgres(options) => postgres::read_counts(options, &self.name),
            SinkKind::Kafka(options) => kafka::read_counts(options, &self.name),
            SinkKind::Parquet(options) => parquet::read_counts(options, &self.name),
            SinkKind::Iceberg(options) => parquet::read_counts(&options.files, &self.name),
        }
    }
}

/// Opens an SQLite sink with another clock for the windows of keys.
#[cfg(test)]
pub(crate) fn sqlite_with_clock(
    path: &std::path::Path,
    name: &str,
    clock: impl Fn() -> std::time::Duration + Send + 'static,
) -> Result<Box<dyn Sink>, SinkError> {
    let rules = WriteRules { after: None, rejects_max: REJECTS_MAX, declared: DeclaredStreams::default() };
    let sink = SqliteSink::open_with(path, name, rules, Box::new(clock))?;
    Ok(Box::new(sink))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_log::{Column, ColumnOrigin, ColumnType};

    use super::*;
    use crate::sink::LakePlace;

    const TWICE: &str = "retries with the same key appear twice, because duplicates is \"keep\"";
    const CRASH: &str = "rows may appear again after a crash or a retry, because exactly_once is false";

    fn schema(stream: &str, is_keyed: bool) -> Schema {
        let column = |name: &str, kind, origin| Column { name: name.to_owned(), kind, origin };
        let mut columns = vec![column("n", ColumnType::Int, ColumnOrigin::Stored)];
        if is_keyed {
            let window_ms = Duration::from_secs(60).as_millis() as u64;
            columns.push(column("(key)", ColumnType::Bytes, ColumnOrigin::Key { window_ms }));
        }
        Schema::new(stream, columns).unwrap()
    }

    /// Checks the notes of a sink that takes a stream with a key, and of one that takes another stream.
    fn check(kind: SinkKind, keyed: &[&str], other: &[&str]) {
        let mut sink = SinkOptions::new("s", kind);
        sink.declared = [schema("keyed", true), schema("other", false)].into_iter().collect();
        assert_eq!(sink.notes(), keyed);
        sink.taken = Taken::Only(["other".to_owned()].into());
        assert_eq!(sink.notes(), other);
    }

    #[test]
    fn a_sink_notes_which_rows_may_appear_twice() {
        let kafka = |duplicates, exactly_once| {
            SinkKind::Kafka(Box::new(KafkaOptions { duplicates, exactly_once, ..KafkaOptions::new("b:1") }))
        };
        check(kafka(Duplicates::Refuse, true), &[], &[]);
        check(kafka(Duplicates::Keep, true), &[TWICE], &[]);
        check(kafka(Duplicates::Keep, false), &[TWICE, CRASH], &[CRASH]);
        let mut parquet = ParquetOptions::new(LakePlace::Folder("lake".into()), "parts");
        check(SinkKind::Parquet(Box::new(parquet.clone())), &[], &[]);
        parquet.duplicates = Duplicates::Keep;
        check(SinkKind::Parquet(Box::new(parquet)), &[TWICE], &[]);
        check(SinkKind::Sqlite { path: "a.db".into() }, &[], &[]);
    }

    #[test]
    fn a_sink_of_files_has_reserved_names_in_any_case() {
        let files = ParquetOptions::in_folder("lake");
        let tables = IcebergOptions::new(files.clone(), super::iceberg::CatalogPlace::Sqlite("c".into()));
        let (files, tables) = (SinkKind::Parquet(Box::new(files)), SinkKind::Iceberg(Box::new(tables)));
        let sqlite = SinkKind::Sqlite { path: "a.db".into() };
        for (name, in_files, in_tables) in [
            ("n", false, false),
            ("time", false, false),
            ("_key", true, true),
            ("_LOG", true, true),
            ("Day", true, true),
            ("_time", false, true),
            ("_Time", false, true),
            ("_time_day", false, true),
            ("_TIME_month", false, true),
            ("_time_year", false, true),
        ] {
            let column =
                Column { name: name.to_owned(), kind: ColumnType::Timestamp, origin: ColumnOrigin::Stored };
            let schema = Schema::new("visits", vec![column]).unwrap();
            let is_refused = [&files, &tables, &sqlite].map(|kind| kind.check_names(&schema).is_err());
            assert_eq!(is_refused, [in_files, in_tables, false], "{name}");
        }
        for (stream, is_reserved) in [("tollgate", false), ("_tollgate", true), ("_Tollgate", true)] {
            let is_refused =
                [&files, &tables, &sqlite].map(|kind| kind.check_names(&schema(stream, false)).is_err());
            assert_eq!(is_refused, [is_reserved, is_reserved, false], "{stream}");
        }
    }
}
