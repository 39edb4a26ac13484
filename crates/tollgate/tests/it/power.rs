//! Power cuts under load: what was acknowledged as synced is a row, once; the rest is there in part, and without a gap.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::client::Client;
use crate::crash::{CONFIG, KEEP, Load, Random, check_kept, drive_and_kill, request, seed};
use crate::disk::Disk;
use crate::program::{App, Running, eventually};

/// `make crash` cuts more often, and on XFS too.
const CUTS: u64 = 10;
const DISK_MEBIBYTES: u64 = 320;
const CLIENTS: u64 = 6;
/// Requests that a run answers before the cut: at random up to this many.
const REPLIES_BEFORE_CUT_MAX: u64 = 2000;

#[test]
fn what_was_synced_survives_power_cuts_exactly_once() {
    let kind = std::env::var("TOLLGATE_DISK").unwrap_or_else(|_| "ext4".to_owned());
    let cuts = std::env::var("TOLLGATE_POWER_CUTS").map_or(CUTS, |cuts| cuts.parse().unwrap());
    let Some(disk) = Disk::new(&kind, DISK_MEBIBYTES) else { return };
    let mut random = Random(seed());
    let config = format!("drain_timeout = \"100ms\"\n{CONFIG}");
    let app = App::new_in(&disk.path(), &config, &[("keep.luau", KEEP)]);
    disk.sync();
    let load = Arc::new(Load::default());
    let mut synced = Vec::new();
    for _ in 0..cuts {
        if random.below(2) == 0 {
            // What is written and not synced is in the cache of the next run, which loads it: it has to sync it first.
            synced.extend(drive_and_kill(app.start(), random.below(REPLIES_BEFORE_CUT_MAX), &load));
        }
        synced.extend(drive_and_cut(app.start(), random.below(REPLIES_BEFORE_CUT_MAX), &load, &disk));
    }
    synced.retain(|n| n % 3 != 1);
    app.settle();
    assert!(synced.len() as u64 > cuts * 50, "{} acknowledged", synced.len());
    check_kept(&app, &synced, &load);
    println!("{} acknowledged as synced, {cuts} power cuts on {kind}", synced.len());
}

/// Drives a server, cuts the power after some replies, and returns what was acknowledged.
fn drive_and_cut(server: Running, replies: u64, load: &Arc<Load>, disk: &Disk) -> Vec<u64> {
    let enough = load.answered.load(Ordering::Relaxed) + replies;
    let is_over = Arc::new(AtomicBool::new(false));
    let drivers: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (address, load, is_over) = (server.address(), load.clone(), is_over.clone());
            thread::spawn(move || drive(address, 1 << client, &load, &is_over))
        })
        .collect();
    eventually("enough replies", || (load.answered.load(Ordering::Relaxed) >= enough).then_some(()));
    is_over.store(!disk.is_cut_at_once(), Ordering::SeqCst);
    disk.cut_power();
    let (status, log) = server.wait();
    assert!(!status.success(), "a log that failed is no good end: {log}");
    let acknowledged = drivers.into_iter().flat_map(|driver| driver.join().unwrap()).collect();
    disk.come_back();
    acknowledged
}

/// Sends requests, `depth` at once, until one is refused or the server is gone; returns what was acknowledged before
/// it was over.
fn drive(address: SocketAddr, depth: u64, load: &Load, is_over: &AtomicBool) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    let Some(mut client) = Client::try_connect(address) else { return acknowledged };
    loop {
        let batch: Vec<_> = (0..depth).map(|_| load.numbers.fetch_add(1, Ordering::Relaxed)).collect();
        if !client.send(&batch.iter().map(|n| request(*n)).collect::<String>()) {
            return acknowledged;
        }
        for n in batch {
            let Some(reply) = client.reply() else { return acknowledged };
            if reply.status == 503 {
                assert!(matches!(reply.field("tollgate-outcome"), Some("refused" | "unknown")), "{reply:?}");
                return acknowledged;
            }
            assert!(reply.is_success(), "{reply:?}");
            if !is_over.load(Ordering::SeqCst) {
                acknowledged.push(n);
            }
            load.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}
