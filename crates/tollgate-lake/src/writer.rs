//! One Parquet file in writing.
//!
//! The file is made beside the lake, and gets its name there once it is complete. It is opened for each row
//! group, so that a load with many files needs few descriptors. It has no time of a clock and no name of a
//! machine: the same records give the same bytes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use tollgate_log::{ColumnType, FILE_MODE};

use crate::chunk::{Chunk, ColumnTask};
use crate::error::LakeError;
use crate::iceberg::FileMetrics;
use crate::plan::RecordDigest;
use crate::rows::{GROUP_ROWS_MAX, RowGroup};
use crate::table::{FileColumn, message_of};

/// The writer, as files name it. It changes only with the bytes of files.
const CREATED_BY: &str = "tollgate 1";
const ZSTD_LEVEL: i32 = 3;
/// Key of the digest of the load, in the footer of a file.
pub(crate) const DIGEST_KEY: &str = "tollgate.records";
/// Bytes that are gathered before they are written to the disk.
const WRITE_BYTES: usize = 256 << 10;

/// A file that is open only while bytes are written.
struct PartFile {
    path: PathBuf,
    buffer: Vec<u8>,
    file: Option<File>,
}

impl PartFile {
    fn write_out(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut options = OpenOptions::new();
                none.insert(options.append(true).create(true).mode(FILE_MODE).open(&self.path)?)
            }
        };
        file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes all bytes, and closes the file until the next row group.
    fn rest(&mut self) -> io::Result<()> {
        self.write_out()?;
        (self.file, self.buffer) = (None, Vec::new());
        Ok(())
    }
}

impl Write for PartFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A Parquet file that is complete.
pub(crate) struct FinishedFile {
    pub(crate) part: PathBuf,
    pub(crate) bytes: u64,
    /// Digest of its records and of the ids of its columns.
    pub(crate) digest: String,
    pub(crate) metrics: FileMetrics,
}

/// A Parquet file in writing.
pub(crate) struct FileWriter {
    part: PathBuf,
    /// The id and the type of each column in a table of Iceberg.
    fields: Vec<(i32, ColumnType)>,
    /// `None` before the first row group.
    writer: Option<SerializedFileWriter<PartFile>>,
}

impl FileWriter {
    pub(crate) const fn new(part: PathBuf) -> Self {
        Self { part, fields: Vec::new(), writer: None }
    }

    /// Returns the columns of a row group as tasks. The first row group decides which columns have a
    /// dictionary.
    pub(crate) fn tasks(&mut self, group: RowGroup) -> Result<Vec<ColumnTask>, LakeError> {
        let failed = LakeError::parquet(&self.part);
        let writer = self.writer_for(&group).map_err(failed)?;
        let columns = writer.schema_descr().columns().iter().cloned();
        let tasks = group.columns.into_iter().zip(columns).map(|(values, column)| {
            let properties = writer.properties().clone();
            ColumnTask { values, column, properties }
        });
        Ok(tasks.collect())
    }

    fn writer_for(
        &mut self,
        group: &RowGroup,
    ) -> parquet::errors::Result<&mut SerializedFileWriter<PartFile>> {
        let none = match &mut self.writer {
            Some(writer) => return Ok(writer),
            none => none,
        };
        let part = PartFile { path: self.part.clone(), buffer: Vec::new(), file: None };
        let columns: Vec<_> = group.columns.iter().map(|column| column.column().clone()).collect();
        self.fields = columns.iter().filter_map(field_of).collect();
        let message = message_of(&columns)?;
        Ok(none.insert(SerializedFileWriter::new(part, message, Arc::new(properties(group)))?))
    }

    /// Writes the columns of a row group, in order.
    pub(crate) fn write(&mut self, chunks: parquet::errors::Result<Vec<Chunk>>) -> Result<(), LakeError> {
        chunks.and_then(|chunks| self.write_chunks(chunks)).map_err(LakeError::parquet(&self.part))
    }

    fn write_chunks(&mut self, chunks: Vec<Chunk>) -> parquet::errors::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut group = writer.next_row_group()?;
        for chunk in chunks {
            group.append_column(&chunk.bytes, chunk.close)?;
        }
        group.close()?;
        writer.inner_mut().rest()?;
        Ok(())
    }

    /// Ends the file, and syncs it. `digest` is the digest of the records.
    pub(crate) fn finish(mut self, digest: &str) -> Result<FinishedFile, LakeError> {
        let digest = self.digest_of(digest);
        let Some(mut writer) = self.writer.take() else {
            return Ok(FinishedFile { part: self.part, bytes: 0, digest, metrics: FileMetrics::default() });
        };
        writer.append_key_value_metadata(KeyValue::new(DIGEST_KEY.to_owned(), digest.clone()));
        let footer = writer.finish().map_err(LakeError::parquet(&self.part))?;
        let metrics = FileMetrics::read(&footer, &self.fields);
        let bytes = writer.bytes_written() as u64;
        let part = writer.inner_mut();
        part.write_out().map_err(LakeError::file("write", &self.part))?;
        sync(&self.part, part.file.as_ref()).map_err(LakeError::file("sync", &self.part))?;
        Ok(FinishedFile { part: self.part, bytes, digest, metrics })
    }

    /// Returns the digest of the file. It covers the digest of the records, and the ids of the columns if the
    /// columns have ids: a file whose columns have other ids is another file.
    fn digest_of(&self, records: &str) -> String {
        if self.fields.is_empty() {
            return records.to_owned();
        }
        let mut digest = RecordDigest::default();
        digest.text(records);
        self.fields.iter().for_each(|(id, _)| digest.text(&id.to_string()));
        digest.finish()
    }
}

/// Returns the id and the type of a column in a table of Iceberg.
fn field_of(column: &FileColumn) -> Option<(i32, ColumnType)> {
    let field = column.field?;
    Some((field.element.unwrap_or(field.id), column.kind))
}

fn sync(path: &Path, file: Option<&File>) -> io::Result<()> {
    match file {
        Some(file) => file.sync_all(),
        None => File::open(path)?.sync_all(),
    }
}

/// Returns the properties of a file with this first row group. Its Bloom filters are made for the number of
/// its rows. Columns whose values rarely repeat have no dictionary, which would make them larger. A page ends
/// by its bytes alone, because readers decompress few large pages faster than many small ones.
fn properties(group: &RowGroup) -> WriterProperties {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_max_row_group_row_count(None)
        .set_data_page_row_count_limit(GROUP_ROWS_MAX)
        .set_compression(Compression::ZSTD(level));
    for buffer in &group.columns {
        let path = buffer.column().path();
        if buffer.column().has_bloom {
            properties = properties.set_column_bloom_filter_ndv(path.clone(), group.rows as u64);
        }
        properties = properties.set_column_dictionary_enabled(path, buffer.has_repeats());
    }
    properties.build()
}
