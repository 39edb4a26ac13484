//! Reads files of a lake: the stamp in a footer, and rejects.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};

use crate::error::LakeError;
use crate::place::FileStamp;
use crate::writer::DIGEST_KEY;

/// A reject, as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReject {
    /// Id of the log, 16 bytes.
    pub log: [u8; 16],
    /// Number of the record.
    pub sequence: u64,
    /// The stream of the record.
    pub stream: String,
    /// Why it is no row.
    pub reason: String,
    /// Who refused it.
    pub refused_by: String,
    /// The item.
    pub item: Vec<u8>,
    /// The key of the row.
    pub key: Option<Vec<u8>>,
    /// How long another sink would remember the key.
    pub key_window_ms: Option<i64>,
    /// Wall clock when the record was written to the log.
    pub stamp_us: i64,
}

/// Reads the stamp of a file. `None`: there is no such file. A file that is no file of a load has the reason
/// as its digest.
pub(crate) fn read_stamp(path: &Path) -> Result<Option<FileStamp>, LakeError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LakeError::file("open", path)(error)),
    };
    let reader = match SerializedFileReader::new(file) {
        Ok(reader) => reader,
        Err(error) => return Ok(Some(FileStamp { rows: 0, digest: error.to_string() })),
    };
    let metadata = reader.metadata().file_metadata();
    let pairs = metadata.key_value_metadata().map(Vec::as_slice).unwrap_or_default();
    let digest = pairs.iter().find(|pair| pair.key == DIGEST_KEY).and_then(|pair| pair.value.clone());
    let rows = u64::try_from(metadata.num_rows()).unwrap_or_default();
    Ok(Some(FileStamp { rows, digest: digest.unwrap_or_else(|| "without a digest".to_owned()) }))
}

/// Reads all rejects of a copy of the file `name` of the lake.
///
/// # Errors
/// The file cannot be read.
pub fn read_rejects(copy: &Path, name: &str) -> Result<Vec<StoredReject>, LakeError> {
    let file = File::open(copy).map_err(LakeError::file("open", copy))?;
    let failed = |error: ParquetError| LakeError::Text {
        name: name.to_owned(),
        reason: format!(
            "{error}. Put the file back from a copy, or move it away. Its rejects then cannot be retried"
        ),
    };
    let reader = SerializedFileReader::new(file).map_err(failed)?;
    let rows = reader.get_row_iter(None).map_err(failed)?;
    rows.map(|row| row.map(|row| reject(&row)).map_err(failed)).collect()
}

fn reject(row: &Row) -> StoredReject {
    let field = |name: &str| row.get_column_iter().find(|(found, _)| *found == name).map(|(_, field)| field);
    let text = |name| match field(name) {
        Some(Field::Str(text)) => text.clone(),
        _ => String::new(),
    };
    let bytes = |name| match field(name) {
        Some(Field::Bytes(bytes)) => Some(bytes.data().to_vec()),
        _ => None,
    };
    let int = |name| match field(name) {
        Some(Field::Long(number) | Field::TimestampMicros(number)) => Some(*number),
        _ => None,
    };
    StoredReject {
        log: bytes("_log").and_then(|log| log.try_into().ok()).unwrap_or_default(),
        sequence: int("_seq").unwrap_or_default().cast_unsigned(),
        stream: text("stream"),
        reason: text("reason"),
        refused_by: text("refused_by"),
        item: bytes("item").unwrap_or_default(),
        key: bytes("_key"),
        key_window_ms: int("key_window_ms"),
        stamp_us: int("stamp").unwrap_or_default(),
    }
}
