//! Normal clients that send requests at a steady rate, and the fate of each record.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::client::{Client, Reply, get, post};

const CLIENTS: usize = 4;
/// Pause of each client: a hundred requests per second.
const REQUEST_PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Load {
    is_over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Fates>>,
}

/// The fate of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Acknowledged,
    Refused,
    Unknown,
}

#[derive(Default)]
pub(super) struct Fates {
    records: Vec<(i64, Fate)>,
    statuses: BTreeMap<(&'static str, u16), usize>,
}

impl Load {
    /// Starts the clients. Records have numbers from `first` on.
    pub(super) fn start(server: SocketAddr, first: i64) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let next = Arc::new(AtomicI64::new(first));
        let client = |_| {
            let (is_over, next) = (is_over.clone(), next.clone());
            thread::spawn(move || be_client(server, &is_over, &next))
        };
        Self { clients: (0..CLIENTS).map(client).collect(), is_over }
    }

    pub(super) fn end_after(self, time: Duration) -> Fates {
        thread::sleep(time);
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = Fates::default();
        for client in self.clients {
            all.add(client.join().unwrap());
        }
        all
    }
}

fn be_client(server: SocketAddr, is_over: &AtomicBool, next: &AtomicI64) -> Fates {
    let mut fates = Fates::default();
    let mut client = Client::connect(server);
    let mut due = Instant::now();
    for turn in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let what = ["/collect", "/score", "/", "/files/a.txt", "/slow", "/proxied"][turn % 6];
        let n = next.fetch_add(1, Ordering::Relaxed);
        let request = match what {
            "/collect" => post(what, &format!("{{\"n\":{n},\"note\":\"collected\"}}")),
            "/score" => get(&format!("/score?n={n}")),
            _ => get(what),
        };
        let reply = if client.send(&request) { client.reply() } else { None };
        fates.note(what, n, reply.as_ref());
        if reply.is_none_or(|reply| reply.field("connection") == Some("close")) {
            client = Client::connect(server);
        }
        due = (due + REQUEST_PAUSE).max(Instant::now() - Duration::from_secs(1));
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    fates
}

impl Fates {
    pub(super) fn add(&mut self, more: Self) {
        self.records.extend(more.records);
        self.records.sort_unstable();
        for (what, count) in more.statuses {
            *self.statuses.entry(what).or_default() += count;
        }
    }

    /// Returns the next number, which no record has yet.
    pub(super) fn next(&self) -> i64 {
        self.records.last().map_or(0, |(n, _)| n + 1)
    }

    fn note(&mut self, what: &'static str, n: i64, reply: Option<&Reply>) {
        let status = reply.map_or(0, |reply| reply.status);
        *self.statuses.entry((what, status)).or_default() += 1;
        if matches!(what, "/collect" | "/score") {
            let fate = match reply {
                Some(reply) if reply.is_success() => Fate::Acknowledged,
                Some(reply) if reply.field("tollgate-outcome") == Some("refused") => Fate::Refused,
                _ => Fate::Unknown,
            };
            self.records.push((n, fate));
        }
    }

    /// Returns the numbers of records with this fate, in order.
    pub(super) fn numbers(&self, fate: Fate) -> Vec<i64> {
        self.records.iter().filter(|(_, found)| *found == fate).map(|(n, _)| *n).collect()
    }

    /// Returns the share of requests that succeeded.
    pub(super) fn goodput(&self) -> f64 {
        let all: usize = self.statuses.values().sum();
        let good: usize =
            self.statuses.iter().filter(|((_, status), _)| *status == 200).map(|(_, count)| count).sum();
        good as f64 / all as f64
    }
}

impl fmt::Display for Fates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [acknowledged, refused, unknown] =
            [Fate::Acknowledged, Fate::Refused, Fate::Unknown].map(|fate| self.numbers(fate).len());
        write!(f, "records: {acknowledged} acknowledged, {refused} refused, {unknown} unknown; replies:")?;
        self.statuses
            .iter()
            .try_for_each(|((what, status), count)| write!(f, " {what} {status}: {count}"))?;
        write!(f, "; {:.4} succeeded", self.goodput())
    }
}
