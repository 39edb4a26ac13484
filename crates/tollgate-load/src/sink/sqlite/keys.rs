//! The keys of loaded records. A key is kept for the window of its stream, so that a retry is not loaded
//! again.
//!
//! `expires` is the tick at which a window ends.

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_log::Sequence;

use crate::sink::key::{Key, Monotonic, Ticks, millis, purged_max, storable};

/// The record that claims a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claimant<'a> {
    pub(super) log_text: &'a str,
    pub(super) sequence: Sequence,
    pub(super) stream: &'a str,
}

/// The keys of a database.
pub(super) struct SqliteKeys {
    ticks: Ticks,
    /// Number of keys claimed since the count of ticks was stored.
    claimed: u64,
    /// Whether the database may have keys.
    is_in_use: bool,
}

impl SqliteKeys {
    /// Continues the count of ticks that the database stores.
    pub(super) fn new(connection: &Connection, clock: Monotonic) -> Result<Self, rusqlite::Error> {
        let stored: Option<i64> =
            connection.query_row("SELECT ms FROM tollgate_ticks", [], |row| row.get(0)).optional()?;
        let ticks = Ticks::new(stored.unwrap_or_default(), clock);
        Ok(Self { ticks, claimed: 0, is_in_use: stored.is_some() })
    }

    /// Claims a key for a record. Returns false if another record has the key.
    pub(super) fn claim(
        &mut self,
        connection: &Connection,
        key: Key<'_>,
        of: Claimant<'_>,
    ) -> Result<bool, rusqlite::Error> {
        let now_ms = self.ticks.now_ms();
        let ends_ms = now_ms.saturating_add(millis(key.window));
        self.is_in_use = true;
        let changed = connection
            .prepare_cached(
                "INSERT INTO tollgate_keys (stream, key, log, sequence, expires) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (stream, key) DO UPDATE SET \
                 log = excluded.log, sequence = excluded.sequence, expires = excluded.expires \
                 WHERE expires <= ?6 OR (log = excluded.log AND sequence = excluded.sequence)",
            )?
            .execute(params![
                of.stream,
                key.bytes,
                of.log_text,
                of.sequence.0.cast_signed(),
                storable(ends_ms),
                storable(now_ms)
            ])?;
        self.claimed += changed as u64;
        Ok(changed == 1)
    }

    /// Deletes the key of a row that the database refused.
    pub(super) fn give_back(
        connection: &Connection,
        key: Key<'_>,
        of: Claimant<'_>,
    ) -> Result<(), rusqlite::Error> {
        connection
            .prepare_cached("DELETE FROM tollgate_keys WHERE stream = ?1 AND key = ?2")?
            .execute(params![of.stream, key.bytes])?;
        Ok(())
    }

    /// Stores the count of ticks and deletes expired keys, in the transaction of a load.
    pub(super) fn store(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        if !self.is_in_use {
            return Ok(());
        }
        let now = storable(self.ticks.now_ms());
        connection
            .prepare_cached(
                "INSERT INTO tollgate_ticks (id, ms) VALUES (1, ?1) \
                 ON CONFLICT (id) DO UPDATE SET ms = excluded.ms WHERE ms < excluded.ms",
            )?
            .execute([now])?;
        let purged_max = purged_max(std::mem::take(&mut self.claimed));
        connection
            .prepare_cached(
                "DELETE FROM tollgate_keys WHERE (stream, key) IN \
                 (SELECT stream, key FROM tollgate_keys WHERE expires <= ?1 ORDER BY expires LIMIT ?2)",
            )?
            .execute([now, purged_max])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::super::bookkeeping::TABLES;
    use super::*;
    use crate::sink::key::PURGE_MIN;

    const DAY: Duration = Duration::from_hours(24);

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(TABLES).unwrap();
        connection
    }

    /// Returns a clock that the test moves, in milliseconds.
    fn clock() -> (Arc<AtomicU64>, Monotonic) {
        let time = Arc::new(AtomicU64::new(0));
        let read = time.clone();
        (time, Box::new(move || Duration::from_millis(read.load(Ordering::SeqCst))))
    }

    fn advance(time: &AtomicU64, by: Duration) {
        time.fetch_add(millis(by), Ordering::SeqCst);
    }

