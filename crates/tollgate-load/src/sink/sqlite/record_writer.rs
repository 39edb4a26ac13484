//! Writes the records of one batch: rows, duplicates, rejects.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use rusqlite::{CachedStatement, Connection, params};
use tollgate_log::{Record, RecordBody, Schema, SchemaId, Sequence, Value};

use super::bind::{BindError, bind};
use super::connection::{failed, now_text};
use super::counts::read_refusals;
use super::insert::{RowError, or_nothing};
use super::keys::{Claimant, SqliteKeys};
use super::lost::lost_table;
use super::parents::Parents;
use super::table::{ensure_table, existing_columns};
use crate::error::SinkError;
use crate::sink::declared::DeclaredStreams;
use crate::sink::json::readable;
use crate::sink::key::{Key, millis, storable};
use crate::sink::refusals::Refusals;
use crate::sink::reject::Refused;
use crate::sink::tally::{LostTable, Tally};

/// The statement and counts of one stream while a batch is written.
pub(super) struct StreamInsert<'a> {
    schema_id: SchemaId,
    pub(super) stream: &'a str,
    statement: CachedStatement<'a>,
    /// Whether a failed insert may leave changes, so that it needs a savepoint.
    needs_savepoint: bool,
    pub(super) tally: Tally,
}

/// Writes the records of one batch.
pub(super) struct RecordWriter<'a, 'b> {
    pub(super) path: &'a Path,
    pub(super) connection: &'a Connection,
    pub(super) declared: &'b DeclaredStreams,
    pub(super) tables: &'b mut HashMap<Schema, String>,
    pub(super) sink: &'a str,
    pub(super) keys: &'b mut SqliteKeys,
    pub(super) log_text: &'a str,
    /// Tables that have triggers.
    pub(super) triggered: &'b [String],
    pub(super) parents: Parents,
    pub(super) inserts: Vec<StreamInsert<'a>>,
    pub(super) refusals: &'b mut Refusals,
    pub(super) tables_met: &'b mut usize,
    /// Lost tables that the transaction created again, by stream.
    pub(super) remade: &'b mut BTreeMap<String, LostTable>,
}

/// Result of a row.
enum Fate {
    Loaded,
    /// Another record has the key of the row.
    Duplicate,
}

