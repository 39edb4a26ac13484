//! Tests of random runs. Each run starts on the disk that the previous run left. The records on the disk are
//! compared with the appended ones.

use proptest::prelude::*;
use tollgate_log::{SegmentDigestAlgorithm, SegmentState, verify_segment};

use crate::sim::Sim;
use crate::workload::{Driver, Law, Step, mend, read, segments_of, try_mend};

/// One process run: its steps, the count of operations after which the run ends, and the kind of its end.
#[derive(Debug, Clone)]
struct Run {
    steps: Vec<Step>,
    runway: usize,
    crash_after: usize,
    /// Seed of a power cut. `None`: only the process ended.
    power_cut: Option<u64>,
    /// Count of operations after which its recovery crashes and starts again.
    recovery_crash: Option<usize>,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u32..5).prop_map(Step::Write),
        1 => Just(Step::Take),
        3 => Just(Step::Sync),
        2 => Just(Step::Close),
        2 => Just(Step::Seal),
    ]
}

fn run() -> impl Strategy<Value = Run> {
    let steps = prop::collection::vec(step(), 1..25);
    let runway = prop_oneof![Just(0), 1_usize..3000];
    (steps, runway, 0_usize..90, prop::option::of(any::<u64>()), prop::option::of(0_usize..20)).prop_map(
        |(steps, runway, crash_after, power_cut, recovery_crash)| Run {
            steps,
            runway,
            crash_after,
            power_cut,
            recovery_crash,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_run_leaves_a_gap_free_prefix_with_all_that_was_acknowledged(
        runs in prop::collection::vec(run(), 1..4)
    ) {
        check(&runs);
    }
}

/// Returns the number of cases to run. `TOLLGATE_CRASH_SEEDS` sets a larger number: 2,000 mean 120,000 cases.
fn cases() -> u32 {
    let seeds = std::env::var("TOLLGATE_CRASH_SEEDS").ok().and_then(|text| text.parse::<u32>().ok());
    seeds.map_or(1000, |seeds| seeds.saturating_mul(60))
}

fn check(runs: &[Run]) {
    let mut sim = Sim::new();
    let mut dead: Vec<(Law, u64)> = Vec::new();
    for run in runs {
        let mut driver = Driver::with_runway(&sim, run.runway);
        sim.crash_after(run.crash_after);
        let _ = driver.run(&run.steps);
        let law = driver.law.clone();
        drop(driver);
        sim = after(&sim, run.power_cut);
        if let Some(count) = run.recovery_crash {
            sim.crash_after(count);
            let _ = try_mend(&sim);
            sim = after(&sim, run.power_cut);
        }
        let report = mend(&sim);
        let last = law.check(&sim, &report, "the last run");
        dead.push((law, last));
        for (law, last) in &dead {
            assert_eq!(read(&sim, law.log).last(), *last, "a dead log changed");
        }
    }
    for (law, _) in &dead {
        check_verifies(&sim, law);
    }
}

fn after(sim: &Sim, power_cut: Option<u64>) -> Sim {
    power_cut.map_or_else(|| sim.restart(), |seed| sim.power_cut(seed))
}

/// Checks that sealed segments are intact and continue each other, with their digests.
fn check_verifies(sim: &Sim, law: &Law) {
    let mut before = None;
    for (name, path) in segments_of(sim, law.log) {
        if name.state != SegmentState::Sealed {
            before = None;
            continue;
        }
        let verdict = verify_segment(sim, name, &path, before).unwrap();
        assert_eq!(verdict.problem, None, "{name}");
        before = verdict.end();
        assert_eq!(verdict.scan.footer.unwrap().digest.algorithm(), SegmentDigestAlgorithm::Sha256);
    }
}
