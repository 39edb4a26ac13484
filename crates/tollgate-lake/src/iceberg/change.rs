//! Builds a commit of a table, and the table as it is after the commit.
//!
//! Each kind of change brings its own requirement, so two programs that loaded the same version of a table
//! never both commit. The append of rows requires the snapshot of the branch. New columns require the
//! current schema and the largest id of a column. Properties have no requirement in the protocol, so this
//! program changes them only in a commit that appends.

use std::collections::BTreeMap;
use std::time::Duration;

use super::commit::{LAST_ADDED, MAIN, Requirement, TableCommit, Update};
use super::metadata::{Metadata, NewSnapshot};
use super::types::TableColumn;

/// A commit that is being built.
pub(super) struct Change {
    /// The table after the updates so far.
    metadata: Metadata,
    pub(super) commit: TableCommit,
}

impl Change {
    pub(super) fn new(base: &Metadata) -> Self {
        let commit = TableCommit {
            requirements: vec![Requirement::AssertTableUuid { uuid: base.uuid().to_owned() }],
            updates: Vec::new(),
        };
        Self { metadata: base.clone(), commit }
    }

    fn push(&mut self, update: Update) {
        self.metadata.apply(&update);
        self.commit.updates.push(update);
    }

    /// Adds the columns that the table lacks, in a schema of its own.
    pub(super) fn add_columns(&mut self, columns: &[TableColumn]) {
        let (current_schema_id, last_assigned_field_id) =
            (self.metadata.schema_id(), self.metadata.last_column());
        self.commit.requirements.extend([
            Requirement::AssertCurrentSchemaId { current_schema_id },
            Requirement::AssertLastAssignedFieldId { last_assigned_field_id },
        ]);
        let (schema, last_column_id) = self.metadata.schema_with(columns);
        self.push(Update::AddSchema { schema, last_column_id });
        self.push(Update::SetCurrentSchema { schema_id: LAST_ADDED });
    }

    /// Adds a snapshot to the branch `main`, with the position of its load. `clock_ms` is the wall clock.
    pub(super) fn append(&mut self, new: &NewSnapshot, (key, value): (&str, &str), clock_ms: i64) {
        let snapshot_id = self.metadata.head();
        self.commit
            .requirements
            .push(Requirement::AssertRefSnapshotId { branch: MAIN.to_owned(), snapshot_id });
        let snapshot = self.metadata.next_snapshot(new, clock_ms);
        self.push(Update::AddSnapshot { snapshot });
        let (ref_name, kind, retention) =
            (MAIN.to_owned(), "branch".to_owned(), self.metadata.retention(MAIN));
        self.push(Update::SetSnapshotRef { ref_name, kind, snapshot_id: new.id, retention });
        self.push(Update::SetProperties { updates: BTreeMap::from([(key.to_owned(), value.to_owned())]) });
    }

    /// Removes properties, in a commit that appends.
    pub(super) fn remove_properties(&mut self, removals: Vec<String>) {
        if !removals.is_empty() {
            self.push(Update::RemoveProperties { removals });
        }
    }

    /// Removes snapshots older than `kept`, in a commit that appends. `clock_ms` is the wall clock.
    pub(super) fn expire(&mut self, kept: Duration, clock_ms: i64) {
        let snapshot_ids = self.metadata.expired(kept, clock_ms);
        if !snapshot_ids.is_empty() {
            self.push(Update::RemoveSnapshots { snapshot_ids });
        }
    }
}
