//! Retries rejects. Files never change, so a retry adds files: rows that fit by now, and its own plan, which
//! names the result of each reject.

use std::collections::BTreeMap;
use std::fs;

use serde_json::value::RawValue;
use tollgate_lake::{
    LakeError, LoadName, MadeFiles, Plan, PlannedFile, RecordDigest, Resolved, Streams, Writers,
};
use tollgate_lake::{StoredReject as FileReject, read_rejects, unfit};
use tollgate_log::{Column, LogId, Position, Schema, Sequence, Value};

use super::parts;
use super::sink::ParquetSink;
use crate::error::SinkError;
use crate::sink::item::{parse, with_value};
use crate::sink::key::KeptKey;
use crate::sink::reject::{Fate, RETRIED_AT_ONCE, ReadItem, Reject, Retried, StoredReject};

/// The reason for a reject, and its log and number.
type Known = BTreeMap<(String, u64), Option<String>>;

/// The rejects that are not rows after a retry, and the number of the next retry. Only this retry may change
/// them: each later one has to read the rejects again.
pub(super) struct OpenRejects {
    pub(super) rejects: Vec<FileReject>,
    next: u64,
    /// The plan of the next retry, if there is one. All its rejects are in `rejects`, or deleted.
    plan: Option<Plan>,
}

/// Rejects that were tried: their results, and files beside the lake.
struct Tried {
    fates: Vec<Fate>,
    plan: Plan,
    made: MadeFiles,
    /// Its drop removes the files that are not in the lake.
    _writers: Writers,
}

impl ParquetSink {
    /// Returns the rejects that are not rows, each with the reason of the last retry.
    pub(super) fn open_rejects(&mut self) -> Result<OpenRejects, SinkError> {
        let failed = || SinkError::lake("read the rejects");
        // The number is of the same list as the results. A retry that commits later takes this number.
        let retries = self.ledger.retries().map_err(failed())?;
        let next = retries.len() as u64 + 1;
        let mut known = Known::new();
        for retry in retries {
            known.extend(retry.resolved.into_iter().map(|one| ((one.log, one.sequence), one.reason)));
        }
        // The plan is read first. Another retry may decide it later, with rejects that this list lacks.
        let plan = self.ledger.plan(LoadName::Retry { number: next }).map_err(failed())?;
        let mut rejects = self.all_rejects().map_err(failed())?;
        rejects.retain_mut(|reject| match known.get(&(id_of(reject).to_string(), reject.sequence)) {
            Some(Some(reason)) => {
                reject.reason.clone_from(reason);
                true
            }
            Some(None) => false,
            None => true,
        });
        rejects.sort_by_key(|reject| (reject.log, reject.sequence));
        // A copy of a file, or a snapshot that an operator brought back twice, has the same rejects again.
        rejects.dedup_by_key(|reject| (reject.log, reject.sequence));
        Ok(OpenRejects { rejects, next, plan })
    }

    fn all_rejects(&mut self) -> Result<Vec<FileReject>, LakeError> {
        let files = self.files_of_rejects()?;
        let place = self.ledger.place();
        let mut rejects = Vec::new();
        for name in files {
            let folder = self.new_folder().map_err(|error| LakeError::call("read", &name)(error))?;
            let file = folder.join(parts::REJECTS);
            let read = place.fetch(&name, &file).and_then(|is_there| match is_there {
                true => read_rejects(&file, &name),
                false => Ok(Vec::new()),
            });
            // The copy only occupies space.
            drop(fs::remove_dir_all(&folder));
            rejects.extend(read?);
        }
        Ok(rejects)
    }

