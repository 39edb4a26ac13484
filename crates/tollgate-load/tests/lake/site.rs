//! A folder with logs, and a lake beside it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tollgate_lake::parquet::file::reader::{FileReader, SerializedFileReader};
use tollgate_lake::parquet::record::{Field, Row};
use tollgate_load::{
    Audit, CatalogPlace, FinishError, IcebergOptions, LakePlace, LoadOptions, LoadStatus, Loader,
    ParquetOptions, SinkKind, SinkOptions, audit,
};
use tollgate_log::{ColumnType, DiskStorage, Log, LogId, Schema, SchemaId, Value, log_ids, segments};
use tollgate_ship::ObjectStoreOptions;

use crate::logs::{self, PATIENCE, add, column, hand_over};
use crate::rest_server::RestServer;
use crate::tables;

/// Size of the segments.
const SEGMENT_BYTES: u64 = logs::SEGMENT_BYTES / 4;

/// A folder with logs, and a lake beside it.
pub(crate) struct Site {
    pub(crate) folder: TempDir,
    pub(crate) file_bytes: u64,
    pub(crate) row_group_bytes: u64,
    /// The bucket of the lake, and the folder in which its server keeps the objects.
    pub(crate) bucket: Option<(ObjectStoreOptions, PathBuf)>,
    /// The catalog, if the sink is of Iceberg.
    pub(crate) catalog: Option<CatalogPlace>,
    /// The server of a REST catalog.
    pub(crate) rest: Option<RestServer>,
}

impl Site {
    pub(crate) const FILE_BYTES: u64 = 4 << 10;

    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        Self {
            folder,
            file_bytes: Self::FILE_BYTES,
            row_group_bytes: 64 << 20,
            bucket: None,
            catalog: None,
            rest: None,
        }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn lake(&self) -> PathBuf {
        let bucket = self.bucket.as_ref().map(|(_, folder)| folder.clone());
        bucket.unwrap_or_else(|| self.folder.path().join("lake"))
    }

    pub(crate) fn parquet(&self) -> ParquetOptions {
        let options = match &self.bucket {
            None => ParquetOptions::in_folder(self.lake()),
            Some((objects, _)) => {
                let place = LakePlace::Objects(Box::new(objects.clone()));
                ParquetOptions::new(place, self.folder.path().join("parts"))
            }
        };
        ParquetOptions { file_bytes: self.file_bytes, row_group_bytes: self.row_group_bytes, ..options }
    }

    pub(crate) fn sink(&self) -> SinkOptions {
        let kind = match &self.catalog {
            None => SinkKind::Parquet(Box::new(self.parquet())),
            Some(catalog) => {
                let options = IcebergOptions::new(self.parquet(), catalog.clone());
                SinkKind::Iceberg(Box::new(IcebergOptions { namespace: "web".to_owned(), ..options }))
            }
        };
        SinkOptions::new("lake", kind)
    }

    pub(crate) fn open_log(&self, schemas: &[Schema]) -> Log {
        logs::open(&self.dir(), SEGMENT_BYTES, schemas)
    }

    /// Writes a log with `rows` visits, and seals it.
    pub(crate) fn write(&self, rows: i64) -> LogId {
        logs::write_visits(&self.dir(), SEGMENT_BYTES, 0..rows)
    }

    /// Writes a log with one row, whose schema has the column `more` in place of `path`.
    pub(crate) fn write_with_more(&self, kind: ColumnType, value: Value<'_>) {
        self.write_with("more", kind, value);
    }

    /// Writes a log with one row, whose schema has another column in place of `path`.
    pub(crate) fn write_with(&self, name: &str, kind: ColumnType, value: Value<'_>) {
        let columns = vec![column("n", ColumnType::Int), column(name, kind)];
        let log = self.open_log(&[Schema::new("visits", columns).unwrap()]);
        let mut appender = log.appender(|| {});
        add(&mut appender, SchemaId(0), &[Value::Int(7), value]);
        hand_over(&mut appender);
        drop(appender);
        log.close().unwrap();
    }

    pub(crate) fn options(&self, sink: SinkOptions) -> LoadOptions {
        let mut options = LoadOptions::new(self.dir(), sink);
        options.tuning.backoff_min = Duration::from_millis(2);
        options.tuning.away_wait_max = PATIENCE;
        options
    }

    pub(crate) fn load(&self) -> LoadStatus {
        self.load_with(self.sink()).unwrap()
    }

