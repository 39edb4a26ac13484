//! Faults that are switched on and off, one after the other: clients and a backend that misbehave, sinks that
//! are away, reloads.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tollgate_faults::{Backend, FaultyClients, FaultyClientsOptions};

use crate::cluster::Cluster;
use crate::program::{App, Running, printed};

/// Duration of each fault.
const ON: Duration = Duration::from_secs(2);
/// Time after which a client that has not connected is treated as unable to connect.
const PATIENCE: Duration = Duration::from_secs(300);
const CLIENT_COUNT: usize = 40;
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The faults of clients, and the paths of their requests.
const CLIENTS: [(&str, &str); 18] = [
    ("slow-head:100ms", "/"),
    ("slow-body:100ms", "/take"),
    ("slow-chunks:100ms", "/take"),
    ("no-reader", "/slow"),
    ("slow-reader:50ms", "/slow"),
    ("idle", "/"),
    ("idle-after-one", "/"),
    ("half-close", "/slow"),
    ("close-in-head", "/"),
    ("close-in-body", "/collect"),
    ("reset-in-body", "/take"),
    ("reset-before-reply", "/slow"),
    ("garbage", "/"),
    ("pipeline:200", "/files/a.txt"),
    ("long-head:64KiB", "/"),
    ("many-fields:1000", "/"),
    ("length-and-chunked", "/take"),
    ("expect-nothing", "/take"),
];

/// The faults of the backend.
const BACKEND: [&str; 10] = [
    "silent",
    "reset",
    "garbage",
    "refuse",
    "drip:20ms",
    "two-lengths",
    "short-content",
    "late-second-reply",
    "close-after:1",
    "long-head:1MiB",
];

pub(super) struct Faults<'a, F> {
    app: &'a App,
    cluster: &'a Cluster,
    backend: &'a Backend,
    server: &'a Running,
    config: F,
    steps: u64,
    on: Option<(Fault, Instant)>,
    done: Done,
}

/// A fault that is active until this value is dropped or ended.
enum Fault {
    FaultyClients(&'static str, FaultyClients),
    /// A lock on the SQLite file, so that the loader cannot write.
    Locked(Connection),
    /// PostgreSQL is stopped.
    Stopped,
    /// The backend has a fault.
    Ill,
    Reloaded,
}

/// The faults that ran, and the results of their clients.
#[derive(Default)]
pub(super) struct Done {
    counts: BTreeMap<&'static str, u64>,
    connections: u64,
    refused_reloads: u64,
}

impl Fault {
    /// Returns whether the clients have connected so far. A busy machine may need some time.
    fn has_begun(&self, since: Instant) -> bool {
        match self {
            Self::FaultyClients(name, clients) => {
                let tally = clients.tally();
                assert!(tally.connected > 0 || since.elapsed() < PATIENCE, "{name}: {tally:?}");
                tally.connected > 0
            }
            Self::Locked(_) | Self::Stopped | Self::Ill | Self::Reloaded => true,
        }
    }
}

impl<'a, F: Fn(u64) -> String> Faults<'a, F> {
    pub(super) fn new(
        app: &'a App,
        cluster: &'a Cluster,
        backend: &'a Backend,
        server: &'a Running,
        config: F,
    ) -> Self {
        Self { app, cluster, backend, server, config, steps: 0, on: None, done: Done::default() }
    }

    /// Changes to the next fault after the present fault has been active for `ON`.
    pub(super) fn step(&mut self) {
        if self.on.as_ref().is_some_and(|(fault, since)| since.elapsed() < ON || !fault.has_begun(*since)) {
            return;
        }
        self.stop();
        let fault = self.next();
        self.on = Some((fault, Instant::now()));
        self.steps += 1;
    }

    /// Returns the next fault. Every second fault is a fault of clients, and faults of other kinds alternate
    /// with them.
    fn next(&mut self) -> Fault {
        let step = self.steps;
        match step % 10 {
            1 => self.lock(),
            3 => self.reload(step),
            5 => self.stop_cluster(),
            7 => self.reload_broken(step),
            9 => self.fall_ill((step / 10) as usize),
            _ => self.clients((step / 2) as usize),
        }
    }

    fn clients(&mut self, index: usize) -> Fault {
        let (fault, path) = CLIENTS[index % CLIENTS.len()];
        *self.done.counts.entry(fault).or_default() += 1;
        let clients = FaultyClients::start(FaultyClientsOptions {
            path: path.to_owned(),
            again_after: Some(AGAIN_AFTER),
            from: Some([127, 0, 0, 2].into()),
            ..FaultyClientsOptions::new(fault.parse().unwrap(), self.server.address(), CLIENT_COUNT)
        });
        Fault::FaultyClients(fault, clients.unwrap())
    }

    fn lock(&mut self) -> Fault {
        *self.done.counts.entry("SQLite locked").or_default() += 1;
        let lock = self.app.database();
        lock.busy_timeout(Duration::from_secs(30)).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        Fault::Locked(lock)
    }

    fn stop_cluster(&mut self) -> Fault {
        *self.done.counts.entry("PostgreSQL stopped").or_default() += 1;
        self.cluster.stop_immediately();
        Fault::Stopped
    }

    fn fall_ill(&mut self, index: usize) -> Fault {
        let fault = BACKEND[index % BACKEND.len()];
        *self.done.counts.entry("backend ill").or_default() += 1;
        self.backend.turn(fault.parse().unwrap()).unwrap();
        Fault::Ill
    }

    fn reload(&mut self, version: u64) -> Fault {
        *self.done.counts.entry("reload").or_default() += 1;
        self.app.configure(&(self.config)(version));
        let output = self.app.run(&["reload"]);
        assert!(output.status.success(), "{}", printed(&output));
        Fault::Reloaded
    }

    fn reload_broken(&mut self, version: u64) -> Fault {
        *self.done.counts.entry("broken reload").or_default() += 1;
        let sound = (self.config)(version);
        self.app.configure(&sound.replace("score.luau", "missing.luau"));
        let output = self.app.run(&["reload"]);
        assert!(!output.status.success(), "{}", printed(&output));
        self.done.refused_reloads += 1;
        self.app.configure(&sound);
        Fault::Reloaded
    }

    fn stop(&mut self) {
        match self.on.take() {
            Some((Fault::FaultyClients(_, clients), _)) => self.done.connections += clients.tally().connected,
            Some((Fault::Locked(lock), _)) => lock.execute_batch("ROLLBACK").unwrap(),
            Some((Fault::Stopped, _)) => self.cluster.boot(),
            Some((Fault::Ill, _)) => self.backend.turn(tollgate_faults::Fault::None).unwrap(),
            Some((Fault::Reloaded, _)) | None => {}
        }
    }

    pub(super) fn end(mut self) -> Done {
        self.stop();
        self.done
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} connections that meant no good, {} reloads refused;",
            self.connections, self.refused_reloads
        )?;
        self.counts.iter().try_for_each(|(name, count)| write!(f, " {name}: {count}"))
    }
}