    fn claim(ticks: &mut SqliteKeys, connection: &Connection, sequence: u64) -> bool {
        let of = Claimant { log_text: "log", sequence: Sequence(sequence), stream: "s" };
        ticks.claim(connection, Key { bytes: b"key", window: DAY }, of).unwrap()
    }

    fn keys(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM tollgate_keys", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_key_is_kept_for_its_window_and_not_longer() {
        let (connection, (time, clock)) = (database(), clock());
        let mut ticks = SqliteKeys::new(&connection, clock).unwrap();
        assert!(claim(&mut ticks, &connection, 1));
        assert!(!claim(&mut ticks, &connection, 2));
        advance(&time, DAY - Duration::from_millis(1));
        ticks.store(&connection).unwrap();
        assert!(!claim(&mut ticks, &connection, 3));
        advance(&time, Duration::from_millis(1));
        ticks.store(&connection).unwrap();
        assert_eq!(keys(&connection), 0);
        assert!(claim(&mut ticks, &connection, 4));
    }

    #[test]
    fn a_window_that_ended_is_over_before_its_key_is_deleted() {
        let (connection, (time, clock)) = (database(), clock());
        let mut ticks = SqliteKeys::new(&connection, clock).unwrap();
        assert!(claim(&mut ticks, &connection, 1));
        advance(&time, DAY);
        assert!(claim(&mut ticks, &connection, 2));
        assert!(!claim(&mut ticks, &connection, 3));
    }

    #[test]
    fn the_record_that_holds_a_key_is_no_duplicate_of_itself() {
        let (connection, (_, clock)) = (database(), clock());
        let mut ticks = SqliteKeys::new(&connection, clock).unwrap();
        assert!(claim(&mut ticks, &connection, 1));
        assert!(claim(&mut ticks, &connection, 1));
        assert_eq!(keys(&connection), 1);
    }

    #[test]
    fn keys_do_not_age_while_no_loader_runs() {
        let (connection, (time, first)) = (database(), clock());
        let mut ticks = SqliteKeys::new(&connection, first).unwrap();
        assert!(claim(&mut ticks, &connection, 1));
        advance(&time, DAY / 2);
        ticks.store(&connection).unwrap();
        // Only the time in which loaders run counts. So even a year between the two loaders would not matter.
        let (time, second) = clock();
        let mut ticks = SqliteKeys::new(&connection, second).unwrap();
        assert!(!claim(&mut ticks, &connection, 2));
        advance(&time, DAY / 2 - Duration::from_millis(1));
        assert!(!claim(&mut ticks, &connection, 3));
        advance(&time, Duration::from_millis(1));
        assert!(claim(&mut ticks, &connection, 4));
    }

    #[test]
    fn two_loaders_at_once_do_not_age_keys_twice_as_fast() {
        let connection = database();
        let ((time_a, clock_a), (time_b, clock_b)) = (clock(), clock());
        let mut a = SqliteKeys::new(&connection, clock_a).unwrap();
        let mut b = SqliteKeys::new(&connection, clock_b).unwrap();
        assert!(claim(&mut a, &connection, 1));
        for _ in 0..10 {
            advance(&time_a, DAY / 11);
            advance(&time_b, DAY / 11);
            a.store(&connection).unwrap();
            b.store(&connection).unwrap();
        }
        assert!(!claim(&mut b, &connection, 2));
    }

    #[test]
    fn a_commit_deletes_a_bounded_number_of_keys() {
        let (connection, (time, clock)) = (database(), clock());
        let mut ticks = SqliteKeys::new(&connection, clock).unwrap();
        for n in 0..(2 * PURGE_MIN + 1) {
            let of = Claimant { log_text: "log", sequence: Sequence(n), stream: "s" };
            assert!(ticks.claim(&connection, Key { bytes: &n.to_le_bytes(), window: DAY }, of).unwrap());
        }
        ticks.store(&connection).unwrap();
        advance(&time, DAY);
        for left in [PURGE_MIN + 1, 1, 0] {
            ticks.store(&connection).unwrap();
            assert_eq!(keys(&connection).cast_unsigned(), left);
        }
    }
}
