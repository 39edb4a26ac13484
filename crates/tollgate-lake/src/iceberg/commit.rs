//! A change of a table: requirements that the table has to meet, and updates. As JSON, it is the body of a
//! commit of the REST catalog.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;

/// The branch to which this program appends.
pub(super) const MAIN: &str = "main";
/// Stands for the schema that the same commit adds.
pub(super) const LAST_ADDED: i64 = -1;

/// A change of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TableCommit {
    /// The catalog refuses the change if the table does not meet all of them.
    pub requirements: Vec<Requirement>,
    /// The catalog applies them in this order, all or none.
    pub updates: Vec<Update>,
}

/// A requirement. The catalog compares it with the table in the same step that changes the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Requirement {
    /// The table was not dropped and created again.
    AssertTableUuid {
        /// The id of the table.
        uuid: String,
    },
    /// A branch has this snapshot. `None`: there is no such branch.
    AssertRefSnapshotId {
        /// The branch.
        #[serde(rename = "ref")]
        branch: String,
        /// The snapshot.
        snapshot_id: Option<i64>,
    },
    /// The table has this schema now.
    AssertCurrentSchemaId {
        /// The schema.
        current_schema_id: i64,
    },
    /// No other column was added.
    AssertLastAssignedFieldId {
        /// The largest id of a column.
        last_assigned_field_id: i64,
    },
}

/// An update of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Update {
    /// Adds a schema.
    AddSchema {
        /// The schema.
        schema: Json,
        /// The largest id of a column of the table, this schema included.
        last_column_id: i64,
    },
    /// Sets the schema of new rows.
    SetCurrentSchema {
        /// The schema. -1: the schema that this commit added.
        schema_id: i64,
    },
    /// Adds a snapshot.
    AddSnapshot {
        /// The snapshot.
        snapshot: Json,
    },
    /// Sets the snapshot of a branch. A catalog drops each setting of the branch that the update lacks.
    SetSnapshotRef {
        /// The branch.
        ref_name: String,
        /// `branch`.
        #[serde(rename = "type")]
        kind: String,
        /// The snapshot.
        snapshot_id: i64,
        /// How long snapshots of the branch are kept, by the keys of its settings.
        #[serde(flatten)]
        retention: BTreeMap<String, i64>,
    },
    /// Sets properties.
    SetProperties {
        /// The values by their keys.
        updates: BTreeMap<String, String>,
    },
    /// Removes properties.
    RemoveProperties {
        /// The keys.
        removals: Vec<String>,
    },
    /// Removes snapshots.
    RemoveSnapshots {
        /// The snapshots.
        snapshot_ids: Vec<i64>,
    },
}
