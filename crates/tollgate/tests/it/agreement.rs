//! Random loads, stalls and restarts of a server and of its database. After each step, the status, the
//! metrics and the audit report the same numbers. The database has these rows, and the client had these
//! replies.
//!
//! `TOLLGATE_STEPS` sets the number of steps, and `TOLLGATE_SEED` the steps. `make agreement` runs 500 steps.

mod client;
mod figures;
mod trial;

use std::time::Instant;

use crate::crash::{Random, seed};
use crate::database_faults::Database;
use trial::{Step, Trial};

/// Steps in a run of all tests.
const STEPS: u64 = 20;

fn steps() -> u64 {
    std::env::var("TOLLGATE_STEPS").map_or(STEPS, |steps| steps.parse().unwrap())
}

fn check_agreement(database: &Database) {
    let mut random = Random(seed());
    let mut trial = Trial::start(database);
    let begun = Instant::now();
    for number in 0..steps() {
        let step = Step::draw(&mut random, database.is_sqlite());
        println!("{:.1} s, step {number}: {step:?}", begun.elapsed().as_secs_f64());
        trial.take(step, &mut random);
        trial.check();
    }
    trial.take(Step::EndStall, &mut random);
    trial.check();
    trial.end();
}

#[test]
fn status_metrics_and_audit_agree_after_each_fault_with_sqlite() {
    check_agreement(&Database::Sqlite);
}

#[test]
fn status_metrics_and_audit_agree_after_each_fault_with_postgresql() {
    check_agreement(&Database::postgres());
}