    /// Loads with four loaders at once.
    pub(crate) fn load_with_four(&self) {
        let start = || Loader::start(self.options(self.sink()), Arc::new(DiskStorage), None).unwrap();
        let loaders: Vec<_> = (0..4).map(|_| start()).collect();
        for loader in loaders {
            loader.finish(PATIENCE).unwrap();
        }
    }

    pub(crate) fn load_with(&self, sink: SinkOptions) -> Result<LoadStatus, FinishError> {
        Loader::start(self.options(sink), Arc::new(DiskStorage), None).unwrap().finish(PATIENCE)
    }

    /// Returns the names of all files of a table, in order. A catalog names the files of its tables.
    pub(crate) fn files(&self, table: &str) -> Vec<String> {
        if let Some(catalog) = &self.catalog {
            return tables::files(self, catalog, table);
        }
        let mut files = Vec::new();
        let Ok(days) = fs::read_dir(self.lake().join(table)) else { return files };
        for day in days {
            for file in fs::read_dir(day.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                files.push(path.strip_prefix(self.lake()).unwrap().display().to_string());
            }
        }
        files.sort();
        files
    }

    /// Returns the rows of all files of a table.
    pub(crate) fn rows(&self, table: &str) -> Vec<Row> {
        let files = self.files(table);
        files.iter().flat_map(|file| rows_of(&self.lake().join(file))).collect()
    }

    /// Returns the numbers of the records of a table by their logs, in order.
    pub(crate) fn numbers(&self, table: &str) -> BTreeMap<LogId, Vec<i64>> {
        let mut numbers: BTreeMap<LogId, Vec<i64>> = BTreeMap::new();
        for row in self.rows(table) {
            let Field::Bytes(log) = field(&row, "_log") else { panic!("{row:?}") };
            let log = LogId::from_bytes(log.data().try_into().unwrap());
            numbers.entry(log).or_default().push(int(&row, "_seq"));
        }
        numbers.values_mut().for_each(|numbers| numbers.sort_unstable());
        numbers
    }

    pub(crate) fn audit(&self) -> Audit {
        audit(&DiskStorage, &self.dir(), &self.sink()).unwrap()
    }

    /// Checks that each record of each log is a row once, and that the audit has the same count.
    pub(crate) fn check_all(&self, rows: i64) {
        let logs = log_ids(&DiskStorage, &self.dir()).unwrap();
        let numbers = self.numbers("visits");
        assert_eq!(numbers.len(), logs.len());
        for (log, found) in &numbers {
            assert_eq!(*found, (1..=rows).collect::<Vec<_>>(), "log {log}");
        }
        let audit = self.audit();
        for row in &audit.rows {
            let counts = (row.loaded, row.ingested, row.pending, row.missing);
            assert_eq!(counts, (rows.cast_unsigned(), rows.cast_unsigned(), 0, 0), "{row:?}");
        }
        assert_eq!(audit.rows.len(), logs.len());
    }

    /// Checks that each record of logs with these numbers of rows is a row once.
    pub(crate) fn check_counts(&self, rows: &[i64]) {
        let mut counts: Vec<_> = rows.iter().map(|rows| (1..=*rows).collect::<Vec<_>>()).collect();
        let mut found: Vec<_> = self.numbers("visits").into_values().collect();
        counts.sort();
        found.sort();
        assert_eq!(found, counts);
        let loaded: u64 = self.audit().rows.iter().map(|row| row.loaded).sum();
        assert_eq!(loaded, rows.iter().sum::<i64>().cast_unsigned());
    }

    /// Returns the paths of the segments of a log.
    pub(crate) fn segments(&self, log: LogId) -> Vec<PathBuf> {
        segments(&DiskStorage, &self.dir(), log).unwrap().into_iter().map(|(_, path)| path).collect()
    }
}

/// Returns the rows of a file.
pub(crate) fn rows_of(path: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

pub(crate) fn field<'r>(row: &'r Row, name: &str) -> &'r Field {
    row.get_column_iter().find(|(found, _)| *found == name).map(|(_, field)| field).unwrap()
}

pub(crate) fn int(row: &Row, name: &str) -> i64 {
    match field(row, name) {
        Field::Long(number) => *number,
        other => panic!("{name} is {other:?}"),
    }
}

pub(crate) fn text<'r>(row: &'r Row, name: &str) -> &'r str {
    match field(row, name) {
        Field::Str(text) => text,
        other => panic!("{name} is {other:?}"),
    }
}
