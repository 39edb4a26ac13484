//! Tests all workloads of up to three operations, a crash at every point of each, and every disk that the
//! crash may leave.
//!
//! No case is random. A test that passes therefore proves its property for all of these cases.

use crate::crash::operations;
use crate::sim::Sim;
use crate::workload::Step::{Close, Seal, Sync, Take, Write};
use crate::workload::{Driver, Law, RUNWAYS, Step, mend, try_mend};

const OPERATIONS: [Step; 5] = [Write(2), Take, Sync, Close, Seal];

/// Returns all workloads of one to `longest` operations.
pub(crate) fn workloads(longest: usize) -> Vec<Vec<Step>> {
    let mut all = vec![Vec::new()];
    let mut begun = 0;
    for _ in 0..longest {
        let end = all.len();
        for index in begun..end {
            all.extend(OPERATIONS.map(|step| [all[index].as_slice(), &[step]].concat()));
        }
        begun = end;
    }
    all.split_off(1)
}

/// Calls `check` with every disk that a crash at any point of any of the workloads may leave.
pub(crate) fn after_every_crash(
    workloads: &[Vec<Step>],
    runways: &[usize],
    check: impl Fn(&Sim, &Law, &str),
) -> usize {
    let mut disks = 0;
    for (steps, runway) in
        workloads.iter().flat_map(|steps| runways.iter().map(move |runway| (steps, *runway)))
    {
        for count in 0..=operations(steps, runway) {
            let sim = Sim::new();
            let mut driver = Driver::with_runway(&sim, runway);
            sim.crash_after(count);
            let _ = driver.run(steps);
            let law = driver.law.clone();
            drop(driver);
            let context = format!("{steps:?}, runway {runway}, {count} operations");
            for disk in sim.every_power_cut().into_iter().chain([sim.restart()]) {
                check(&disk, &law, &context);
                disks += 1;
            }
        }
    }
    disks
}

#[test]
fn a_crash_of_three_operations_leaves_a_gap_free_prefix_with_all_acknowledged() {
    let workloads = workloads(3);
    assert_eq!(workloads.len(), 5 + 25 + 125);
    let disks = after_every_crash(&workloads, &RUNWAYS, |sim, law, context| {
        law.check(sim, &mend(sim), context);
    });
    assert!(disks > 10_000, "{disks} disks");
}

#[test]
fn a_recovery_leaves_the_same_after_any_crash_of_the_recovery_before_it() {
    after_every_crash(&workloads(3), &RUNWAYS[1..], |sim, law, context| {
        let whole = sim.restart();
        mend(&whole);
        for count in 0..whole.calls().len() {
            let sim = sim.restart();
            sim.crash_after(count);
            let _ = try_mend(&sim);
            for disk in sim.every_power_cut().into_iter().chain([sim.restart()]) {
                law.check(&disk, &mend(&disk), &format!("{context}, then {count} of recovery"));
            }
        }
    });
}
