//! A folder of logs, with its own database.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tollgate_load::{
    AuditRow, LoadOptions, LoadStatus, Loader, PostgresOptions, PostgresUrl, SinkKind, SinkOptions, audit,
};
use tollgate_log::{Appender, DiskStorage, Log, LogId, Schema};

use crate::cluster::Cluster;
use crate::logs;
pub(crate) use crate::logs::{PATIENCE, column, eventually, row, unread, visit, visits};

pub(crate) struct Site<'a> {
    folder: TempDir,
    pub(crate) cluster: &'a Cluster,
    pub(crate) database: String,
    pub(crate) options: SinkOptions,
}

impl<'a> Site<'a> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        let database = cluster.database();
        let options = sink_at(&cluster.url(&database));
        Self { folder: TempDir::new().unwrap(), cluster, database, options }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn postgres(&mut self) -> &mut PostgresOptions {
        match &mut self.options.kind {
            SinkKind::Postgres(options) => options,
            _ => unreachable!(),
        }
    }

    pub(crate) fn open_log(&self, schemas: &[Schema]) -> Log {
        logs::open(&self.dir(), logs::SEGMENT_BYTES, schemas)
    }

    /// Writes a whole log, and seals it.
    pub(crate) fn write<R>(&self, schemas: &[Schema], fill: impl FnOnce(&mut Appender) -> R) -> LogId {
        logs::write(&self.dir(), logs::SEGMENT_BYTES, schemas, fill)
    }

    pub(crate) fn write_visits(&self, numbers: std::ops::Range<i64>) -> LogId {
        logs::write_visits(&self.dir(), logs::SEGMENT_BYTES, numbers)
    }

    pub(crate) fn load_options(&self) -> LoadOptions {
        let mut options = LoadOptions::new(self.dir(), self.options.clone());
        options.tuning.backoff_min = Duration::from_millis(5);
        options.tuning.backoff_max = Duration::from_millis(100);
        // A busy machine may need long to connect.
        options.tuning.away_wait_max = PATIENCE;
        options.tuning.commit_wait_max = PATIENCE;
        options
    }

    pub(crate) fn start(&self) -> Loader {
        self.start_with(self.load_options())
    }

    pub(crate) fn start_with(&self, options: LoadOptions) -> Loader {
        Loader::start(options, Arc::new(DiskStorage), None).unwrap()
    }

    /// Loads into another sink.
    pub(crate) fn load_into(&self, sink: &SinkOptions) -> LoadStatus {
        let options = LoadOptions { sink: sink.clone(), ..self.load_options() };
        self.start_with(options).finish(PATIENCE).unwrap()
    }

    pub(crate) fn load(&self) -> LoadStatus {
        self.start().finish(PATIENCE).unwrap()
    }

    /// Loads until the sink stops. Returns the reason.
    pub(crate) fn load_until_stopped(&self) -> String {
        match Loader::start(self.load_options(), Arc::new(DiskStorage), None) {
            Ok(loader) => loader.finish(PATIENCE).unwrap_err().to_string(),
            Err(error) => chain(&error),
        }
    }

    pub(crate) fn audit(&self) -> Vec<AuditRow> {
        let rows = self.audit_of(&self.options);
        rows.iter().for_each(|row| assert_eq!(row.missing, 0, "{row:?}"));
        rows
    }

    /// Returns the audit of a sink. Checks that pending, loaded, rejected, duplicate and missing records add
    /// up to all records.
    pub(crate) fn audit_of(&self, sink: &SinkOptions) -> Vec<AuditRow> {
        let rows = audit(&DiskStorage, &self.dir(), sink).unwrap().rows;
        for row in &rows {
            let told = row.pending + row.loaded + row.rejected + row.duplicates;
            let told = told + row.given_up + row.missing;
            assert_eq!(row.ingested, told, "{row:?}");
        }
        rows
    }

    pub(crate) fn sql(&self, statements: &str) -> String {
        self.cluster.sql(&self.database, statements)
    }

    /// Ends the connections to this database that hold a lock with `pg_sleep(600)`.
    ///
    /// Tests share a cluster, so the statement spares the connections to other databases.
    pub(crate) fn end_sleepers(&self) {
        self.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE query LIKE '%pg_sleep(600)' AND datname = current_database() AND pid <> pg_backend_pid()",
        );
    }

    /// Checks that each number is loaded exactly once, by count and by checksum.
    pub(crate) fn assert_visits(&self, numbers: std::ops::Range<i64>) {
        let found = self.sql("SELECT count(*), count(DISTINCT n), coalesce(sum(n), 0), md5(string_agg(path, '' ORDER BY n)) FROM visits");
        let (count, sum) = (numbers.end - numbers.start, numbers.clone().sum::<i64>());
        let paths = numbers.map(|n| format!("'/path/{n:06}'")).collect::<Vec<_>>().join(" || ");
        let expected = format!("{count}|{count}|{sum}|{}", self.sql(&format!("SELECT md5({paths})")));
        assert_eq!(found, expected);
    }
}

pub(crate) fn sink_at(url: &str) -> SinkOptions {
    let options = PostgresOptions::new(PostgresUrl::parse(url).unwrap());
    SinkOptions::new("main", SinkKind::Postgres(Box::new(options)))
}

pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let source = error.source().map(|source| format!(": {}", chain(source)));
    format!("{error}{}", source.unwrap_or_default())
}
