//! A server, its database and its client: the steps, and the check after each step.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::client::{Journal, Records, STREAMS};
use super::figures::{Account, Figures, Status, by_metrics, by_status};
use crate::crash::Random;
use crate::database_faults::{Database, Frozen, LockHolder};
use crate::program::{App, Running, eventually};

const CONFIG: &str = r#"
workers = 2
drain_timeout = "500ms"
[log]
segment_bytes_max = "16KiB"
retain = "0ms"
[stream.plain]
columns = [{ name = "id", type = "int" }, { name = "n", type = "int" }]
[stream.keyed]
key = "record.id"
columns = [{ name = "id", type = "int" }, { name = "n", type = "int" }]
[[route]]
path = "/plain"
collect = true
stream = "plain"
[[route]]
path = "/keyed"
collect = true
stream = "keyed"
[sink.main]
"#;
/// Maximum number of requests of a load.
const REQUESTS_MAX: u64 = 100;

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Load,
    /// Audits run during a load.
    LoadAndAudit,
    /// The database is locked during a load, or already is.
    LoadAndLock,
    Lock,
    Freeze,
    EndStall,
    StopServer,
    KillServer,
    /// The server is killed during a load.
    LoadAndKillServer,
    /// The database ends during a load, and starts again.
    LoadAndRestartDatabase,
}

impl Step {
    pub(super) fn draw(random: &mut Random, is_sqlite: bool) -> Self {
        const OF_BOTH: [Step; 11] = [
            Step::Load,
            Step::Load,
            Step::LoadAndAudit,
            Step::LoadAndLock,
            Step::Lock,
            Step::EndStall,
            Step::EndStall,
            Step::EndStall,
            Step::StopServer,
            Step::KillServer,
            Step::LoadAndKillServer,
        ];
        // SQLite has no process that can be frozen or restarted.
        const OF_SERVERS: [Step; 3] = [Step::Freeze, Step::Freeze, Step::LoadAndRestartDatabase];
        let count = OF_BOTH.len() + if is_sqlite { 0 } else { OF_SERVERS.len() };
        let at = random.below(count as u64) as usize;
        OF_BOTH.get(at).copied().unwrap_or_else(|| OF_SERVERS[at - OF_BOTH.len()])
    }
}

/// A fault that keeps the database from accepting rows.
enum Stall<'a> {
    File(rusqlite::Connection),
    Table(LockHolder<'a>),
    Processes(Frozen),
}

impl Stall<'_> {
    fn end(self) {
        match self {
            Self::File(connection) => connection.close().unwrap(),
            Self::Table(holder) => drop(holder),
            Self::Processes(frozen) => drop(frozen),
        }
    }
}

pub(super) struct Trial<'a> {
    database: &'a Database,
    app: App,
    server: Option<Running>,
    stall: Option<Stall<'a>>,
    journal: Journal,
    /// Results in the database when the server started. `None`: a transaction was not over at that time.
    before: Option<Figures>,
    /// Results in the database at the last audit.
    settled: Figures,
}

impl<'a> Trial<'a> {
    /// Starts a server, and loads the first records of both streams.
    pub(super) fn start(database: &'a Database) -> Self {
        let app = App::new(&format!("{CONFIG}{}", database.keys()), &[]);
        let server = Some(app.start());
        let (journal, before) = (Journal::default(), Some(Figures::default()));
        let mut trial =
            Self { database, app, server, stall: None, journal, before, settled: Figures::default() };
        let mut random = Random(0);
        while trial.journal.0.len() < STREAMS.len() {
            trial.load(&mut random);
        }
        trial.check();
        trial
    }

    fn server(&self) -> &Running {
        self.server.as_ref().expect("a server that runs")
    }

    pub(super) fn take(&mut self, step: Step, random: &mut Random) {
        match step {
            Step::Load => self.load(random),
            Step::LoadAndAudit => self.load_and(random, Self::bracket),
            Step::LoadAndLock => self.load_and(random, Self::lock),
            Step::Lock => self.lock(),
            Step::Freeze => self.freeze(),
            Step::EndStall => self.end_stall(),
            Step::StopServer => self.restart(Signal::TERM),
            Step::KillServer => self.restart(Signal::KILL),
            Step::LoadAndKillServer => self.load_and(random, |trial| trial.restart(Signal::KILL)),
            Step::LoadAndRestartDatabase => self.load_and(random, Self::restart_database),
        }
    }

