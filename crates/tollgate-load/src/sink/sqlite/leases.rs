//! Leases in the table `tollgate_leases`. Each call opens its own connection, because the file may be removed
//! or replaced between two calls.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};

use super::bookkeeping::check_version;
use super::connection::failed;
use crate::error::SinkError;
use crate::sink::leases::{
    LEASE_AHEAD_MAX, LEASE_KEPT, LEASE_TIME, LeaseName, LeaseScope, LeaseTable, LiveLease, left_of,
};

/// Time between two tries to get the lock. A loader that has much to load releases the lock only for a
/// fraction of a millisecond after each commit, so the tries are frequent.
const LOCK_PAUSE: Duration = Duration::from_millis(1);
/// Number of tries to get the lock.
const LOCK_TRIES: i32 = 10_000;

/// The leases of a sink in an SQLite database.
pub(crate) struct SqliteLeases {
    path: PathBuf,
    sink: String,
    scope: LeaseScope,
}

impl SqliteLeases {
    pub(crate) fn new(path: &Path, sink: &str, scope: LeaseScope) -> Self {
        Self { path: path.to_owned(), sink: sink.to_owned(), scope }
    }

    /// Opens the database. The loader of the sink creates it, with the table.
    fn connect(&self) -> Result<Connection, SinkError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags).map_err(self.failed("open"))?;
        let wait = |tries: i32| {
            thread::sleep(LOCK_PAUSE);
            tries < LOCK_TRIES
        };
        connection.busy_handler(Some(wait)).map_err(self.failed("set up a connection"))?;
        // A checkpoint could write into the files of another database, if the file was replaced meanwhile.
        let checkpoint = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        connection.set_db_config(checkpoint, true).map_err(self.failed("set up a connection"))?;
        check_version(&connection, &self.path)?;
        Ok(connection)
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(rusqlite::Error) -> SinkError {
        failed(action, &self.path)
    }

    fn take_each(
        &self,
        connection: &Connection,
        names: &BTreeSet<LeaseName>,
    ) -> Result<BTreeSet<LeaseName>, rusqlite::Error> {
        let Self { sink, scope: LeaseScope { store, holder }, .. } = self;
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        let mut taken = BTreeSet::new();
        transaction.execute(
            "DELETE FROM tollgate_leases WHERE sink = ?1 AND until < unixepoch('subsec') - ?2",
            params![sink, LEASE_KEPT.as_secs_f64()],
        )?;
        let upsert = format!(
            "INSERT INTO tollgate_leases (sink, store, name, holder, until) \
             VALUES (?1, ?2, ?3, ?4, unixepoch('subsec') + ?5) \
             ON CONFLICT (sink, store, name) DO UPDATE SET holder = excluded.holder, until = excluded.until \
             WHERE holder = excluded.holder OR NOT {}",
            live("tollgate_leases.until")
        );
        let mut upsert = transaction.prepare(&upsert)?;
        for name in names {
            let text = name.to_string();
            if upsert.execute(params![sink, store, text, holder, LEASE_TIME.as_secs_f64()])? == 1 {
                taken.insert(name.clone());
            }
        }
        drop(upsert);
        transaction.commit()?;
        Ok(taken)
    }

    fn read_live(&self, connection: &Connection) -> Result<Vec<LiveLease>, rusqlite::Error> {
        let mut statement = connection.prepare(&format!(
            "SELECT name, holder, until - unixepoch('subsec') FROM tollgate_leases \
             WHERE sink = ?1 AND store = ?2 AND {}",
            live("until")
        ))?;
        let mut rows = statement.query(params![self.sink, self.scope.store])?;
        let mut leases = Vec::new();
        while let Some(row) = rows.next()? {
            if let Ok(name) = row.get::<_, String>(0)?.parse() {
                leases.push(LiveLease { name, holder: row.get(1)?, left: left_of(row.get(2)?) });
            }
        }
        Ok(leases)
    }
}

impl LeaseTable for SqliteLeases {
    fn take(&mut self, names: &BTreeSet<LeaseName>) -> Result<BTreeSet<LeaseName>, SinkError> {
        self.take_each(&self.connect()?, names).map_err(self.failed("take leases"))
    }

    fn release(&mut self, names: &BTreeSet<LeaseName>) -> Result<(), SinkError> {
        let connection = self.connect()?;
        let LeaseScope { store, holder } = &self.scope;
        for name in names {
            let delete =
                "DELETE FROM tollgate_leases WHERE sink = ?1 AND store = ?2 AND name = ?3 AND holder = ?4";
            let deleted = connection.execute(delete, params![self.sink, store, name.to_string(), holder]);
            deleted.map_err(self.failed("release leases"))?;
        }
        Ok(())
    }

    fn live(&mut self) -> Result<Vec<LiveLease>, SinkError> {
        self.read_live(&self.connect()?).map_err(self.failed("read leases"))
    }
}

/// Returns the condition that a lease with this end is live.
fn live(until: &str) -> String {
    let ahead = LEASE_AHEAD_MAX.as_secs();
    format!("({until} > unixepoch('subsec') AND {until} <= unixepoch('subsec') + {ahead})")
}