impl<'a> RecordWriter<'a, '_> {
    pub(super) fn record(&mut self, record: &Record<'a>) -> Result<(), SinkError> {
        let at = match self.inserts.iter().position(|insert| insert.schema_id == record.schema_id) {
            Some(at) => at,
            None => self.prepare_insert(record.schema_id, record.schema)?,
        };
        let refused = match &record.body {
            RecordBody::Reject { reason, item } => Refused::at_ingest(reason, item),
            RecordBody::Row(values) => match self.row(at, record, values) {
                Ok(Fate::Loaded) => {
                    self.inserts[at].tally.rows += 1;
                    return Ok(());
                }
                Ok(Fate::Duplicate) => {
                    self.inserts[at].tally.duplicates += 1;
                    return Ok(());
                }
                Err(RowError::Refused(reason)) => {
                    let refusals = |segment| {
                        read_refusals(self.connection, self.sink, self.log_text, segment)
                            .map_err(failed("read how many rows were refused", self.path))
                    };
                    self.refusals.count(record.sequence, refusals)?;
                    Refused::row(reason, record.schema, values)
                }
                Err(RowError::Database(error)) => return Err(failed("insert a row", self.path)(error)),
            },
        };
        self.inserts[at].tally.rejects += 1;
        self.reject(record.sequence, record.schema.stream(), &refused)
    }

    /// Inserts a row, unless another record has its key. A refused row holds no key.
    fn row(&mut self, at: usize, record: &Record<'_>, values: &[Value<'_>]) -> Result<Fate, RowError> {
        let Some(key) = Key::of(record.schema, values) else {
            return self.insert(at, record.schema, values).map(|()| Fate::Loaded);
        };
        let (sequence, stream) = (record.sequence, record.schema.stream());
        let of = Claimant { log_text: self.log_text, sequence, stream };
        if !self.keys.claim(self.connection, key, of).map_err(RowError::Database)? {
            return Ok(Fate::Duplicate);
        }
        let inserted = self.insert(at, record.schema, values);
        // If a trigger rolled back the transaction, the key is gone already. The caller then reports the
        // rollback.
        if matches!(inserted, Err(RowError::Refused(_))) && !self.connection.is_autocommit() {
            SqliteKeys::give_back(self.connection, key, of).map_err(RowError::Database)?;
        }
        inserted.map(|()| Fate::Loaded)
    }

    fn insert(&mut self, at: usize, schema: &Schema, values: &[Value<'_>]) -> Result<(), RowError> {
        let Self { connection, tables, parents, .. } = self;
        let StreamInsert { statement, needs_savepoint, .. } = &mut self.inserts[at];
        let mut insert = || {
            bind_and_run(statement, schema, values).map_err(|error| match error {
                BindError::Value(reason) => RowError::Refused(reason),
                BindError::Database(error) => {
                    RowError::of(error, connection, tables.get(schema).map_or("", String::as_str))
                }
            })
        };
        if *needs_savepoint { or_nothing(connection, *parents, insert) } else { insert() }
    }

    /// Notes the table of a stream if it will be created again. Call this before the table is created.
    fn note_if_lost(&mut self, stream: &str) -> Result<(), SinkError> {
        let is_missing = existing_columns(self.connection, stream).map(|columns| columns.is_empty());
        let lost = is_missing.and_then(|is_missing| match is_missing {
            true => lost_table(self.connection, self.sink, stream),
            false => Ok(None),
        });
        let lost = lost.map_err(failed("look for a missing table", self.path))?;
        self.remade.extend(lost.map(|table| (stream.to_owned(), table)));
        Ok(())
    }

    fn prepare_insert(&mut self, schema_id: SchemaId, schema: &'a Schema) -> Result<usize, SinkError> {
        if !self.tables.contains_key(schema) {
            *self.tables_met += 1;
            self.note_if_lost(schema.stream())?;
            let insert = ensure_table(self.connection, self.path, self.declared, schema)?;
            self.tables.insert(schema.clone(), insert);
        }
        let insert = self.tables.get(schema).map_or("", String::as_str);
        let statement =
            self.connection.prepare_cached(insert).map_err(failed("prepare an insert", self.path))?;
        let (stream, tally) = (schema.stream(), Tally::default());
        let has_triggers = self.triggered.iter().any(|table| table.eq_ignore_ascii_case(stream));
        let needs_savepoint = has_triggers || self.parents == Parents::AtRow;
        self.inserts.push(StreamInsert { schema_id, stream, statement, needs_savepoint, tally });
        Ok(self.inserts.len() - 1)
    }

    /// Stores a record that is no row. The insert cannot fail for the content, because the columns accept any
    /// value.
    pub(super) fn reject(
        &self,
        sequence: Sequence,
        stream: &str,
        refused: &Refused<'_>,
    ) -> Result<(), SinkError> {
        if self.connection.is_autocommit() {
            return Err(SinkError::RolledBack { table: stream.to_owned() });
        }
        let sequence = sequence.0.cast_signed();
        self.connection
            .prepare_cached(
                "INSERT INTO tollgate_rejects \
                 (log, sequence, stream, reason, item, text, loaded_at, sink, key, key_window_ms, refused_by) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )
            .and_then(|mut statement| {
                let Refused { by, reason, item, key } = refused;
                let text = readable(item);
                let (log, now) = (self.log_text, now_text());
                let (key, window_ms) = key.map(|key| (key.bytes, storable(millis(key.window)))).unzip();
                statement.execute(params![
                    log, sequence, stream, reason, item, text, now, self.sink, key, window_ms, by.name()
                ])
            })
            .map_err(failed("store a reject", self.path))?;
        Ok(())
    }
}

fn bind_and_run(
    statement: &mut CachedStatement<'_>,
    schema: &Schema,
    values: &[Value<'_>],
) -> Result<(), BindError> {
    bind(statement, schema, values)?;
    statement.raw_execute().map(drop).map_err(BindError::Database)
}
