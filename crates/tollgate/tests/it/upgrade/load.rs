//! Clients that send requests during upgrades. Each request gets an answer, and each answered record is a
//! row.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::service::Service;
use crate::client::Client;
use crate::crash::{Random, seed};
use crate::program::App;

/// Clients that keep their connection, and as many that open one for each request.
const CLIENTS: usize = 64;
/// Upgrades of one service, after which its rows are counted.
const ROUND: u64 = 20;
/// Most requests that are answered between two upgrades.
const REPLIES_BETWEEN_MAX: u64 = 400;

/// What the clients of a round saw.
#[derive(Default)]
struct Seen {
    numbers: AtomicU64,
    answered: AtomicU64,
    is_over: AtomicBool,
    /// Numbers that got a success.
    recorded: Mutex<Vec<i64>>,
    /// What no client may see: a refused connection, a missing answer, an answer that is no success.
    faults: Mutex<Vec<String>>,
}

impl Seen {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn fault(&self, text: String) {
        self.faults.lock().unwrap().push(text);
    }

    /// Sends one request. Returns whether the connection may be used again.
    fn exchange(&self, client: &mut Client) -> bool {
        let n = self.numbers.fetch_add(1, Ordering::Relaxed) as i64;
        let Some(reply) = client.post("/collect", &format!("{{\"n\": {n}}}")) else {
            self.fault(format!("request {n} got no answer, and no reply had announced the close"));
            return false;
        };
        self.answered.fetch_add(1, Ordering::Relaxed);
        if reply.is_success() {
            self.recorded.lock().unwrap().push(n);
        } else {
            self.fault(format!("request {n}: {}", reply.head));
        }
        reply.field("connection") != Some("close")
    }

    fn connect(&self, address: SocketAddr) -> Option<Client> {
        let client = Client::try_connect(address);
        if client.is_none() {
            self.fault("a connection was refused".to_owned());
        }
        client
    }

    /// Keeps a connection until the server announces its close.
    fn keep_alive(&self, address: SocketAddr) {
        while !self.is_over() {
            let Some(mut client) = self.connect(address) else { return };
            while !self.is_over() && self.exchange(&mut client) {}
        }
    }

    /// Opens a connection for each request.
    fn connect_anew(&self, address: SocketAddr) {
        while !self.is_over() {
            let Some(mut client) = self.connect(address) else { return };
            self.exchange(&mut client);
        }
    }

    /// Waits until this number of further requests is answered.
    fn wait_for(&self, more: u64) {
        let until = self.answered.load(Ordering::Relaxed) + more;
        crate::program::eventually("the clients get answers", || {
            let is_there = self.answered.load(Ordering::Relaxed) >= until;
            (is_there || !self.faults.lock().unwrap().is_empty()).then_some(())
        });
    }
}

/// Ends the clients when it is dropped, also by a failed check. A scope waits for its threads in any case.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Upgrades a service this number of times under load. The number of workers changes each time.
fn round(count: u64, random: &mut Random) {
    let app = App::new(super::CONFIG, &[]);
    let config = app.config();
    let (mut service, seen) = (Service::start(&app), Seen::default());
    let address = service.address();
    thread::scope(|scope| {
        let over = Over(&seen.is_over);
        for _ in 0..CLIENTS {
            scope.spawn(|| seen.keep_alive(address));
            scope.spawn(|| seen.connect_anew(address));
        }
        for _ in 0..count {
            seen.wait_for(1 + random.below(REPLIES_BETWEEN_MAX));
            let workers = 1 + random.below(3);
            app.write("tollgate.toml", &config.replace("workers = 2", &format!("workers = {workers}")));
            let old = service.process();
            service.upgrade(&["upgrade"]);
            service.wait_until_it_knows_the_end_of(old);
        }
        seen.wait_for(1);
        drop(over);
    });
    let log = service.stop();
    assert_eq!(*seen.faults.lock().unwrap(), [""; 0], "{log}");
    app.settle();
    let mut recorded = seen.recorded.into_inner().unwrap();
    recorded.sort_unstable();
    assert_eq!(app.query::<i64>("SELECT n FROM events ORDER BY n"), recorded, "{log}");
}

/// Returns the file that notes how many upgrades an interrupted run has done, if there is one.
fn progress() -> Option<PathBuf> {
    std::env::var_os("TOLLGATE_UPGRADES_DONE").map(PathBuf::from)
}

#[test]
fn no_client_is_refused_or_loses_a_record_while_servers_are_upgraded() {
    let count: u64 = std::env::var("TOLLGATE_UPGRADES").map_or(ROUND, |count| count.parse().unwrap());
    let seed = seed();
    let done = progress().and_then(|file| fs::read_to_string(file).ok());
    let mut done: u64 = done.map_or(0, |text| text.trim().parse().unwrap());
    while done < count {
        let part = ROUND.min(count - done);
        round(part, &mut Random(seed.wrapping_add(done)));
        done += part;
        println!("{done} of {count} upgrades");
        progress().into_iter().for_each(|file| fs::write(file, done.to_string()).unwrap());
    }
}
