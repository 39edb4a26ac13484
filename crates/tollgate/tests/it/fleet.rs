//! A fleet in network namespaces: three machines record, two machines load into their own databases, and one
//! machine has the store. No route leads from a recording machine to a loading machine.
//!
//! Clients send records all the time, while each machine is killed, frozen or cut off in turn. Each
//! acknowledged record is once in each database, as a row or as a reject. `make fleet` makes many more turns.

mod capture;
mod machines;
mod network;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::crash::{Random, seed};
use crate::program::eventually;
use capture::Capture;
use machines::{DATA, DatabaseMachine, STORE, StoreMachine, WEB, WebMachine};
use network::{Network, SWITCH};

/// Number of machines: first the web machines, then the database machines, and last the store.
const MACHINES: u64 = 6;
/// Turns, unless `TOLLGATE_FLEET_TURNS` sets another number.
const TURNS: u64 = MACHINES;
/// One record of this many does not fit its column, and becomes a reject.
const REJECT_EACH: u64 = 8;
/// Pause of a client after each request, so that a long test has a bounded number of records.
const REQUEST_PAUSE: Duration = Duration::from_millis(2);
/// Address of a database machine, to which no packet of a web machine may go.
const BASE: &str = "198.18.2.11";
/// Packets between the two networks, including questions for addresses (ARP).
const CROSSING: &str = "net 198.18.1.0/24 and net 198.18.2.0/24";
/// The port of the packets by which the test shows that the capture works.
const CONTROL_PORT: u16 = 9;

#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    Freeze,
    CutOff,
}

const FAULTS: [Fault; 3] = [Fault::Kill, Fault::Freeze, Fault::CutOff];

/// What the clients know about the records that they sent.
#[derive(Default)]
struct Journal {
    /// The number of the next record.
    next: AtomicU64,
    acknowledged: Mutex<BTreeSet<u64>>,
    is_over: AtomicBool,
}

impl Journal {
    fn acknowledged(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.acknowledged.lock().unwrap()
    }

