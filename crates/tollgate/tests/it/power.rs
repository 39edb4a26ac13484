//! Power cuts under load: each record acknowledged as synced is exactly one row. Some of the other records
//! survive too, without a gap.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::Reply;
use crate::crash::{CONFIG, Counted, Load, Random, check_kept, drive_and_kill, drive_until, seed};
use crate::disk::Disk;
use crate::program::{App, KEEP, Running};

/// Number of power cuts in a test run. `make crash` makes more cuts, and also on XFS.
const CUTS: u64 = 10;
const DISK_MEBIBYTES: u64 = 320;
/// Maximum number of requests that a run answers before the cut. The number is random.
const REPLIES_BEFORE_CUT_MAX: u64 = 2000;

#[test]
fn synced_records_survive_power_cuts_exactly_once() {
    let kind = std::env::var("TOLLGATE_DISK").unwrap_or_else(|_| "ext4".to_owned());
    let cuts = std::env::var("TOLLGATE_POWER_CUTS").map_or(CUTS, |cuts| cuts.parse().unwrap());
    let Some(disk) = Disk::new(&kind, DISK_MEBIBYTES) else { return };
    let mut random = Random(seed());
    let config = format!("drain_timeout = \"100ms\"\n{CONFIG}");
    let app = App::new_in(&disk.path(), &config, &[("keep.luau", KEEP)]);
    disk.sync();
    let load = Load::default();
    let mut synced = Vec::new();
    for _ in 0..cuts {
        if random.below(2) == 0 {
            // Records that were written and not synced are in the page cache of the next run. This run must
            // sync such records before it loads them.
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

/// Sends requests to a server, cuts the power after some replies, and returns the acknowledged numbers.
fn drive_and_cut(server: Running, replies: u64, load: &Load, disk: &Disk) -> Vec<u64> {
    let is_over = AtomicBool::new(false);
    let judge = |reply: &Reply| match reply.field("tollgate-outcome") {
        Some("unknown") if reply.status == 503 => Counted::Last,
        _ => {
            assert!(reply.is_success(), "{reply:?}");
            if is_over.load(Ordering::SeqCst) { Counted::No } else { Counted::Yes }
        }
    };
    let cut = |server: Running| {
        is_over.store(!disk.is_cut_at_once(), Ordering::SeqCst);
        disk.cut_power();
        let (status, log) = server.wait();
        assert!(!status.success(), "a log that failed is no good end: {log}");
    };
    let acknowledged = drive_until(server, replies, load, judge, cut);
    disk.come_back();
    acknowledged
}
