//! A database that does not answer or takes no rows: the status, the readiness, the metrics and the log
//! report the fault and its time. The pending records are counted at each read.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::admin::{get, get_until};
use crate::cluster::Cluster;
use crate::postgres::numbers_in;
use crate::program::{App, Running, eventually};

const CONFIG: &str = r#"
[stream.a]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/a"
collect = true
stream = "a"
[sink.main]
"#;
/// Records before the fault.
const BEFORE: u64 = 3;
/// Records during the fault.
const DURING: u64 = 7;
/// Number of reads of the metrics during which no value may change.
const READS: usize = 40;

/// The database of the sink.
pub(crate) enum Database {
    /// A database of a server, and its address.
    At {
        cluster: Cluster,
        name: String,
        url: String,
    },
    Sqlite,
}

impl Database {
    pub(crate) fn postgres() -> Self {
        let cluster = Cluster::start("");
        let name = cluster.database();
        let url = cluster.url(&name);
        Self::At { cluster, name, url }
    }

    /// Returns the keys of the sink.
    pub(crate) fn keys(&self) -> String {
        match self {
            Self::At { url, .. } => format!("postgres = \"{url}\"\n"),
            Self::Sqlite => "sqlite = \"data/tollgate.sqlite\"\n".to_owned(),
        }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self, Self::Sqlite)
    }

    /// Returns the name of the table of rejects.
    pub(crate) fn rejects(&self) -> &'static str {
        match self {
            Self::At { .. } => "tollgate.rejects",
            Self::Sqlite => "tollgate_rejects",
        }
    }

    /// Returns the server of the database, and the name of the database in it.
    pub(crate) fn cluster(&self) -> (&Cluster, &str) {
        match self {
            Self::At { cluster, name, .. } => (cluster, name),
            Self::Sqlite => panic!("the sink has no cluster"),
        }
    }
}

pub(crate) struct Site {
    database: Database,
    pub(crate) app: App,
    pub(crate) server: Running,
}

impl Site {
    /// Starts a server with a sink in PostgreSQL, and loads the first records.
    pub(crate) fn start(keys: &str) -> Self {
        Self::with(Database::postgres(), keys)
    }

    /// Starts a server, and loads the first records.
    pub(crate) fn with(database: Database, keys: &str) -> Self {
        let app = App::new(&format!("{CONFIG}{}{keys}\n", database.keys()), &[]);
        let server = app.start();
        let site = Self { database, app, server };
        site.record(0..BEFORE);
        site.wait_for_rows(BEFORE);
        site.wait_for_the_end();
        site
    }

    pub(crate) fn record(&self, numbers: std::ops::Range<u64>) {
        let mut client = self.server.connect();
        for n in numbers {
            assert!(client.post("/a", &format!("[{{\"n\":{n}}}]")).unwrap().is_success());
        }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.database.is_sqlite()
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.database.cluster().0
    }

