//! Retries rejects. A reject that now fits its table becomes a row, in the transaction that deletes the
//! reject. If another record now has the key of the reject, the reject is a duplicate.
//!
//! A column that the item lacks gets the default of the table. Rejects are locked during the retry, so that a
//! reject becomes only one row even if another process retries it too.

use std::collections::BTreeMap;

use bytes::{BufMut, BytesMut};
use tollgate_log::{LogId, Sequence};
use uuid::Uuid;

use super::copy_buffer::copy_data;
use super::error::{Failure, at};
use super::keys::{Claim, PostgresKeys, StreamKey};
use super::names::table;
use super::options::PostgresOptions;
use super::session::Session;
use super::table::{Known, copy_columns, known};
use crate::error::SinkError;
use crate::sink::item::{parse, with_value};
use crate::sink::key::KeptKey;
use crate::sink::reject::{self, Fate, RETRIED_AT_ONCE, ReadItem, Retried, StoredReject};

type Reject = reject::Reject<Uuid>;

/// Why a reject is still not a row.
enum Refusal {
    /// The content of the item does not fit its columns. The value is the reason.
    Item(String),
    Database(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        match failure.row_reason() {
            Some(reason) => Self::Item(reason),
            None => Self::Database(failure),
        }
    }
}

/// Tries each reject of a sink once, [`RETRIED_AT_ONCE`] in one transaction.
pub(super) fn retry(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    keys: &mut PostgresKeys,
    read: &ReadItem<'_>,
) -> Result<Retried, SinkError> {
    let mut retried = Retried::default();
    let mut after = (Uuid::nil(), 0);
    let failed = || at("retry rejects", options);
    loop {
        session.run("BEGIN").map_err(failed())?;
        let rejects = next_rejects(session, options, sink, after).map_err(failed())?;
        let Some(last) = rejects.last() else {
            return session.run("COMMIT").map(|()| retried).map_err(failed());
        };
        after = (last.log, last.sequence);
        let rejects: Vec<_> = rejects.into_iter().map(|reject| reject.read(read)).collect();
        let (tables, settled) = (BTreeMap::new(), BTreeMap::new());
        let mut pass = Pass { session: &mut *session, options, sink, keys: &mut *keys, tables, settled };
        pass.claim_in_order(&rejects).map_err(failed())?;
        for reject in &rejects {
            retried.count(pass.reject(reject)?);
        }
        pass.count().map_err(failed())?;
        keys.store(session).map_err(failed())?;
        session.run("COMMIT").map_err(failed())?;
    }
}

fn next_rejects(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    (log, sequence): (Uuid, i64),
) -> Result<Vec<StoredReject<Uuid>>, Failure> {
    let question = format!(
        "SELECT log, sequence, stream, reason, item, key, key_window_ms, refused_by FROM {} \
         WHERE sink = $1 AND (log, sequence) > ($2, $3) ORDER BY log, sequence LIMIT $4 FOR UPDATE",
        table(options, "rejects")
    );
    let rows = session.query(&question, &[&sink, &log, &sequence, &RETRIED_AT_ONCE])?;
    let reject = |row: &tokio_postgres::Row| StoredReject {
        log: row.get(0),
        sequence: row.get(1),
        stream: row.get(2),
        reason: row.get(3),
        item: row.get(4),
        key: KeptKey::read(row.get(5), row.get(6)),
        refused_by: row.get(7),
    };
    Ok(rows.iter().map(reject).collect())
}

/// The rejects of one transaction.
struct Pass<'a> {
    session: &'a mut Session,
    options: &'a PostgresOptions,
    sink: &'a str,
    keys: &'a mut PostgresKeys,
    /// Tables of the streams, or the reason why the table of a stream cannot be used.
    tables: BTreeMap<String, Result<Known, String>>,
    /// Counts of the retried rejects, by log and stream.
    settled: BTreeMap<(Uuid, String), Retried>,
}

