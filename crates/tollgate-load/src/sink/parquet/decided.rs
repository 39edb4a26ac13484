//! Loads that are decided and not committed, and whose records are gone. A loader cannot repeat such a load.

use std::collections::BTreeSet;

use tollgate_lake::{Brought, GAPS, LakeError, LoadName, Plan, REJECTS, table_folder};

use super::chunk::LakeChunk;
use super::sink::ParquetSink;
use crate::sink::contract::Decided;

/// What makes the lake lack all files of a plan.
const MOVE: &str = "Move the first ones away";

impl ParquetSink {
    /// Ends a retry whose rejects are deleted. Streams whose files are in the lake have the rows of it.
    /// The rejects of the other streams stay rejects. Returns `None` if another program has ended the retry
    /// otherwise.
    pub(super) fn settle_retry(&mut self, number: u64, plan: &Plan) -> Result<Option<Plan>, LakeError> {
        let load = LoadName::Retry { number };
        let mut settled = plan.clone();
        let rows = plan.resolved.iter().filter(|one| one.reason.is_none());
        for stream in rows.map(|one| &one.stream).collect::<BTreeSet<_>>() {
            if !self.has_brought(stream, load, plan)? {
                let folder = self.folder_of(stream);
                settled.resolved.retain(|one| one.stream != *stream || one.reason.is_some());
                settled.files.retain(|file| !file.name.starts_with(&folder));
            }
        }
        let committed = self.ledger.commit_retry(number, &settled)?;
        Ok((committed == settled).then_some(settled))
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
                let (name, remedy) = (self.ledger.name_of_plan(load), MOVE.to_owned());
                Err(LakeError::Partly { name, there, absent, remedy })
            }
        }
    }

    /// Makes the open load replace a load that an earlier try decided, if the lake has nothing of it. Commits
    /// the decided load if the lake has all of it.
    pub(super) fn replace_load(&mut self) -> Result<Decided, LakeError> {
        let Some(LakeChunk { load, .. }) = self.chunk else { return Ok(Decided::Nothing) };
        let Some(plan) = self.ledger.plan(load)? else { return Ok(Decided::Nothing) };
        match self.brought(load, &plan)? {
            Brought::Nothing => {}
            Brought::All => {
                self.ledger.commit(load, &plan, 0)?;
                return Ok(Decided::Committed);
            }
            Brought::Part { there, absent } => {
                let name = self.ledger.name_of_plan(load);
                let remedy = match (&self.tables, load) {
                    (Some(tables), LoadName::Next { log, first }) => format!(
                        "Delete the rows of log {log} with `_seq` from {first} to {} from the first ones, \
                         and unset their property {}",
                        plan.last,
                        tables.position_of(log)
                    ),
                    _ => MOVE.to_owned(),
                };
                return Err(LakeError::Partly { name, there, absent, remedy });
            }
        }
        if let Some(chunk) = &mut self.chunk {
            chunk.replaces = true;
        }
        Ok(Decided::Replaced)
    }

    /// Returns which files of a load are in the lake, or which tables have the load.
    fn brought(&mut self, load: LoadName, plan: &Plan) -> Result<Brought, LakeError> {
        if self.tables.is_none() {
            return self.ledger.brought(plan, "");
        }
        let (mut there, mut absent) = (Vec::new(), Vec::new());
        for table in plan.counts.keys().map(String::as_str).chain([REJECTS, GAPS]) {
            let folder = self.folder_of(table);
            if plan.files.iter().any(|file| file.name.starts_with(&folder)) {
                let tables = if self.has_brought(table, load, plan)? { &mut there } else { &mut absent };
                tables.push(format!("table {table}"));
            }
        }
        Ok(Brought::new(there, absent))
    }

    /// Returns the beginning of the names of the files of a table.
    fn folder_of(&self, table: &str) -> String {
        let folder = self.tables.as_ref().map_or_else(|| table_folder(table), |tables| tables.folder(table));
        format!("{folder}/")
    }
}
