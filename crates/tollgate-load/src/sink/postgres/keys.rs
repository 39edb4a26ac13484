//! The keys of loaded records. A key is kept for the window of its stream, so that a retry is not loaded
//! again.
//!
//! Each sink has separate keys. `expires` is the tick at which a window ends.

use std::collections::{BTreeMap, HashSet};

use tollgate_log::{LogId, Sequence};

use super::error::Failure;
use super::names::{table, uuid_of};
use super::options::PostgresOptions;
use super::session::Session;
use crate::sink::key::{Ticks, purged_max, storable, system_clock};

/// A key with its stream.
pub(super) type StreamKey = (String, Box<[u8]>);

/// A record that claims a key.
pub(super) struct Claim<'a> {
    pub(super) key: &'a StreamKey,
    pub(super) sequence: Sequence,
    pub(super) window_ms: u64,
}

/// The keys of a sink.
pub(super) struct PostgresKeys {
    sink: String,
    keys_table: String,
    ticks_table: String,
    ticks: Ticks,
    /// Number of keys claimed since the count of ticks was stored.
    claimed: u64,
    /// Whether the sink may have keys.
    is_in_use: bool,
}

impl PostgresKeys {
    /// Continues the count of ticks that the database stores.
    pub(super) fn new(session: &mut Session, options: &PostgresOptions, sink: &str) -> Result<Self, Failure> {
        let (keys_table, ticks_table) = (table(options, "keys"), table(options, "ticks"));
        let question = format!("SELECT ms FROM {ticks_table} WHERE sink = $1");
        let stored: Option<i64> = session.query(&question, &[&sink])?.first().map(|row| row.get(0));
        let ticks = Ticks::new(stored.unwrap_or_default(), system_clock());
        let (sink, is_in_use) = (sink.to_owned(), stored.is_some());
        Ok(Self { sink, keys_table, ticks_table, ticks, claimed: 0, is_in_use })
    }

    /// Claims keys for records of a log, each key once. Returns the records that now have their key.
    ///
    /// Keys are claimed in the order of the keys, so that two loaders that claim the same keys do not wait
    /// for each other.
    pub(super) fn claim(
        &mut self,
        session: &mut Session,
        log: LogId,
        claims: &[Claim<'_>],
    ) -> Result<HashSet<Sequence>, Failure> {
        let now_ms = self.ticks.now_ms();
        self.is_in_use = true;
        let (streams, keys): (Vec<&str>, Vec<&[u8]>) =
            claims.iter().map(|claim| (&*claim.key.0, &*claim.key.1)).unzip();
        let (sequences, ends): (Vec<_>, Vec<_>) = claims
            .iter()
            .map(|claim| (claim.sequence.0.cast_signed(), storable(now_ms.saturating_add(claim.window_ms))))
            .unzip();
        let claim = format!(
            "INSERT INTO {} AS old (sink, stream, key, log, sequence, expires) \
             SELECT $1, stream, key, $2, sequence, expires \
             FROM unnest($3::text[], $4::bytea[], $5::bigint[], $6::bigint[]) \
             AS new (stream, key, sequence, expires) \
             ON CONFLICT (sink, stream, key) DO UPDATE SET \
             log = excluded.log, sequence = excluded.sequence, expires = excluded.expires \
             WHERE old.expires <= $7 OR (old.log = excluded.log AND old.sequence = excluded.sequence) \
             RETURNING sequence",
            self.keys_table
        );
        let (log, now) = (uuid_of(log), storable(now_ms));
        let rows = session.query(&claim, &[&self.sink, &log, &streams, &keys, &sequences, &ends, &now])?;
        self.claimed += rows.len() as u64;
        Ok(rows.iter().map(|row| Sequence(row.get::<_, i64>(0).cast_unsigned())).collect())
    }

    /// Returns the records of a log that hold any of these keys, by key.
    pub(super) fn holders(
        &self,
        session: &mut Session,
        log: LogId,
        keys: &[&StreamKey],
    ) -> Result<BTreeMap<StreamKey, Sequence>, Failure> {
        let question = format!(
            "SELECT stream, key, sequence FROM {} JOIN unnest($3::text[], $4::bytea[]) AS asked (stream, key) \
             USING (stream, key) WHERE sink = $1 AND log = $2",
            self.keys_table
        );
        let (streams, keys): (Vec<&str>, Vec<&[u8]>) = keys.iter().map(|key| (&*key.0, &*key.1)).unzip();
        let rows = session.query(&question, &[&self.sink, &uuid_of(log), &streams, &keys])?;
        let holder = |row: &tokio_postgres::Row| {
            let (key, sequence): (&[u8], i64) = (row.get(1), row.get(2));
            ((row.get(0), key.into()), Sequence(sequence.cast_unsigned()))
        };
        Ok(rows.iter().map(holder).collect())
    }

    /// Deletes the keys of rows that the database refused.
    pub(super) fn give_back(&self, session: &mut Session, keys: &[&StreamKey]) -> Result<(), Failure> {
        let delete = format!(
            "DELETE FROM {} AS old USING unnest($2::text[], $3::bytea[]) AS refused (stream, key) \
             WHERE old.sink = $1 AND old.stream = refused.stream AND old.key = refused.key",
            self.keys_table
        );
        let (streams, keys): (Vec<&str>, Vec<&[u8]>) = keys.iter().map(|key| (&*key.0, &*key.1)).unzip();
        session.execute(&delete, &[&self.sink, &streams, &keys]).map(drop)
    }

    /// Stores the count of ticks and deletes expired keys, in the transaction of a load. Skips keys that
    /// another loader is just claiming.
    pub(super) fn store(&mut self, session: &mut Session) -> Result<(), Failure> {
        if !self.is_in_use {
            return Ok(());
        }
        let now = storable(self.ticks.now_ms());
        let upsert = format!(
            "INSERT INTO {} AS old (sink, ms) VALUES ($1, $2) \
             ON CONFLICT (sink) DO UPDATE SET ms = excluded.ms WHERE old.ms < excluded.ms",
            self.ticks_table
        );
        session.execute(&upsert, &[&self.sink, &now])?;
        let keys = &self.keys_table;
        let purge = format!(
            "DELETE FROM {keys} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {keys} \
             WHERE sink = $1 AND expires <= $2 ORDER BY expires LIMIT $3 FOR UPDATE SKIP LOCKED))"
        );
        let purged_max = purged_max(std::mem::take(&mut self.claimed));
        session.execute(&purge, &[&self.sink, &now, &purged_max]).map(drop)
    }
}