impl Pass<'_> {
    /// Claims each key once, in the same order as loaders, so that a retry and a loader never wait for each
    /// other. When a reject is tried, it claims its key again, which shows whether it has the key.
    fn claim_in_order(&mut self, rejects: &[Reject]) -> Result<(), Failure> {
        let mut firsts = BTreeMap::new();
        for reject in rejects {
            if let Some(key) = &reject.key {
                firsts.entry((&reject.stream, &key.bytes)).or_insert((reject, key));
            }
        }
        firsts.into_values().try_for_each(|(reject, key)| self.claim(reject, key).map(drop))
    }

    /// Claims the key for a reject. Returns false if another record has the key.
    fn claim(&mut self, reject: &Reject, key: &KeptKey) -> Result<bool, Failure> {
        let (sequence, window_ms) = (Sequence(reject.sequence.cast_unsigned()), key.window_ms);
        let claim = Claim { key: &stream_key(reject, key), sequence, window_ms };
        let log = LogId::from_bytes(reject.log.into_bytes());
        Ok(!self.keys.claim(self.session, log, &[claim])?.is_empty())
    }

    /// Tries one reject.
    fn reject(&mut self, reject: &Reject) -> Result<Fate, SinkError> {
        let failed = || at("retry a reject", self.options);
        let (claimed, given_back) = (failed(), failed());
        if let Some(key) = &reject.key
            && !self.claim(reject, key).map_err(claimed)?
        {
            return self.settle(reject, Fate::Duplicate);
        }
        let fate = self.try_row(reject)?;
        if let (Fate::Kept, Some(key)) = (fate, &reject.key) {
            let key = stream_key(reject, key);
            self.keys.give_back(self.session, &[&key]).map_err(given_back)?;
        }
        Ok(fate)
    }

    fn try_row(&mut self, reject: &Reject) -> Result<Fate, SinkError> {
        if !self.tables.contains_key(&reject.stream) {
            let table = match known(self.session, self.options, self.sink, &reject.stream) {
                // The table does not fit the stream any more. Rejects of other streams are tried
                // nevertheless.
                Err(error) if error.is_of_configuration() => Err(error.to_string()),
                found => Ok(found?),
            };
            self.tables.insert(reject.stream.clone(), table);
        }
        let Some(table) = self.tables.get(&reject.stream) else { return Ok(Fate::Kept) };
        let failed = at("retry a reject", self.options);
        let table = match table {
            Ok(table) => table,
            Err(reason) => {
                let reason = reason.clone();
                return self.keep(reject, &reason).map(|()| Fate::Kept).map_err(failed);
            }
        };
        match insert(self.session, table, reject) {
            Ok(()) => self.settle(reject, Fate::Loaded),
            Err(Refusal::Item(reason)) => {
                self.keep(reject, &reason).map_err(failed)?;
                Ok(Fate::Kept)
            }
            Err(Refusal::Database(failure)) => Err(failed(failure)),
        }
    }

    fn settle(&mut self, reject: &Reject, fate: Fate) -> Result<Fate, SinkError> {
        let rejects = table(self.options, "rejects");
        let delete = format!("DELETE FROM {rejects} WHERE sink = $1 AND log = $2 AND sequence = $3");
        self.session
            .execute(&delete, &[&self.sink, &reject.log, &reject.sequence])
            .map_err(at("delete a reject", self.options))?;
        self.settled.entry((reject.log, reject.stream.clone())).or_default().count(fate);
        Ok(fate)
    }

    fn keep(&mut self, reject: &Reject, reason: &str) -> Result<(), Failure> {
        let reason = reason.replace('\0', "\u{fffd}");
        if reject.reason == reason {
            return Ok(());
        }
        let rejects = table(self.options, "rejects");
        let update =
            format!("UPDATE {rejects} SET reason = $4 WHERE sink = $1 AND log = $2 AND sequence = $3");
        self.session.execute(&update, &[&self.sink, &reject.log, &reject.sequence, &reason]).map(drop)
    }

    /// Updates the counters. The counters are updated last and in order, because loaders lock the same
    /// counters.
    fn count(&mut self) -> Result<(), Failure> {
        let counts = table(self.options, "counts");
        let update = format!(
            "UPDATE {counts} SET loaded = loaded + $4, duplicates = duplicates + $5, rejected = rejected - $4 - $5 \
             WHERE sink = $1 AND log = $2 AND stream = $3"
        );
        for ((log, stream), settled) in &self.settled {
            let (loaded, duplicates) = (settled.loaded.cast_signed(), settled.duplicates.cast_signed());
            self.session.execute(&update, &[&self.sink, log, stream, &loaded, &duplicates])?;
        }
        Ok(())
    }
}

fn stream_key(reject: &Reject, key: &KeptKey) -> StreamKey {
    (reject.stream.clone(), key.bytes.clone())
}

fn insert(session: &mut Session, known: &Known, reject: &Reject) -> Result<(), Refusal> {
    let item = reject.item.as_deref().map_err(|reason| Refusal::Item(reason.clone()))?;
    let (names, data) = encode(known, item).map_err(Refusal::Item)?;
    if known.columns.is_empty() {
        return Err(Refusal::Item(format!("stream {:?} has no table", reject.stream)));
    }
    session.run("SAVEPOINT tollgate_reject").map_err(Refusal::Database)?;
    let inserted = match names.is_empty() {
        true => session.run(&format!("INSERT INTO {} DEFAULT VALUES", known.table.quoted())),
        false => {
            let statement = copy_columns(&known.table, names.iter().map(String::as_str));
            session.copy(&statement, copy_data(data.freeze()))
        }
    };
    let result = inserted
        .and_then(|()| session.run("SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT tollgate_reject"));
    let Err(failure) = result else { return Ok(()) };
    let refusal = Refusal::from(failure);
    if matches!(refusal, Refusal::Item(_)) {
        let undo = "ROLLBACK TO SAVEPOINT tollgate_reject; RELEASE SAVEPOINT tollgate_reject";
        session.run(undo).map_err(Refusal::Database)?;
    }
    Err(refusal)
}

/// Encodes an item as one row of a COPY. Returns its columns and the row.
fn encode(known: &Known, item: &[u8]) -> Result<(Vec<String>, BytesMut), String> {
    let item = parse(item)?;
    let (mut names, mut data) = (Vec::new(), BytesMut::new());
    let count = u16::try_from(item.len())
        .map_err(|_| format!("item has {} fields, limit 65535 fields", item.len()))?;
    data.put_u16(count);
    for (name, value) in item {
        let Some((kind, wire)) = known.columns.get(&name) else {
            return Err(format!("record has unknown fields: {name:?}"));
        };
        with_value((&name, *kind), value, |value| wire.encode(value, &mut data))?
            .map_err(|reason| format!("column {name:?}: {reason}"))?;
        names.push(name);
    }
    Ok((names, data))
}
