//! What a sink notes of each table apart from the catalog: which table it is, and its newest state. A catalog
//! that was lost, replaced or restored is so found before a load goes on without earlier rows.

use super::catalog::{CatalogTable, TableName};
use super::warehouse::{Objects, folder_of};
use crate::error::LakeError;
use crate::names::{Names, escaped};

/// What a sink noted of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableNote {
    /// The id of the table.
    uuid: String,
    /// The largest sequence number of a snapshot that the sink has seen.
    sequence: i64,
}

impl TableNote {
    /// Returns the note of a table whose newest snapshot has this sequence number.
    pub(super) fn new(table: &CatalogTable, sequence: i64) -> Self {
        Self { uuid: table.metadata.uuid().to_owned(), sequence }
    }

    fn to_text(&self) -> String {
        format!("{} {}\n", self.uuid, self.sequence)
    }

    fn from_text(text: &str) -> Option<Self> {
        let (uuid, sequence) = text.trim().split_once(' ')?;
        Some(Self { uuid: uuid.to_owned(), sequence: sequence.parse().ok()? })
    }
}

/// The notes of one sink.
#[derive(Debug)]
pub(super) struct TableNotes {
    names: Names,
}

impl TableNotes {
    pub(super) fn new(sink: &str) -> Self {
        Self { names: Names::new(sink) }
    }

    fn name(&self, table: &TableName) -> String {
        self.names.note(&format!("tables/{}/{}", escaped(&table.namespace), escaped(&table.table)))
    }

    /// Reads the note of a table. `None`: the sink has not seen the table.
    ///
    /// Read the note before the table: another loader may note a newer state in between.
    pub(super) fn read(
        &self,
        objects: &dyn Objects,
        table: &TableName,
    ) -> Result<Option<TableNote>, LakeError> {
        let bytes = objects.read(&self.name(table))?;
        // A power cut may leave an empty note, which is as none.
        Ok(bytes.and_then(|bytes| TableNote::from_text(&String::from_utf8_lossy(&bytes))))
    }

    pub(super) fn write(
        &self,
        objects: &dyn Objects,
        table: &TableName,
        note: &TableNote,
    ) -> Result<(), LakeError> {
        objects.replace(&self.name(table), &note.to_text())
    }

    /// Compares a table of the catalog with its note.
    ///
    /// # Errors
    /// The table is missing, is another one, or was restored to an older state.
    pub(super) fn check(
        &self,
        table: &TableName,
        note: &TableNote,
        found: Option<&CatalogTable>,
    ) -> Result<(), LakeError> {
        let (uuid, file) = (&note.uuid, self.name(table));
        let reason = match found.map(|found| &found.metadata) {
            None => format!(
                "is not in the catalog, and the sink has loaded into it ({uuid}). Restore the catalog. \
                 If the table was renamed, give the sink another namespace. If it was dropped, move the \
                 folder {} of the warehouse away, and remove {file} there",
                folder_of(&table.namespace, &table.table)
            ),
            Some(found) if found.uuid() != uuid => format!(
                "is another table ({}) than the one the sink has loaded into ({uuid}). Restore the catalog. \
                 To load into this table instead, remove {file} of the warehouse",
                found.uuid()
            ),
            Some(found) if found.last_sequence() < note.sequence => format!(
                "has {} commits, and the sink has seen {}: the catalog was restored to an older state. \
                 Restore the newer state, or register the newest metadata file. To go on without the rows of \
                 the commits in between, remove {file} of the warehouse",
                found.last_sequence(),
                note.sequence
            ),
            Some(_) => return Ok(()),
        };
        Err(LakeError::Table { table: table.to_string(), reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_as_it_was_written() {
        let note = TableNote { uuid: "u-1".to_owned(), sequence: 7 };
        assert_eq!(TableNote::from_text(&note.to_text()), Some(note));
        for text in ["", "u", "u x"] {
            assert_eq!(TableNote::from_text(text), None, "{text:?}");
        }
    }
}
