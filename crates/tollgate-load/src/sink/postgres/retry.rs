//! Trying rejects again: what fits its table by now becomes a row, in the transaction that takes the reject away.
//!
//! A column that the item lacks gets what the table has for it. Rejects are locked while they are tried, so that each
//! becomes one row whoever else tries them.

use std::collections::BTreeMap;

use bytes::{BufMut, BytesMut};
use uuid::Uuid;

use super::bookkeeping::table;
use super::error::{Failure, at};
use super::lane::copy_data;
use super::options::PostgresOptions;
use super::session::Session;
use super::table::{Known, copy_columns, known};
use crate::error::SinkError;
use crate::sink::item::{parse, with_value};
use crate::sink::{self, RETRIED_AT_ONCE, Retried};

type Reject = sink::Reject<Uuid>;

/// Why an item is no row yet.
enum Refusal {
    /// For its content.
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

/// Tries all rejects of a sink, so many in one transaction, each once.
pub(super) fn retry(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
) -> Result<Retried, SinkError> {
    let mut retried = Retried::default();
    let mut after = (Uuid::nil(), 0);
    let failed = || at("try rejects again", options);
    loop {
        session.run("BEGIN").map_err(failed())?;
        let rejects = next_rejects(session, options, sink, after).map_err(failed())?;
        let Some(last) = rejects.last() else {
            return session.run("COMMIT").map(|()| retried).map_err(failed());
        };
        after = (last.log, last.sequence);
        let mut pass =
            Pass { session: &mut *session, options, sink, tables: BTreeMap::new(), loaded: BTreeMap::new() };
        for reject in &rejects {
            match pass.reject(reject)? {
                true => retried.loaded += 1,
                false => retried.kept += 1,
            }
        }
        pass.count().map_err(failed())?;
        session.run("COMMIT").map_err(failed())?;
    }
}

fn next_rejects(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    (log, sequence): (Uuid, i64),
) -> Result<Vec<Reject>, Failure> {
    let question = format!(
        "SELECT log, sequence, stream, reason, item FROM {} WHERE sink = $1 AND (log, sequence) > ($2, $3) \
         ORDER BY log, sequence LIMIT $4 FOR UPDATE",
        table(options, "rejects")
    );
    let rows = session.query(&question, &[&sink, &log, &sequence, &RETRIED_AT_ONCE])?;
    let reject = |row: &tokio_postgres::Row| Reject {
        log: row.get(0),
        sequence: row.get(1),
        stream: row.get(2),
        reason: row.get(3),
        item: row.get(4),
    };
    Ok(rows.iter().map(reject).collect())
}

/// The rejects of one transaction.
struct Pass<'a> {
    session: &'a mut Session,
    options: &'a PostgresOptions,
    sink: &'a str,
    tables: BTreeMap<String, Known>,
    /// Rejects that became rows, by log and stream.
    loaded: BTreeMap<(Uuid, String), i64>,
}

impl Pass<'_> {
    /// Tries one. False: it stays.
    fn reject(&mut self, reject: &Reject) -> Result<bool, SinkError> {
        if !self.tables.contains_key(&reject.stream) {
            let table = known(self.session, self.options, self.sink, &reject.stream)?;
            self.tables.insert(reject.stream.clone(), table);
        }
        let Some(table) = self.tables.get(&reject.stream) else { return Ok(false) };
        let failed = at("try a reject again", self.options);
        match insert(self.session, table, reject) {
            Ok(()) => {
                self.settle(reject).map_err(failed)?;
                Ok(true)
            }
            Err(Refusal::Item(reason)) => {
                self.keep(reject, &reason).map_err(failed)?;
                Ok(false)
            }
            Err(Refusal::Database(failure)) => Err(failed(failure)),
        }
    }

    fn settle(&mut self, reject: &Reject) -> Result<(), Failure> {
        let rejects = table(self.options, "rejects");
        let delete = format!("DELETE FROM {rejects} WHERE sink = $1 AND log = $2 AND sequence = $3");
        self.session.execute(&delete, &[&self.sink, &reject.log, &reject.sequence])?;
        *self.loaded.entry((reject.log, reject.stream.clone())).or_default() += 1;
        Ok(())
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

    /// Last of all and in order: loaders add to the same counters.
    fn count(&mut self) -> Result<(), Failure> {
        let counts = table(self.options, "counts");
        let update = format!(
            "UPDATE {counts} SET loaded = loaded + $4, rejected = rejected - $4 \
             WHERE sink = $1 AND log = $2 AND stream = $3"
        );
        for ((log, stream), loaded) in &self.loaded {
            self.session.execute(&update, &[&self.sink, log, stream, loaded])?;
        }
        Ok(())
    }
}

fn insert(session: &mut Session, known: &Known, reject: &Reject) -> Result<(), Refusal> {
    let (names, data) = encode(known, &reject.item).map_err(Refusal::Item)?;
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

/// An item as one row of a COPY, and the columns that it has.
fn encode(known: &Known, item: &[u8]) -> Result<(Vec<String>, BytesMut), String> {
    let item = parse(item)?;
    let (mut names, mut data) = (Vec::new(), BytesMut::new());
    let count = u16::try_from(item.len()).map_err(|_| format!("item has {} fields", item.len()))?;
    data.put_u16(count);
    for (name, value) in item {
        let Some((kind, wire)) = known.columns.get(&name) else {
            return Err(format!("record has unknown fields: {name:?}"));
        };
        with_value((&name, *kind), &value, |value| wire.encode(value, &mut data))?
            .map_err(|reason| format!("column {name:?}: {reason}"))?;
        names.push(name);
    }
    Ok((names, data))
}
