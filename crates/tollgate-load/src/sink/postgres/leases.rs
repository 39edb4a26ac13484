//! Leases in the table `leases`. Each statement is a transaction, and uses only the clock of the server.

use std::collections::BTreeSet;

use super::bookkeeping::{LEASES, check_version};
use super::error::{Failure, at};
use super::names::table;
use super::options::PostgresOptions;
use super::session::Session;
use crate::error::SinkError;
use crate::sink::leases::{
    LEASE_AHEAD_MAX, LEASE_KEPT, LEASE_TIME, LeaseName, LeaseScope, LeaseTable, LiveLease, left_of,
};

/// The leases of a sink in PostgreSQL.
pub(crate) struct PostgresLeases {
    options: PostgresOptions,
    sink: String,
    scope: LeaseScope,
    session: Session,
}

impl PostgresLeases {
    /// Connects, and deletes rows of leases that ended long ago.
    ///
    /// # Errors
    /// No server answers, or the loader of the sink has not created the table yet.
    pub(crate) fn open(options: &PostgresOptions, sink: &str, scope: LeaseScope) -> Result<Self, SinkError> {
        let mut session = Session::open(options)?;
        check_version(&mut session, options)?;
        let old = format!(
            "DELETE FROM {} WHERE sink = $1 AND until < clock_timestamp() - interval '{} s'",
            table(options, LEASES),
            LEASE_KEPT.as_secs()
        );
        session.execute(&old, &[&sink]).map_err(at("delete old leases", options))?;
        Ok(Self { options: options.clone(), sink: sink.to_owned(), scope, session })
    }

    fn table(&self) -> String {
        table(&self.options, LEASES)
    }

    fn at(&self, action: &'static str) -> impl FnOnce(Failure) -> SinkError + use<> {
        at(action, &self.options)
    }
}

impl LeaseTable for PostgresLeases {
    fn take(&mut self, names: &BTreeSet<LeaseName>) -> Result<BTreeSet<LeaseName>, SinkError> {
        // The rows are locked in the order of their names, so two loaders never wait for each other.
        let upsert = format!(
            "INSERT INTO {} AS old (sink, store, name, holder, until) \
             SELECT $1, $2, name, $3, clock_timestamp() + interval '{} s' \
             FROM unnest($4::text[]) AS name ORDER BY name \
             ON CONFLICT (sink, store, name) DO UPDATE SET holder = excluded.holder, until = excluded.until \
             WHERE old.holder = excluded.holder OR NOT {} RETURNING name",
            self.table(),
            LEASE_TIME.as_secs(),
            live("old.until")
        );
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let Self { sink, scope, .. } = self;
        let taken = self.session.query(&upsert, &[sink, &scope.store, &scope.holder, &names]);
        let taken = taken.map_err(self.at("take leases"))?;
        Ok(taken.iter().filter_map(|row| row.get::<_, String>(0).parse().ok()).collect())
    }

    fn release(&mut self, names: &BTreeSet<LeaseName>) -> Result<(), SinkError> {
        let delete = format!(
            "DELETE FROM {} WHERE sink = $1 AND store = $2 AND holder = $3 AND name = ANY ($4)",
            self.table()
        );
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let Self { sink, scope, .. } = self;
        let released = self.session.execute(&delete, &[sink, &scope.store, &scope.holder, &names]);
        released.map(drop).map_err(self.at("release leases"))
    }

    fn live(&mut self) -> Result<Vec<LiveLease>, SinkError> {
        let question = format!(
            "SELECT name, holder, extract(epoch FROM until - clock_timestamp())::float8 FROM {} \
             WHERE sink = $1 AND store = $2 AND {}",
            self.table(),
            live("until")
        );
        let rows = self.session.query(&question, &[&self.sink, &self.scope.store]);
        let rows = rows.map_err(self.at("read leases"))?;
        let lease = |row: &tokio_postgres::Row| {
            let name = row.get::<_, String>(0).parse().ok()?;
            Some(LiveLease { name, holder: row.get(1), left: left_of(row.get(2)) })
        };
        Ok(rows.iter().filter_map(lease).collect())
    }
}

/// Returns the condition that a lease with this end is live.
fn live(until: &str) -> String {
    let ahead = LEASE_AHEAD_MAX.as_secs();
    format!("({until} > clock_timestamp() AND {until} <= clock_timestamp() + interval '{ahead} s')")
}
