//! Retries rejects. Files never change, so a retry adds files: rows that fit by now, and its own plan, which
//! names the result of each reject.

use std::collections::BTreeMap;
use std::fs;

use serde_json::value::RawValue;
use tollgate_lake::{LakeError, LoadName, MadeFiles, Plan, RecordDigest, Resolved, Streams, Writers};
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

impl ParquetSink {
    /// Returns the rejects that are not rows, each with the reason of the last retry.
    pub(super) fn open_rejects(&mut self) -> Result<Vec<FileReject>, SinkError> {
        let failed = || SinkError::lake("read the rejects");
        let mut known = Known::new();
        for retry in self.ledger.retries().map_err(failed())? {
            known.extend(retry.resolved.into_iter().map(|one| ((one.log, one.sequence), one.reason)));
        }
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
        Ok(rejects)
    }

    fn all_rejects(&mut self) -> Result<Vec<FileReject>, LakeError> {
        let files = self.files_of_rejects()?;
        let place = self.ledger.place();
        let mut rejects = Vec::new();
        for name in files {
            let folder = self.new_folder().map_err(|error| LakeError::call("read", &name)(error))?;
            let file = folder.join(parts::REJECTS);
            let read = place.fetch(&name, &file).and_then(|is_there| match is_there {
                true => read_rejects(&file),
                false => Ok(Vec::new()),
            });
            // The copy only occupies space.
            drop(fs::remove_dir_all(&folder));
            rejects.extend(read?);
        }
        Ok(rejects)
    }

    /// Tries each reject once, [`RETRIED_AT_ONCE`] in one step.
    pub(super) fn retry(&mut self, read: &ReadItem<'_>) -> Result<Retried, SinkError> {
        let mut retried = Retried::default();
        self.finish_retry(read)?;
        let rejects = self.open_rejects()?;
        let at_once = usize::try_from(RETRIED_AT_ONCE).unwrap_or(usize::MAX);
        for some in rejects.chunks(at_once) {
            let fates = self.try_again(some, read, None)?;
            fates.into_iter().for_each(|fate| retried.count(fate));
        }
        Ok(retried)
    }

    /// Finishes a retry that has a plan and no commit.
    fn finish_retry(&mut self, read: &ReadItem<'_>) -> Result<(), SinkError> {
        let failed = || SinkError::lake("read a retry");
        let load = self.ledger.next_retry().map_err(failed())?;
        let Some(plan) = self.ledger.plan(load).map_err(failed())? else { return Ok(()) };
        let is_planned = |reject: &FileReject| {
            let log = id_of(reject).to_string();
            plan.resolved.iter().any(|one| one.sequence == reject.sequence && one.log == log)
        };
        let mut rejects = self.open_rejects()?;
        rejects.retain(is_planned);
        self.try_again(&rejects, read, Some(&plan)).map(drop)
    }

    fn try_again(
        &mut self,
        rejects: &[FileReject],
        read: &ReadItem<'_>,
        planned: Option<&Plan>,
    ) -> Result<Vec<Fate>, SinkError> {
        let failed = || SinkError::lake("retry rejects");
        let load = self.ledger.next_retry().map_err(failed())?;
        let mut writers = self.writers()?;
        let (mut resolved, mut fates, mut digest) = (Vec::new(), Vec::new(), RecordDigest::default());
        for reject in rejects {
            let tried = self.row(&mut writers, reject, read)?;
            fates.push(if tried.is_ok() { Fate::Loaded } else { Fate::Kept });
            let reason = tried.err();
            if planned.is_none() && reason.as_ref() == Some(&reject.reason) {
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
        if resolved.is_empty() {
            return Ok(fates);
        }
        let mut plan = Plan::new(Position { last: Sequence(0), chain: None }, Streams::All);
        plan.digest = digest.finish();
        let made = writers.finish(load, Sequence(0), &plan.digest).map_err(failed())?;
        (plan.files, plan.resolved) = (made.planned(), resolved);
        self.commit_retry(load, &plan, planned, &made)?;
        Ok(fates)
    }

    fn commit_retry(
        &mut self,
        load: LoadName,
        plan: &Plan,
        planned: Option<&Plan>,
        made: &MadeFiles,
    ) -> Result<(), SinkError> {
        let failed = || SinkError::lake("commit a retry");
        if let Some(planned) = planned {
            self.ledger.check_same(load, planned, plan).map_err(failed())?;
        } else if !self.ledger.decide(load, plan).map_err(failed())? {
            let name = format!("{load:?}");
            let reason = "another retry runs: wait for its end".to_owned();
            return Err(failed()(LakeError::Differs { name, reason }));
        }
        self.publish(load, plan, made)?;
        self.ledger.commit(load, plan, made.bytes()).map_err(failed())
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

fn find<'s>(schema: &'s Schema, name: &str) -> Option<&'s Column> {
    schema.table_columns().find(|column| column.name.eq_ignore_ascii_case(name))
}

fn id_of(reject: &FileReject) -> LogId {
    LogId::from_bytes(reject.log)
}
