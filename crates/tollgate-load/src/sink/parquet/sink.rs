//! An open Parquet sink.

use std::collections::HashSet;
use std::path::PathBuf;

use tollgate_lake::{LakeError, Ledger, LoadName, MadeFiles, Plan, REJECTS, Streams, Writers};
use tollgate_log::{Column, LogId, Position, Schema, Sequence};

use super::chunk::LakeChunk;
use super::options::ParquetOptions;
use super::parts;
use super::place::open_ledger;
use super::reading::{MadeOf, check_names, check_types, free_column, type_changed};
use crate::error::SinkError;
use crate::sink::declared::NameCase;
use crate::sink::iceberg::LakeTables;
use crate::sink::streams::Taken;
use crate::sink::write_rules::WriteRules;

/// An open Parquet sink, or an open Iceberg sink, whose files are of tables.
pub(in crate::sink) struct ParquetSink {
    pub(super) options: ParquetOptions,
    pub(super) name: String,
    pub(super) rules: WriteRules,
    pub(super) ledger: Ledger,
    /// The tables of an Iceberg sink.
    pub(super) tables: Option<LakeTables>,
    pub(super) chunk: Option<LakeChunk>,
    /// Streams that the loader asked for last.
    pub(super) streams: Streams,
    /// The plan that the next load of this log has to follow.
    pub(super) planned: Option<(LogId, Sequence, Plan)>,
    /// Schemas whose columns are noted.
    noted: HashSet<Schema>,
}

impl ParquetSink {
    /// Opens a sink. `tables` are the tables of an Iceberg sink.
    pub(in crate::sink) fn open(
        options: &ParquetOptions,
        name: &str,
        rules: WriteRules,
        tables: Option<LakeTables>,
    ) -> Result<Self, SinkError> {
        parts::remove_old(&options.parts_dir, name);
        Ok(Self {
            ledger: open_ledger(options, name)?,
            tables,
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
    pub(super) fn chunk(&mut self, log: LogId, load: LoadName) -> Result<LakeChunk, SinkError> {
        let writers = self.writers()?;
        let mut chunk = LakeChunk::new(log, load, writers, self.rules.rejects_max);
        chunk.streams = self.streams.clone();
        Ok(chunk)
    }

    /// Begins the files of a load.
    pub(super) fn writers(&mut self) -> Result<Writers, SinkError> {
        let memory = usize::try_from(self.options.row_group_bytes).unwrap_or(usize::MAX);
        let writers = Writers::new(self.new_folder()?, memory);
        match &mut self.tables {
            Some(tables) => tables.begin(writers),
            None => Ok(writers),
        }
    }

    /// Prepares files and tables for the rows of a schema.
    pub(super) fn prepare(&mut self, schema: &Schema, writers: &mut Writers) -> Result<(), SinkError> {
        self.note(schema)?;
        match &mut self.tables {
            Some(tables) if !writers.has_ids(schema) => tables.prepare(schema, writers, &self.ledger),
            _ => Ok(()),
        }
    }

    /// Brings the files of a decided load into the lake, then into the tables.
    pub(super) fn publish(&mut self, load: LoadName, plan: &Plan, made: &MadeFiles) -> Result<(), SinkError> {
        let failed = || SinkError::lake("bring files into the lake");
        let digests = made.facts.iter().map(|facts| &*facts.digest);
        let files = made.parts.iter().map(PathBuf::as_path).zip(digests);
        self.ledger.publish(plan, files).map_err(failed())?;
        match &mut self.tables {
            Some(tables) => tables.append(load, plan, &made.facts, &mut self.ledger).map_err(failed()),
            None => Ok(()),
        }
    }

    /// Returns the names of all files with rejects. In a lake without tables, other programs may leave files
    /// beside them, for instance while an operator erases a person. Those files are left out.
    pub(super) fn files_of_rejects(&mut self) -> Result<Vec<String>, LakeError> {
        if let Some(tables) = &mut self.tables {
            return tables.files(REJECTS);
        }
        let (place, prefix) = (self.ledger.place(), format!("{REJECTS}/"));
        let mut files = Vec::new();
        for day in place.folders(&prefix)? {
            let folder = format!("{prefix}{day}/");
            let of_load = |name: &String| name.strip_prefix(&folder).and_then(LoadName::of_file).is_some();
            files.extend(place.list(&folder, None)?.into_iter().filter(of_load));
        }
        Ok(files)
    }

    /// Makes a folder for the incomplete files of one load.
    pub(super) fn new_folder(&self) -> Result<PathBuf, SinkError> {
        parts::new_folder(&self.options.parts_dir, &self.name)
    }

    /// Checks whether files can have the rows of a schema. Changes nothing. Returns the columns whose types
    /// are not noted.
    pub(super) fn check<'s>(&self, schema: &'s Schema) -> Result<Vec<&'s Column>, SinkError> {
        if self.noted.contains(schema) {
            return Ok(Vec::new());
        }
        check_names(schema, self.made())?;
        let free_column = |stream: &str, column: &str, note: &str| self.free_column(stream, column, note);
        let missing = check_types(&self.ledger, &free_column, schema)?;
        self.rules.declared.check_missing(schema, &missing, NameCase::IgnoredInTables)?;
        Ok(missing)
    }

    const fn made(&self) -> MadeOf {
        if self.tables.is_some() { MadeOf::Table } else { MadeOf::Files }
    }

    fn free_column(&self, stream: &str, column: &str, note: &str) -> String {
        match &self.tables {
            Some(tables) => tables.free_column(stream, column, note),
            None => free_column(&self.options, &self.name, stream),
        }
    }

    /// Notes the types of the columns of a schema, before its first row is written.
    pub(super) fn note(&mut self, schema: &Schema) -> Result<(), SinkError> {
        if self.noted.contains(schema) {
            return Ok(());
        }
        for column in self.check(schema)? {
            let wanted = column.kind.name();
            let found = self.ledger.column_type(schema.stream(), &column.name, &wanted);
            let found = found.map_err(SinkError::lake("note the type of a column"))?;
            if found.kind != wanted {
                let free_column =
                    |stream: &str, column: &str, note: &str| self.free_column(stream, column, note);
                return Err(type_changed(&free_column, schema.stream(), column, found));
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
