//! The batch of records that a cursor returns.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::position::Position;
use crate::error::FormatError;
use crate::id::{LogId, Sequence};
use crate::record::{RawRecord, Record, RecordBody, RecordKind, decode_reject, decode_row, split_record};
use crate::scan::Schemas;
use crate::schema::{Schema, SchemaId};

/// A batch of records, borrowed from the cursor.
#[derive(Debug)]
pub struct RecordBatch<'a> {
    pub(super) log: LogId,
    pub(super) segment: Sequence,
    pub(super) node: &'a str,
    pub(super) first: Sequence,
    pub(super) last: Sequence,
    pub(super) chain: u32,
    pub(super) stamp_us: i64,
    pub(super) payload: &'a [u8],
    pub(super) schemas: &'a Schemas,
    pub(super) left_out: Vec<SchemaId>,
}

impl<'a> RecordBatch<'a> {
    /// Returns the number of the first record.
    pub fn first(&self) -> Sequence {
        self.first
    }

    /// Returns the number of the first record of the segment that contains the batch.
    pub fn segment(&self) -> Sequence {
        self.segment
    }

    /// Returns the name of the machine that wrote its segment. It is empty if the machine has no name, or if
    /// the header is damaged.
    pub fn node(&self) -> &'a str {
        self.node
    }

    /// Returns the position after this batch.
    pub fn end(&self) -> Position {
        Position { last: self.last, chain: Some(self.chain) }
    }

    /// Returns the wall clock at the write of the batch, in microseconds since 1970. Only people use this
    /// value.
    pub fn stamp_us(&self) -> i64 {
        self.stamp_us
    }

    /// Returns the bytes of the records.
    pub fn bytes(&self) -> usize {
        self.payload.len()
    }

    /// Returns the schemas that are known at this batch.
    pub fn schemas(&self) -> impl Iterator<Item = (SchemaId, &'a Arc<Schema>)> + use<'a> {
        self.schemas.iter().map(|(id, schema)| (*id, schema))
    }

    /// Excludes the records of these schemas from later reads of the batch. Returns the number of excluded
    /// records of each schema.
    pub fn leave_out(&mut self, schemas: Vec<SchemaId>) -> BTreeMap<SchemaId, u64> {
        let mut counts = BTreeMap::new();
        let mut rest = self.payload;
        while let Ok((raw, behind)) = split_record(rest) {
            if schemas.contains(&raw.schema) {
                *counts.entry(raw.schema).or_default() += 1;
            }
            rest = behind;
        }
        self.left_out = schemas;
        counts
    }

    /// Returns the records in order, without the excluded ones. An error means that a row does not follow its
    /// schema, although the checksums are right.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'a>, FormatError>> + use<'a> {
        self.numbered().map(|(_, record)| record)
    }

    /// Returns the same records as [`Self::records`], each with its number. The number is known even if the
    /// record cannot be read.
    pub fn numbered(&self) -> impl Iterator<Item = (Sequence, Result<Record<'a>, FormatError>)> + use<'a> {
        let (log, schemas, mut rest, mut next) = (self.log, self.schemas, self.payload, self.first);
        let left_out = self.left_out.clone();
        // Most records have the schema of the record before.
        let mut last: Option<(SchemaId, &'a Arc<Schema>)> = None;
        std::iter::from_fn(move || {
            while !rest.is_empty() {
                let sequence = next;
                next = next.after(1);
                let (raw, behind) = match split_record(rest) {
                    Ok(split) => split,
                    Err(error) => {
                        rest = &[];
                        return Some((sequence, Err(error)));
                    }
                };
                rest = behind;
                if !left_out.contains(&raw.schema) {
                    let schema = match last {
                        Some((id, schema)) if id == raw.schema => Some(schema),
                        _ => schemas.get(&raw.schema),
                    };
                    last = schema.map(|schema| (raw.schema, schema));
                    return Some((sequence, decode_record(&raw, schema, log, sequence)));
                }
            }
            None
        })
    }
}

fn decode_record<'a>(
    raw: &RawRecord<'a>,
    schema: Option<&'a Arc<Schema>>,
    log: LogId,
    sequence: Sequence,
) -> Result<Record<'a>, FormatError> {
    let schema = schema.ok_or(FormatError::UnknownSchema(raw.schema.0))?;
    let body = match raw.kind {
        RecordKind::Reject => decode_reject(raw.body)?,
        RecordKind::Row | RecordKind::Schema => {
            RecordBody::Row(decode_row(schema, raw.body, *log.as_bytes(), sequence)?)
        }
    };
    Ok(Record { sequence, schema_id: raw.schema, schema, body })
}