    fn load(&mut self, random: &mut Random) {
        let mut client = self.server().connect();
        let count = 1 + random.below(REQUESTS_MAX);
        assert!(self.journal.send(&mut client, random, count), "the server is gone");
    }

    /// Does something while a client sends.
    fn load_and(&mut self, random: &mut Random, act: impl FnOnce(&mut Self)) {
        let mut client = self.server().connect();
        let count = 1 + random.below(REQUESTS_MAX);
        let (first, mut of_client) = (random.below(count), Random(random.below(u64::MAX)));
        let mut journal = std::mem::take(&mut self.journal);
        let (begins, has_begun) = channel();
        let sending = std::thread::spawn(move || {
            journal.send(&mut client, &mut of_client, first);
            begins.send(()).unwrap();
            journal.send(&mut client, &mut of_client, count - first);
            journal
        });
        has_begun.recv().expect("the client sent its first requests");
        act(self);
        self.journal = sending.join().expect("a client without a failure");
    }

    fn lock(&mut self) {
        if self.stall.is_none() {
            self.stall = Some(if self.database.is_sqlite() {
                let other = self.app.database();
                other.busy_timeout(Duration::from_secs(60)).unwrap();
                other.execute_batch("BEGIN EXCLUSIVE").unwrap();
                Stall::File(other)
            } else {
                // A session may still read the table.
                Stall::Table(LockHolder::lock(self.database, STREAMS[0], "EXCLUSIVE"))
            });
        }
    }

    /// Stops the processes of the database. The loader waits for records at that time.
    fn freeze(&mut self) {
        if self.stall.is_none() {
            self.stall = Some(Stall::Processes(Frozen::freeze(self.database.cluster().0)));
        }
    }

    fn end_stall(&mut self) {
        if let Some(stall) = self.stall.take() {
            stall.end();
        }
    }

    fn restart_database(&mut self) {
        self.end_stall();
        let (cluster, _) = self.database.cluster();
        cluster.stop_immediately();
        cluster.boot();
    }

    fn restart(&mut self, signal: Signal) {
        let server = self.server.take().expect("a server that runs");
        server.signal(signal);
        let (status, log) = server.wait();
        assert!(signal == Signal::KILL || status.success() || self.stall.is_some(), "{log}");
        // A session of the killed server may still commit.
        let is_over = self.database.is_sqlite() || self.stall.is_none() && self.sessions_end();
        self.before = is_over.then(|| Account::read(&self.app).sum().results());
        self.server = Some(self.app.start());
    }

