//! An open Parquet sink.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_lake::{Ledger, LoadName, Plan, Streams, Writers};
use tollgate_log::{DiskStorage, LogId, Position, Schema, Sequence, make_folder};

use super::chunk::LakeChunk;
use super::options::ParquetOptions;
use super::place::open_ledger;
use super::reading::{check_names, check_types, type_changed};
use crate::error::SinkError;
use crate::sink::declared::NameCase;
use crate::sink::streams::Taken;
use crate::sink::write_rules::WriteRules;

/// Age from which the incomplete files of a load are deleted. The process that made them is assumed to have
/// ended.
const PARTS_AGE_MAX: Duration = Duration::from_hours(24);

/// An open Parquet sink.
pub(in crate::sink) struct ParquetSink {
    pub(super) options: ParquetOptions,
    pub(super) name: String,
    pub(super) rules: WriteRules,
    pub(super) ledger: Ledger,
    pub(super) chunk: Option<LakeChunk>,
    /// Streams that the loader asked for last.
    pub(super) streams: Streams,
    /// The plan that the next load of this log has to follow.
    pub(super) planned: Option<(LogId, Sequence, Plan)>,
    /// Schemas whose columns are noted.
    noted: HashSet<Schema>,
}

impl ParquetSink {
    pub(super) fn open(options: &ParquetOptions, name: &str, rules: WriteRules) -> Result<Self, SinkError> {
        remove_old_parts(&options.parts_dir);
        Ok(Self {
            ledger: open_ledger(options, name)?,
            options: options.clone(),
            name: name.to_owned(),
            rules,
            chunk: None,
            streams: Streams::All,
            planned: None,
            noted: HashSet::new(),
        })
    }

    /// Begins a load.
    pub(super) fn chunk(&self, log: LogId, load: LoadName) -> Result<LakeChunk, SinkError> {
        let memory = usize::try_from(self.options.row_group_bytes).unwrap_or(usize::MAX);
        let writers = Writers::new(self.new_folder()?, memory);
        let mut chunk = LakeChunk::new(log, load, writers, self.rules.rejects_max);
        chunk.streams = self.streams.clone();
        Ok(chunk)
    }

    /// Makes a folder for the incomplete files of one load.
    pub(super) fn new_folder(&self) -> Result<PathBuf, SinkError> {
        let name = format!("{}-{}", self.name, LogId::random());
        let folder = self.options.parts_dir.join(name);
        make_folder(&DiskStorage, &folder)
            .map_err(|source| SinkError::Folder { path: folder.clone(), source })?;
        Ok(folder)
    }

    /// Checks whether files can have the rows of a schema. Changes nothing.
    pub(super) fn check(&self, schema: &Schema) -> Result<(), SinkError> {
        if self.noted.contains(schema) {
            return Ok(());
        }
        check_names(schema)?;
        check_types(&self.ledger, &self.options, &self.name, schema)?;
        let failed = || SinkError::lake("read the types of columns");
        let mut missing = Vec::new();
        for column in schema.table_columns() {
            let known = self.ledger.known_type(schema.stream(), &column.name).map_err(failed())?;
            if known.is_none() {
                missing.push(column);
            }
        }
        self.rules.declared.check_missing(schema, &missing, NameCase::Kept)
    }

    /// Notes the types of the columns of a schema, before its first row is written.
    pub(super) fn note(&mut self, schema: &Schema) -> Result<(), SinkError> {
        if self.noted.contains(schema) {
            return Ok(());
        }
        self.check(schema)?;
        for column in schema.table_columns() {
            let wanted = column.kind.name();
            let found = self.ledger.column_type(schema.stream(), &column.name, &wanted);
            let found = found.map_err(SinkError::lake("note the type of a column"))?;
            if found != wanted {
                let (stream, column) = (schema.stream(), &column.name);
                return Err(type_changed(&self.options, &self.name, stream, column, found, wanted));
            }
        }
        self.noted.insert(schema.clone());
        Ok(())
    }

    /// Returns the name of the load that begins after a position.
    pub(super) fn load_after(log: LogId, expected: Option<Position>) -> LoadName {
        let first = expected.map_or(Sequence::FIRST, |position| position.last.after(1));
        LoadName::Next { log, first }
    }
}

/// Returns the streams, as a plan has them.
pub(super) fn streams_of(taken: &Taken) -> Streams {
    match taken {
        Taken::All => Streams::All,
        Taken::Only(streams) => Streams::Only(streams.clone()),
    }
}

/// Returns the streams that a plan takes.
pub(super) fn taken_of(streams: &Streams) -> Taken {
    match streams {
        Streams::All => Taken::All,
        Streams::Only(streams) => Taken::Only(streams.clone()),
    }
}

/// Removes the incomplete files of ended processes. Errors are ignored, because such files only occupy space.
fn remove_old_parts(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let age = || path.symlink_metadata().ok()?.modified().ok()?.elapsed().ok();
        if age().is_some_and(|age| age > PARTS_AGE_MAX) {
            drop(fs::remove_dir_all(&path));
        }
    }
}