    /// Tries each reject once, [`RETRIED_AT_ONCE`] in one step. Begins again after a step of another retry,
    /// which may have changed the rejects.
    pub(super) fn retry(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError> {
        let mut retried = Retried::default();
        loop {
            let OpenRejects { rejects, next, plan } = self.open_rejects()?;
            if let Some(plan) = plan {
                retried.loaded += self.finish_retry(next, &plan, rejects, read)?;
                continue;
            }
            retried.kept = 0;
            if self.retry_open(next, &rejects, read, &mut retried)? {
                return Ok(retried);
            }
        }
    }

    /// Tries rejects by the retries `next` and later. Returns false if another retry took one of these
    /// numbers.
    fn retry_open(
        &mut self,
        mut next: u64,
        rejects: &[FileReject],
        read: &ReadItem<'_>,
        retried: &mut Retried,
    ) -> Result<bool, SinkError> {
        let at_once = usize::try_from(RETRIED_AT_ONCE).unwrap_or(usize::MAX);
        for some in rejects.chunks(at_once) {
            let load = LoadName::Retry { number: next };
            let tried = self.try_again(load, some, read, false)?;
            if !tried.plan.resolved.is_empty() {
                let decided = self.ledger.decide(load, &tried.plan);
                if !decided.map_err(SinkError::lake("commit a retry"))? || !self.commit_retry(next, &tried)? {
                    return Ok(false);
                }
                next += 1;
            }
            tried.fates.into_iter().for_each(|fate| retried.count(fate));
        }
        Ok(true)
    }

    /// Finishes a retry that has a plan and no commit. If some of its rejects are deleted, it cannot be
    /// repeated: then it ends with what the lake has of it. Returns the number of rejects that became rows,
    /// unless another retry did the same.
    fn finish_retry(
        &mut self,
        number: u64,
        plan: &Plan,
        mut rejects: Vec<FileReject>,
        read: &ReadItem<'_>,
    ) -> Result<u64, SinkError> {
        let load = LoadName::Retry { number };
        if self.ledger.is_committed(load).map_err(SinkError::lake("finish a retry"))? {
            return Ok(0);
        }
        rejects.retain(|reject| {
            let log = id_of(reject).to_string();
            plan.resolved.iter().any(|one| one.sequence == reject.sequence && one.log == log)
        });
        if rejects.len() < plan.resolved.len() {
            let settled = self.settle_retry(number, plan);
            let settled = settled.map_err(SinkError::lake("end a retry whose rejects are deleted"))?;
            return Ok(settled.as_ref().map_or(0, rows_of));
        }
        let tried = self.try_again(load, &rejects, read, true)?;
        let same = self.ledger.check_same(load, plan, &tried.plan);
        same.map_err(SinkError::lake("finish a retry"))?;
        Ok(if self.commit_retry(number, &tried)? { rows_of(plan) } else { 0 })
    }

    /// Makes the files of a retry. Without a plan, it leaves out rejects that stay as they are.
    fn try_again(
        &mut self,
        load: LoadName,
        rejects: &[FileReject],
        read: &ReadItem<'_>,
        is_planned: bool,
    ) -> Result<Tried, SinkError> {
        let mut writers = self.writers()?;
        let (mut resolved, mut fates, mut digest) = (Vec::new(), Vec::new(), RecordDigest::default());
        for reject in rejects {
            let tried = self.row(&mut writers, reject, read)?;
            fates.push(if tried.is_ok() { Fate::Loaded } else { Fate::Kept });
            let reason = tried.err();
            if !is_planned && reason.as_ref() == Some(&reject.reason) {
                continue;
            }
            digest.text(&format!("{} {} {reason:?}", id_of(reject), reject.sequence));
            resolved.push(Resolved {
                log: id_of(reject).to_string(),
                sequence: reject.sequence,
                stream: reject.stream.clone(),
                reason,
            });
        }
        let mut plan = Plan::new(Position { last: Sequence(0), chain: None }, Streams::All);
        plan.digest = digest.finish();
        let made = writers.finish(load, Sequence(0), &plan.digest);
        let made = made.map_err(SinkError::lake("retry rejects"))?;
        (plan.files, plan.resolved) = (made.planned(), resolved);
        Ok(Tried { fates, plan, made, _writers: writers })
    }

    /// Brings the rows of a decided retry into the lake. Returns false if another retry did so.
    fn commit_retry(&mut self, number: u64, tried: &Tried) -> Result<bool, SinkError> {
        let is_committed = self.ledger.is_committed(LoadName::Retry { number });
        if is_committed.map_err(SinkError::lake("commit a retry"))? {
            return Ok(false);
        }
        self.bring_retry(number, tried)
    }

    /// Brings the rows of a decided retry into the lake, and commits it. Returns false if another program has
    /// ended the retry otherwise, with the same files.
    fn bring_retry(&mut self, number: u64, tried: &Tried) -> Result<bool, SinkError> {
        let (load, plan) = (LoadName::Retry { number }, &tried.plan);
        self.publish(load, plan, &tried.made)?;
        let failed = || SinkError::lake("commit a retry");
        let committed = self.ledger.commit_retry(number, plan).map_err(failed())?;
        let is_extra = |file: &&PlannedFile| !committed.files.contains(file);
        let files: Vec<_> = plan.files.iter().filter(is_extra).map(|file| file.name.clone()).collect();
        if files.is_empty() {
            return Ok(committed == *plan);
        }
        Err(failed()(LakeError::Ended { name: self.ledger.name_of_commit(load), files }))
    }

    /// Adds the row of a reject. The inner error is the reason why there is none.
    fn row(
        &mut self,
        writers: &mut Writers,
        reject: &FileReject,
        read: &ReadItem<'_>,
    ) -> Result<Result<(), String>, SinkError> {
        let stored = StoredReject {
            log: (),
            sequence: reject.sequence.cast_signed(),
            stream: reject.stream.clone(),
            reason: reject.reason.clone(),
            item: reject.item.clone(),
            key: KeptKey::read(reject.key.clone(), reject.key_window_ms),
            refused_by: Some(reject.refused_by.clone()),
        };
        let Reject { item, key, stream, .. } = stored.read(read);
        let Some(schema) = self.rules.declared.iter().find(|schema| schema.stream() == stream).cloned()
        else {
            return Ok(Err(format!("stream {stream:?} is not configured")));
        };
        let item = match item.as_deref().map(parse) {
            Ok(Ok(item)) => item,
            Ok(Err(reason)) => return Ok(Err(reason)),
            Err(reason) => return Ok(Err(reason.clone())),
        };
        if let Some(name) = item.keys().find(|name| find(&schema, name).is_none()) {
            return Ok(Err(format!("record has unknown fields: {name:?}")));
        }
        self.prepare(&schema, writers)?;
        let key = key.as_ref().map_or(Value::Null, |key| Value::Bytes(key.key().bytes));
        let of = (id_of(reject), Sequence(reject.sequence));
        let schema = std::sync::Arc::new(schema);
        let fill = Fill { item: &item, key, of };
        Ok(
            match fill.with_row(schema.columns(), &[], &mut |values| match unfit(&schema, values) {
                Some(reason) => Err(reason),
                None => Ok(writers.row(&schema, reject.stamp_us, values, of)),
            }) {
                Ok(Ok(written)) => {
                    written.map_err(SinkError::lake("write a row"))?;
                    Ok(())
                }
                Ok(Err(reason)) | Err(reason) => Err(reason),
            },
        )
    }
}

/// The values of the columns of a retried reject.
struct Fill<'i> {
    item: &'i BTreeMap<String, &'i RawValue>,
    key: Value<'i>,
    of: (LogId, Sequence),
}