    fn sessions_end(&self) -> bool {
        let (cluster, name) = self.database.cluster();
        let question = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'tollgate'"
        );
        eventually("the sessions of the server end", || {
            (cluster.sql("postgres", &question) == "0").then_some(())
        });
        true
    }

    /// Checks during a load that two reads of the status bracket the audit between them.
    fn bracket(&mut self) {
        if let Some(Stall::Processes(_)) = self.stall {
            return;
        }
        let Some(before) = self.before else { return };
        let settled = |figures: Figures| figures.results().settled();
        let first = by_status(&self.app).figures;
        let audit = Account::read(&self.app).sum() - before;
        assert!(settled(first) <= settled(audit), "{first:?} before {audit:?}");
        let is_stalled = self.stall.is_some();
        assert!(!is_stalled || first.pending <= audit.pending, "{first:?} before {audit:?}");
        // The audit also counts records that are not synced yet, and a commit whose answer is on its way.
        eventually("the status after an audit is not below it", || {
            let second = by_status(&self.app).figures;
            let reaches =
                settled(second) >= settled(audit) && (!is_stalled || second.pending >= audit.pending);
            reaches.then_some(())
        });
    }

    /// Checks that all readers report the same numbers.
    pub(super) fn check(&mut self) {
        match self.stall {
            Some(Stall::Processes(_)) => self.check_frozen(),
            Some(Stall::File(_) | Stall::Table(_)) => self.check_audit(),
            None => {
                eventually("the sink caught up", || {
                    let status = by_status(&self.app);
                    (status.is_caught_up && status.figures.pending == 0).then_some(())
                });
                self.check_audit();
            }
        }
    }

    /// Checks a server whose database does not answer, so that no audit can run.
    fn check_frozen(&self) {
        let (status, _) = self.agreed(false);
        let all = |count: fn(&Records) -> u64| self.journal.0.values().map(count).sum::<u64>();
        let (least, most) = (all(|records| records.all.least()), all(|records| records.all.most()));
        let settled = self.settled.settled();
        let pending = status.figures.pending;
        assert!(pending >= least - settled, "{least} acknowledged, {settled} settled: {status:?}");
        // A server that started during the fault cannot know which records are loaded.
        let most = if status.is_bound { most } else { most - settled };
        assert!(pending <= most, "at most {most} pending: {status:?}");
        assert!(pending == 0 || !status.is_caught_up, "{status:?}");
    }

    fn check_audit(&mut self) {
        let (status, account) = self.agreed(true);
        let account = account.expect("an audit");
        let audit = account.sum();
        if self.before.is_none() {
            self.before = Some(audit.results() - status.figures.results());
        }
        self.settled = audit.results();
        self.check_client(&account);
        self.check_database(&account);
    }

    /// Waits until status and metrics agree, with each other and with an audit. Prints the time of a
    /// disagreement.
    ///
    /// A table that is locked does not hold back rejects and duplicates, so each try has an audit of its own.
    fn agreed(&self, is_audited: bool) -> (Status, Option<Account>) {
        let (begun, mut last) = (Instant::now(), None);
        let found = eventually("status, metrics and audit agree", || {
            let account = is_audited.then(|| Account::read(&self.app));
            let audit = account.as_ref().map(|account| {
                let sum = account.sum();
                self.before.map_or(sum, |before| sum - before)
            });
            let has_results = audit.filter(|_| self.before.is_some());
            let (status, metrics) = (by_status(&self.app), by_metrics(&self.app));
            let figures = status.figures;
            let agrees = figures == metrics
                && audit.is_none_or(|audit| audit.pending == figures.pending && !status.is_bound)
                && has_results.is_none_or(|audit| audit == figures)
                && (figures.pending == 0 || !status.is_caught_up);
            if !agrees && last != Some((figures, metrics)) {
                println!("  {status:?}, metrics {metrics:?}, audit {audit:?}");
                last = Some((figures, metrics));
            }
            agrees.then_some((status, account))
        });
        if last.is_some() {
            println!("  agreed after {:.2} s", begun.elapsed().as_secs_f64());
        }
        found
    }

    /// Checks the account against the replies that the client had.
    fn check_client(&mut self, account: &Account) {
        for (stream, records) in &mut self.journal.0 {
            let (ingested, figures) = account.0[*stream];
            records.all.check(&format!("records of {stream}"), ingested);
            // A record that does not fit may be a duplicate, if its stream has keys.
            if figures.pending == 0 && figures.duplicates == 0 {
                records.rejects.check(&format!("rejects of {stream}"), figures.rejects);
            }
        }
    }

    /// Checks the account against the tables.
    fn check_database(&self, account: &Account) {
        let (rejects, keyed) = (self.database.rejects(), STREAMS[1]);
        for (stream, (_, figures)) in &account.0 {
            assert_eq!(self.count(&format!("count(*) FROM {stream}")), figures.rows, "rows of {stream}");
            let rejected = self.count(&format!("count(*) FROM {rejects} WHERE stream = '{stream}'"));
            assert_eq!(rejected, figures.rejects, "rejects of {stream}");
        }
        let (_, figures) = account.0[keyed];
        assert_eq!(self.count(&format!("count(DISTINCT id) FROM {keyed}")), figures.rows);
        let acknowledged = self.journal.0[keyed].keys.len() as u64;
        assert!(figures.pending > 0 || figures.rows >= acknowledged, "{figures:?}, {acknowledged} keys");
    }

    fn count(&self, question: &str) -> u64 {
        match self.database {
            Database::At { cluster, name, .. } => {
                cluster.sql(name, &format!("SELECT {question}")).parse().unwrap()
            }
            Database::Sqlite => self.app.query::<i64>(&format!("SELECT {question}"))[0].cast_unsigned(),
        }
    }

    pub(super) fn end(mut self) {
        let (status, log) = self.server.take().expect("a server that runs").stop();
        assert!(status.success(), "{log}");
    }
}