    /// Sends records to one machine until the journal is over.
    fn send_to(&self, machine: &Mutex<WebMachine>, network: &Network) {
        while !self.is_over() {
            let mut client = machine.lock().unwrap().connect(network);
            while !self.is_over() {
                let n = self.next.fetch_add(1, Ordering::Relaxed);
                // Without a reply, it is unknown whether the record is in the log.
                let Some(reply) = client.post("/a", &format!("[{}]", item(n))) else { break };
                if reply.is_success() {
                    self.acknowledged().insert(n);
                }
                thread::sleep(REQUEST_PAUSE);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

/// Ends the clients when it is dropped, also if a turn panics.
struct EndOfLoad<'a>(&'a Journal);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

fn is_reject(n: u64) -> bool {
    n.is_multiple_of(REJECT_EACH)
}

fn item(n: u64) -> String {
    if is_reject(n) { format!("{{\"n\":\"{n}\"}}") } else { format!("{{\"n\":{n}}}") }
}

/// All machines. A turn locks the machine that it kills, so that its clients wait until it serves again.
struct Fleet {
    network: Network,
    web: Vec<Mutex<WebMachine>>,
    bases: Vec<Mutex<DatabaseMachine>>,
    store: Mutex<StoreMachine>,
}

impl Fleet {
    /// Starts all machines. `None`: this machine does not allow networks.
    fn start() -> Option<Self> {
        let mut network = Network::new()?;
        network.add_bridge(WEB);
        network.add_bridge(DATA);
        let store = StoreMachine::start(&mut network);
        let bases = [("base1", BASE), ("base2", "198.18.2.12")];
        let sinks = bases.map(|(name, _)| name);
        let bases = bases.map(|(name, address)| DatabaseMachine::start(&mut network, &store, name, address));
        let web = [("web1", "198.18.1.11"), ("web2", "198.18.1.12"), ("web3", "198.18.1.13")];
        let web = web.map(|(name, address)| WebMachine::start(&mut network, &store, name, address, &sinks));
        let (web, bases) = (web.map(Mutex::new).into(), bases.map(Mutex::new).into());
        Some(Self { network, web, bases, store: Mutex::new(store) })
    }

    /// Sends records to all web machines during this number of turns.
    fn run(&self, turns: u64, journal: &Journal, mut random: Random) {
        thread::scope(|scope| {
            let end = EndOfLoad(journal);
            for machine in &self.web {
                scope.spawn(|| journal.send_to(machine, &self.network));
            }
            for turn in 0..turns {
                let before = journal.acknowledged().len();
                thread::sleep(Duration::from_millis(random.below(300)));
                let time = Duration::from_millis(1_000 + random.below(2_000));
                // After three rounds, each machine had each fault.
                let (machine, round) = ((turn % MACHINES) as usize, turn / MACHINES);
                self.strike(machine, FAULTS[(machine + round as usize) % FAULTS.len()], time);
                eventually("records are acknowledged", || {
                    (journal.acknowledged().len() > before).then_some(())
                });
            }
            drop(end);
        });
    }

    /// Kills a machine and starts it again, or freezes it or cuts it off for this time.
    fn strike(&self, machine: usize, fault: Fault, time: Duration) {
        let name = self.name(machine);
        println!("{fault:?} {name}");
        match fault {
            Fault::Kill => self.kill_and_restart(machine),
            Fault::Freeze => {
                self.network.signal(name, Signal::STOP);
                thread::sleep(time);
                self.network.signal(name, Signal::CONT);
            }
            Fault::CutOff => {
                self.network.set_cables(name, false);
                thread::sleep(time);
                self.network.set_cables(name, true);
            }
        }
    }

    fn name(&self, machine: usize) -> &'static str {
        match machine {
            0..3 => self.web[machine].lock().unwrap().name,
            3..5 => self.bases[machine - 3].lock().unwrap().name,
            _ => STORE,
        }
    }

    fn kill_and_restart(&self, machine: usize) {
        match machine {
            0..3 => self.web[machine].lock().unwrap().kill_and_restart(&self.network),
            3..5 => self.bases[machine - 3].lock().unwrap().kill_and_restart(&self.network),
            _ => self.store.lock().unwrap().kill_and_restart(&self.network),
        }
    }

    /// Waits until each database has all acknowledged records. Then checks that it has each record once.
    fn check(&self, journal: &Journal) {
        let (sent, acknowledged) = (journal.next.load(Ordering::Relaxed), journal.acknowledged());
        assert!(acknowledged.len() as u64 > sent * 9 / 10, "{} of {sent} requests", acknowledged.len());
        let recorded = |base: &Mutex<DatabaseMachine>| recorded_in(&base.lock().unwrap(), &acknowledged);
        let recorded: Vec<_> = self.bases.iter().map(recorded).collect();
        assert!(recorded[0] == recorded[1], "both databases have the same records");
        assert!(recorded[0].iter().all(|n| *n < sent), "no record was made up");
        println!(
            "{sent} sent = {} acknowledged + {} recorded without a reply + {} not recorded",
            acknowledged.len(),
            recorded[0].len() - acknowledged.len(),
            sent as usize - recorded[0].len()
        );
    }

    /// Checks that the web machines delete all that both databases have. Then ends all machines.
    fn stop(self) {
        self.bases.iter().for_each(|base| base.lock().unwrap().stop_loaders());
        for machine in self.web {
            let machine = machine.into_inner().unwrap();
            eventually("all loaded segments are deleted", || (machine.sealed() == 0).then_some(()));
            machine.stop();
        }
    }
}

/// Waits until a database has all acknowledged records. Returns the records that it has. Each is there once,
/// as a row or as a reject.
fn recorded_in(base: &DatabaseMachine, acknowledged: &BTreeSet<u64>) -> BTreeSet<u64> {
    let numbers = |question: &str| -> Vec<u64> {
        base.ask(question).iter().map(|line| line.parse().unwrap()).collect()
    };
    let look = || {
        if base.ask("SELECT to_regclass('a') IS NOT NULL") == ["f"] {
            return None;
        }
        // One query, so that the rows and the rejects are those of one moment.
        let all = numbers(
            "SELECT n FROM a UNION ALL SELECT (text::json->>'n')::bigint FROM tollgate.rejects ORDER BY 1",
        );
        let distinct: BTreeSet<_> = all.iter().copied().collect();
        assert_eq!(all.len(), distinct.len(), "{}: no record is there twice", base.name);
        acknowledged.is_subset(&distinct).then_some(distinct)
    };
    let recorded = eventually("every acknowledged record is in the database", look);
    let rejects: BTreeSet<_> =
        numbers("SELECT (text::json->>'n')::bigint FROM tollgate.rejects").into_iter().collect();
    assert!(recorded.iter().all(|n| rejects.contains(n) == is_reject(*n)), "{}: the rejects", base.name);
    assert_eq!(base.ask("SELECT count(*) FROM tollgate.gaps"), ["0"], "{}: gaps", base.name);
    recorded
}

/// Checks that a web machine reaches no database machine, because it has no route.
fn has_no_route(network: &Network) {
    let error = network.within("web1", || TcpStream::connect((BASE, 5432))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NetworkUnreachable, "{error}");
}

/// Sends a packet from a web machine to the address of a database machine, by a route that exists only
/// meanwhile. Waits until the capture sees the packet.
fn control(network: &Network, capture: &Capture) {
    network.configure("web1", &["route", "add", BASE, "dev", WEB]);
    network.configure("web1", &["neighbor", "add", BASE, "lladdr", "02:00:00:00:00:01", "dev", WEB]);
    network.within("web1", || {
        UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"control", (BASE, CONTROL_PORT)).unwrap();
    });
    network.configure("web1", &["neighbor", "delete", BASE, "dev", WEB]);
    network.configure("web1", &["route", "delete", BASE, "dev", WEB]);
    let packet = capture.next();
    assert!(is_control(&packet), "{packet}");
}

fn is_control(packet: &str) -> bool {
    packet.contains(&format!("{BASE}.{CONTROL_PORT}: UDP"))
}

#[test]
fn no_machine_of_a_fleet_that_is_killed_frozen_or_cut_off_costs_or_doubles_a_record() {
    let turns = std::env::var("TOLLGATE_FLEET_TURNS").map_or(TURNS, |turns| turns.parse().unwrap());
    let random = Random(seed());
    let Some(fleet) = Fleet::start() else { return };
    has_no_route(&fleet.network);
    let capture = Capture::start(&fleet.network, SWITCH, CROSSING);
    control(&fleet.network, &capture);
    let journal = Journal::default();
    fleet.run(turns, &journal, random);
    fleet.check(&journal);
    control(&fleet.network, &capture);
    fleet.stop();
    let crossing: Vec<_> = capture.end().into_iter().filter(|packet| !is_control(packet)).collect();
    assert!(crossing.is_empty(), "{} packets between web and database: {crossing:?}", crossing.len());
}