    /// Locks the table of the stream, also for readers.
    pub(crate) fn lock_table(&self) -> LockHolder<'_> {
        LockHolder::lock(&self.database, "a", "ACCESS EXCLUSIVE")
    }

    /// Returns the name of the database in its cluster.
    pub(crate) fn name(&self) -> &str {
        self.database.cluster().1
    }

    fn wait_for_rows(&self, count: u64) {
        let expected: Vec<_> = (0..count).collect();
        eventually("the rows are there", || (self.rows() == expected).then_some(()));
    }

    /// Runs statements in the database.
    pub(crate) fn execute(&self, statements: &str) {
        match &self.database {
            Database::At { cluster, name, .. } => drop(cluster.sql(name, statements)),
            Database::Sqlite => self.app.database().execute_batch(statements).unwrap(),
        }
    }

    pub(crate) fn rows(&self) -> Vec<u64> {
        match &self.database {
            Database::At { cluster, name, .. } => numbers_in(cluster, name, "a"),
            Database::Sqlite if !self.app.has_table("a") => Vec::new(),
            Database::Sqlite => {
                let numbers = self.app.query::<i64>("SELECT n FROM a ORDER BY n");
                numbers.into_iter().map(i64::cast_unsigned).collect()
            }
        }
    }

    /// Returns the state of the sink.
    fn sink(&self) -> Value {
        let status: Value = serde_json::from_str(&get(&self.app, "/status").content).unwrap();
        status["sinks"][0].clone()
    }

    fn metric(&self, name: &str) -> f64 {
        let metrics = get(&self.app, "/metrics").content;
        let series = format!("{name}{{sink=\"main\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    }

    /// Waits until the server reports that the database has no answer. Prints the seconds that this took.
    fn wait_for_the_fault(&self, begun: Instant) {
        get_until(&self.app, "/readyz", 200, "sink_waiting: sink main has waited for an answer for ");
        eventually("the log has a line", || {
            self.server.has_logged("sink main has waited for an answer for ").then_some(())
        });
        println!("reported after {:.1} s", begun.elapsed().as_secs_f64());
        assert!(self.app.succeed(&["status"]).contains("no answer for "));
        let sink = self.sink();
        assert!(sink["waiting_seconds"].as_f64().unwrap() >= 2.0, "{sink}");
        assert_eq!(self.metric("tollgate_load_up"), 0.0);
        assert!(self.metric("tollgate_load_waiting_seconds") >= 2.0);
    }

    /// Checks that each read counts the records of this moment.
    fn check_pending(&self) {
        for n in 1..DURING {
            let next = BEFORE + n;
            self.record(next..next + 1);
            eventually("the record is synced, and counts", || {
                let sink = self.sink();
                assert_ne!(sink["state"], "caught up", "{sink}");
                (sink["lag_records"] == n + 1).then_some(())
            });
        }
    }

    /// Checks that the audit counts the same pending records as the status.
    fn check_audit(&self) {
        let audit = self.app.succeed(&["audit", "--json"]);
        let reports = audit.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let pending: u64 = reports.map(|report| report["pending"].as_u64().unwrap_or_default()).sum();
        assert_eq!(self.sink()["lag_records"], pending, "{audit}");
    }

    /// Waits until the finding has ended and all is loaded.
    pub(crate) fn wait_for_the_end(&self) {
        eventually("the sink caught up", || {
            let sink = self.sink();
            let is_over = sink["state"] == "caught up" && sink["waiting_seconds"] == 0.0;
            (is_over && sink["lag_records"] == 0 && self.metric("tollgate_load_up") == 1.0).then_some(())
        });
    }
}

/// A session that holds a lock on a table until its drop.
pub(crate) struct LockHolder<'a> {
    cluster: &'a Cluster,
    name: &'a str,
    /// A condition on `pg_locks`: the lock of this session.
    of_session: String,
    psql: Child,
}

impl<'a> LockHolder<'a> {
    /// Locks a table in a mode, such as `EXCLUSIVE`.
    pub(crate) fn lock(database: &'a Database, table: &str, mode: &str) -> Self {
        let mut psql = Command::new("psql");
        let (cluster, name) = database.cluster();
        psql.args(["-X", "-q", "-d", &cluster.url(name), "-c"]);
        psql.arg(format!("BEGIN; LOCK TABLE {table} IN {mode} MODE; SELECT pg_sleep(600)"));
        let psql = psql.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mode: String = mode.to_lowercase().split(' ').collect();
        let of_session = format!("lower(mode) = '{mode}lock' AND granted AND relation = '{table}'::regclass");
        let holder = Self { cluster, name, of_session, psql };
        let question = format!("SELECT count(*) FROM pg_locks WHERE {}", holder.of_session);
        eventually("the table is locked", || (cluster.sql(name, &question) == "1").then_some(()));
        holder
    }
}

impl Drop for LockHolder<'_> {
    fn drop(&mut self) {
        // The server does not notice the death of a client while a statement runs.
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE {}", self.of_session);
        self.cluster.sql(self.name, &end);
        self.psql.wait().unwrap();
    }
}