impl Fill<'_> {
    /// Calls `take` with the values of all columns, of which the first ones are `row`. A value borrows from
    /// the call that parsed it, so each column is a call inside the call of the column before.
    fn with_row<R>(
        &self,
        columns: &[Column],
        row: &[Value<'_>],
        take: &mut dyn FnMut(&[Value<'_>]) -> R,
    ) -> Result<R, String> {
        use tollgate_log::ColumnOrigin;
        let Some((column, rest)) = columns.split_first() else { return Ok(take(row)) };
        let json = self.item.iter().find(|(name, _)| name.eq_ignore_ascii_case(&column.name));
        let mut next = |value: &Value<'_>| {
            let mut row = row.to_vec();
            row.push(*value);
            self.with_row(rest, &row, take)
        };
        match (column.origin, json) {
            (ColumnOrigin::Key { .. }, _) => next(&self.key),
            (ColumnOrigin::LogId, None) => next(&Value::Uuid(*self.of.0.as_bytes())),
            (ColumnOrigin::Sequence, None) => next(&Value::Int(self.of.1.0.cast_signed())),
            (_, None) => next(&Value::Null),
            (_, Some((_, json))) => with_value((&column.name, column.kind), json, next)?,
        }
    }
}

/// Returns the number of rejects that become rows by a retry.
fn rows_of(plan: &Plan) -> u64 {
    plan.resolved.iter().filter(|one| one.reason.is_none()).count() as u64
}

fn find<'s>(schema: &'s Schema, name: &str) -> Option<&'s Column> {
    schema.table_columns().find(|column| column.name.eq_ignore_ascii_case(name))
}

fn id_of(reject: &FileReject) -> LogId {
    LogId::from_bytes(reject.log)
}

#[cfg(test)]
mod tests;
