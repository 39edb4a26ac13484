//! One column of a row group, from its values to the bytes of the file.

use bytes::Bytes;
use parquet::column::page::PageWriter;
use parquet::column::writer::{ColumnCloseResult, get_column_writer};
use parquet::errors::Result;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::columns::ColumnBuffer;

/// A column that has to be encoded.
pub(crate) struct ColumnTask {
    pub(crate) values: ColumnBuffer,
    pub(crate) column: ColumnDescPtr,
    pub(crate) properties: WriterPropertiesPtr,
}

/// The bytes of an encoded column, with the facts for the footer.
pub(crate) struct Chunk {
    pub(crate) bytes: Bytes,
    pub(crate) close: ColumnCloseResult,
}

impl ColumnTask {
    /// Encodes and compresses the values.
    pub(crate) fn encode(self) -> Result<Chunk> {
        let mut bytes = TrackedWrite::new(Vec::new());
        let pages: Box<dyn PageWriter + '_> = Box::new(SerializedPageWriter::new(&mut bytes));
        let mut writer = get_column_writer(self.column, self.properties, pages);
        self.values.write(&mut writer)?;
        let close = writer.close()?;
        Ok(Chunk { bytes: bytes.into_inner()?.into(), close })
    }
}
