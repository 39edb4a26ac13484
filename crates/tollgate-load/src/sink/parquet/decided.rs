//! Loads that are decided and not committed, and whose records are gone. A loader cannot repeat such a load.

use std::collections::BTreeSet;

use tollgate_lake::{Brought, LakeError, LoadName, Plan, table_folder};

use super::sink::ParquetSink;

impl ParquetSink {
    /// Ends a retry whose rejects are deleted. Streams whose files are in the lake have the rows of the retry.
    /// The rejects of the other streams stay rejects.
    pub(super) fn settle_retry(&mut self, load: LoadName, plan: &Plan) -> Result<Plan, LakeError> {
        let mut settled = plan.clone();
        let rows = plan.resolved.iter().filter(|one| one.reason.is_none());
        for stream in rows.map(|one| &one.stream).collect::<BTreeSet<_>>() {
            if !self.has_brought(stream, load, plan)? {
                let folder = self.folder_of(stream);
                settled.resolved.retain(|one| one.stream != *stream || one.reason.is_some());
                settled.files.retain(|file| !file.name.starts_with(&folder));
            }
        }
        self.ledger.commit(load, &settled, 0)?;
        Ok(settled)
    }

    /// Returns whether the files of a table are in the lake, and not only some of them.
    fn has_brought(&mut self, table: &str, load: LoadName, plan: &Plan) -> Result<bool, LakeError> {
        if let Some(tables) = &mut self.tables {
            return tables.has_load(table, load, plan);
        }
        match self.ledger.brought(plan, &self.folder_of(table))? {
            Brought::Nothing => Ok(false),
            Brought::All => Ok(true),
            Brought::Part { there, absent } => {
                Err(LakeError::Partly { name: self.ledger.name_of_plan(load), there, absent })
            }
        }
    }

    /// Returns the beginning of the names of the files of a table.
    fn folder_of(&self, table: &str) -> String {
        let folder = self.tables.as_ref().map_or_else(|| table_folder(table), |tables| tables.folder(table));
        format!("{folder}/")
    }
}