/// The processes of a database server that do not run until this value is dropped.
pub(crate) struct Frozen(Vec<Pid>);

impl Frozen {
    pub(crate) fn freeze(cluster: &Cluster) -> Self {
        let processes: Vec<_> =
            cluster.processes().into_iter().map(|id| Pid::from_raw(id).unwrap()).collect();
        for id in &processes {
            kill_process(*id, Signal::STOP).unwrap();
        }
        Self(processes)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for id in &self.0 {
            match kill_process(*id, Signal::CONT) {
                // A process that goes on may end others, for example a parent its child.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => panic!("process {id:?} does not go on: {error}"),
            }
        }
    }
}

#[test]
fn a_table_that_another_session_locks_is_reported_with_the_time_and_the_records() {
    let site = Site::start("lock_timeout = \"1h\"");
    let holder = site.lock_table();
    site.record(BEFORE..BEFORE + 1);
    site.wait_for_the_fault(Instant::now());
    site.check_pending();
    site.check_audit();
    drop(holder);
    site.wait_for_rows(BEFORE + DURING);
    site.wait_for_the_end();
    eventually("the log has the end", || site.server.has_logged("the finding has ended").then_some(()));
}

#[test]
fn a_database_that_does_not_run_is_reported_with_the_time_and_the_records() {
    let site = Site::start("");
    let frozen = Frozen::freeze(site.database.cluster().0);
    site.record(BEFORE..BEFORE + 1);
    site.wait_for_the_fault(Instant::now());
    site.check_pending();
    drop(frozen);
    site.wait_for_rows(BEFORE + DURING);
    site.wait_for_the_end();
}

#[test]
fn the_metric_of_a_sink_that_fails_at_each_try_does_not_flap() {
    let site = Site::start("lock_timeout = \"50ms\"");
    let holder = site.lock_table();
    site.record(BEFORE..BEFORE + DURING);
    eventually("the loader tries again", || (site.metric("tollgate_load_up") == 0.0).then_some(()));
    for read in 0..READS {
        let sink = site.sink();
        assert_eq!(sink["state"], "retrying", "read {read}: {sink}");
        assert_eq!(site.metric("tollgate_load_up"), 0.0, "read {read}");
    }
    assert!(site.sink()["failing_seconds"].as_f64().unwrap() > 0.0);
    drop(holder);
    site.wait_for_rows(BEFORE + DURING);
    site.wait_for_the_end();
}

#[test]
fn an_sqlite_database_that_another_program_locks_is_reported_with_time_and_records() {
    let site = Site::with(Database::Sqlite, "");
    let other = site.app.database();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    site.record(BEFORE..BEFORE + 1);
    site.wait_for_the_fault(Instant::now());
    let error = site.sink()["last_error"].as_str().unwrap_or_default().to_owned();
    assert!(error.ends_with("is locked by another program"), "{error}");
    site.check_pending();
    site.check_audit();
    let mut waited = 0.0;
    for read in 0..READS {
        let seconds = site.metric("tollgate_load_waiting_seconds");
        assert!(seconds >= waited, "read {read}: {seconds} after {waited}");
        waited = seconds;
    }
    other.execute_batch("ROLLBACK").unwrap();
    site.wait_for_rows(BEFORE + DURING);
    site.wait_for_the_end();
    eventually("the log has the end", || site.server.has_logged("the finding has ended").then_some(()));
}

#[test]
fn the_wait_for_a_lock_goes_on_when_a_timeout_of_the_database_ends_a_try() {
    let site = Site::start("lock_timeout = \"100ms\"");
    let holder = site.lock_table();
    site.record(BEFORE..BEFORE + 1);
    site.wait_for_the_fault(Instant::now());
    drop(holder);
    site.wait_for_rows(BEFORE + 1);
    site.wait_for_the_end();
}
