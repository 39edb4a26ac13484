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
use parquet::schema::types::ColumnPath;
use tollgate_log::{FILE_MODE, Value};

use crate::columns::ColumnBuffer;
use crate::error::LakeError;
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

/// A Parquet file in writing.
pub(crate) struct FileWriter {
    part: PathBuf,
    columns: Vec<ColumnBuffer>,
    /// `None` before the first row group.
    writer: Option<SerializedFileWriter<PartFile>>,
    /// Rows of all row groups, and of the next.
    pub(crate) rows: u64,
    /// Rows in memory.
    waiting: u64,
    /// Bytes of the rows in memory, as an estimate that depends on the rows alone.
    pub(crate) waiting_bytes: usize,
}

impl FileWriter {
    pub(crate) fn new(part: PathBuf, columns: Vec<FileColumn>) -> Self {
        let columns = columns.into_iter().map(ColumnBuffer::new).collect();
        Self { part, columns, writer: None, rows: 0, waiting: 0, waiting_bytes: 0 }
    }

    /// Adds a row: one value for each column.
    pub(crate) fn push<'v>(&mut self, values: impl Iterator<Item = Value<'v>>) {
        for (column, value) in self.columns.iter_mut().zip(values) {
            self.waiting_bytes += column.push(&value);
        }
        self.rows += 1;
        self.waiting += 1;
    }

    /// Writes the rows in memory as a row group.
    pub(crate) fn flush(&mut self) -> Result<(), LakeError> {
        if self.waiting == 0 {
            return Ok(());
        }
        let failed = LakeError::parquet(&self.part);
        self.write_group().map_err(failed)?;
        (self.waiting, self.waiting_bytes) = (0, 0);
        Ok(())
    }

    fn write_group(&mut self) -> parquet::errors::Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let part = PartFile { path: self.part.clone(), buffer: Vec::new(), file: None };
                let columns = || self.columns.iter().map(ColumnBuffer::column);
                let message = message_of(&columns().cloned().collect::<Vec<_>>())?;
                let properties = Arc::new(properties(columns(), self.waiting));
                none.insert(SerializedFileWriter::new(part, message, properties)?)
            }
        };
        let mut group = writer.next_row_group()?;
        for column in &mut self.columns {
            let Some(mut open) = group.next_column()? else { break };
            column.write(&mut open)?;
            open.close()?;
        }
        group.close()?;
        writer.inner_mut().rest()?;
        Ok(())
    }

    /// Ends the file, and syncs it. Returns its path and its size in bytes.
    pub(crate) fn finish(mut self, digest: &str) -> Result<(PathBuf, u64), LakeError> {
        self.flush()?;
        let Some(mut writer) = self.writer.take() else { return Ok((self.part, 0)) };
        writer.append_key_value_metadata(KeyValue::new(DIGEST_KEY.to_owned(), digest.to_owned()));
        writer.finish().map_err(LakeError::parquet(&self.part))?;
        let bytes = writer.bytes_written() as u64;
        let part = writer.inner_mut();
        part.write_out().map_err(LakeError::file("write", &self.part))?;
        sync(&self.part, part.file.as_ref()).map_err(LakeError::file("sync", &self.part))?;
        Ok((self.part, bytes))
    }
}

fn sync(path: &Path, file: Option<&File>) -> io::Result<()> {
    match file {
        Some(file) => file.sync_all(),
        None => File::open(path)?.sync_all(),
    }
}

/// Returns the properties of a file whose first row group has `rows` rows. Its Bloom filters are made for
/// that number of values.
fn properties<'c>(columns: impl Iterator<Item = &'c FileColumn>, rows: u64) -> WriterProperties {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_max_row_group_row_count(None)
        .set_compression(Compression::ZSTD(level));
    for column in columns.filter(|column| column.has_bloom) {
        let path = ColumnPath::from(column.name.as_str());
        properties = properties.set_column_bloom_filter_ndv(path, rows);
    }
    properties.build()
}
