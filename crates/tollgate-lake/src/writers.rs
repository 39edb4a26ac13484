//! All files of a load, within one bound on memory.
//!
//! Rows gather in memory until they have `memory_bytes` bytes, over all files. Then the file with most of
//! them gets a row group. So one stream gets row groups of that size, and many streams get smaller ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_log::{LogId, Schema, Sequence, Value};
use tollgate_value::Date;

use crate::error::LakeError;
use crate::names::{LoadName, REJECTS, table_folder};
use crate::plan::PlannedFile;
use crate::table::{FileColumn, columns_of, columns_of_rejects};
use crate::writer::FileWriter;

/// A record that is no row.
#[derive(Debug, Clone, Copy)]
pub struct RejectRow<'a> {
    /// The stream of the record.
    pub stream: &'a str,
    /// Why it is no row.
    pub reason: &'a str,
    /// Who refused it.
    pub refused_by: &'a str,
    /// The item.
    pub item: &'a [u8],
    /// The item as text for people.
    pub text: &'a str,
    /// The key of the row.
    pub key: Option<&'a [u8]>,
    /// How long another sink would remember the key.
    pub key_window_ms: Option<i64>,
}

/// The table and the day of a file. Several schemas of one stream have different numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FileId {
    table: String,
    day: i32,
    schema: usize,
}

/// The files of one load.
pub struct Writers {
    folder: PathBuf,
    memory_bytes: usize,
    waiting_bytes: usize,
    /// The schemas of each stream, in the order of their first rows.
    schemas: BTreeMap<String, Vec<Arc<Schema>>>,
    files: Vec<(FileId, FileWriter)>,
    /// The place of each file in `files`.
    places: BTreeMap<FileId, usize>,
    /// The schema and the day of the last row, and the place of its file. Most rows have the same.
    last: Option<(Arc<Schema>, i32, usize)>,
}

impl Writers {
    /// Creates a load without files. Incomplete files are made in `folder`, which exists, and whose name no
    /// other load has.
    pub fn new(folder: PathBuf, memory_bytes: usize) -> Self {
        Self {
            folder,
            memory_bytes,
            waiting_bytes: 0,
            schemas: BTreeMap::new(),
            files: Vec::new(),
            places: BTreeMap::new(),
            last: None,
        }
    }

    /// Adds a row of a stream.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn row(
        &mut self,
        schema: &Arc<Schema>,
        day: Date,
        values: &[Value<'_>],
        (log, sequence): (LogId, Sequence),
    ) -> Result<(), LakeError> {
        let place = match &self.last {
            Some((last, of, place)) if Arc::ptr_eq(last, schema) && *of == day.days() => *place,
            _ => self.place_of_row(schema, day.days()),
        };
        let key = schema.key().map(|(place, _)| values.get(place).copied().unwrap_or(Value::Null));
        let columns = schema.columns().iter().zip(values);
        let values = columns.filter(|(column, _)| !column.is_key()).map(|(_, value)| *value);
        let row = values.chain(key).chain(identity(log, sequence));
        self.push(place, row)
    }

    /// Adds a reject.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn reject(
        &mut self,
        stamp_us: i64,
        reject: &RejectRow<'_>,
        (log, sequence): (LogId, Sequence),
    ) -> Result<(), LakeError> {
        let day = crate::names::day_of(stamp_us);
        let id = FileId { table: REJECTS.to_owned(), day: day.days(), schema: 0 };
        let row = [
            Value::Text(reject.stream),
            Value::Text(reject.reason),
            Value::Text(reject.refused_by),
            Value::Bytes(reject.item),
            Value::Text(reject.text),
            reject.key.map_or(Value::Null, Value::Bytes),
            reject.key_window_ms.map_or(Value::Null, Value::Int),
            Value::Timestamp(stamp_us),
        ];
        let place = self.place_of(id, columns_of_rejects);
        self.push(place, row.into_iter().chain(identity(log, sequence)))
    }

    /// Returns the place of the file for rows of a schema and a day, and remembers it.
    fn place_of_row(&mut self, schema: &Arc<Schema>, day: i32) -> usize {
        let number = self.number_of(schema);
        let id = FileId { table: schema.stream().to_owned(), day, schema: number };
        let place = self.place_of(id, || columns_of(schema));
        self.last = Some((schema.clone(), day, place));
        place
    }

    fn place_of(&mut self, id: FileId, columns: impl FnOnce() -> Vec<FileColumn>) -> usize {
        if let Some(place) = self.places.get(&id) {
            return *place;
        }
        let place = self.files.len();
        let part = self.folder.join(format!("{}.part", place + 1));
        self.files.push((id.clone(), FileWriter::new(part, columns())));
        self.places.insert(id, place);
        place
    }

    /// Returns the number of a schema among the schemas of its stream.
    fn number_of(&mut self, schema: &Arc<Schema>) -> usize {
        if !self.schemas.contains_key(schema.stream()) {
            self.schemas.insert(schema.stream().to_owned(), Vec::new());
        }
        let Some(known) = self.schemas.get_mut(schema.stream()) else { return 0 };
        let found = known.iter().position(|known| Arc::ptr_eq(known, schema) || known == schema);
        found.unwrap_or_else(|| {
            known.push(schema.clone());
            known.len() - 1
        })
    }

    fn push<'v>(&mut self, place: usize, row: impl Iterator<Item = Value<'v>>) -> Result<(), LakeError> {
        let Some((_, file)) = self.files.get_mut(place) else { return Ok(()) };
        let before = file.waiting_bytes;
        file.push(row);
        self.waiting_bytes += file.waiting_bytes - before;
        while self.waiting_bytes > self.memory_bytes {
            self.flush_largest()?;
        }
        Ok(())
    }

    fn flush_largest(&mut self) -> Result<(), LakeError> {
        let files = self.files.iter_mut().map(|(_, file)| file);
        let Some(largest) = files.max_by_key(|file| file.waiting_bytes) else { return Ok(()) };
        self.waiting_bytes -= largest.waiting_bytes;
        largest.flush()
    }

    /// Ends all files of a load whose last record is `last`. Returns the files, their paths on this machine,
    /// and the sum of their sizes in bytes.
    ///
    /// # Errors
    /// A file cannot be written or synced.
    pub fn finish(
        &mut self,
        load: LoadName,
        last: Sequence,
        digest: &str,
    ) -> Result<(Vec<PlannedFile>, Vec<PathBuf>, u64), LakeError> {
        let (stem, kind) = (load.file_stem(last), load.file_kind());
        let (mut files, mut total) = (Vec::new(), 0);
        (self.places, self.last) = (BTreeMap::new(), None);
        for (id, writer) in std::mem::take(&mut self.files) {
            let rows = writer.rows;
            let (part, bytes) = writer.finish(digest)?;
            total += bytes;
            files.push((PlannedFile { name: name_of(&id, &stem, kind), rows }, part));
        }
        files.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        let (files, parts) = files.into_iter().unzip();
        Ok((files, parts, total))
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        // Files that are in the lake are no longer here. The others only occupy space.
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn identity(log: LogId, sequence: Sequence) -> [Value<'static>; 2] {
    [Value::Uuid(*log.as_bytes()), Value::Int(sequence.0.cast_signed())]
}

fn name_of(id: &FileId, stem: &str, kind: &str) -> String {
    let day = Date::from_days(id.day).unwrap_or(Date::FIRST);
    let number = if id.schema == 0 { String::new() } else { format!(".{}", id.schema + 1) };
    format!("{}/day={day}/{stem}{number}{kind}.parquet", table_folder(&id.table))
}
