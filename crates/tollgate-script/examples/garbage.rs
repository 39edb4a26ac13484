//! Measures the cost of garbage collection for a call, with several settings of the collector:
//! `cargo run --release -p tollgate-script --example garbage`.
//!
//! Each call creates 200 small tables, a string for each and some closures, and drops them. In addition the
//! VM keeps nothing, 50 MiB of small tables, or a list with a million items. Calls run one after another, so
//! no figure includes a wait.

mod request;

use std::error::Error;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollgate_script::{Collector, Host, HostOptions, RecordFields, Step};

use crate::request::request;

/// The script that `bench/study.py garbage` serves.
const GARBAGE: &str = include_str!("../../../bench/studies/garbage.luau");

/// Name of the data that the VM keeps, and the code that creates this data.
const KEPT: [(&str, &str); 3] = [
    ("nothing", ""),
    (
        "50 MiB of small tables",
        "local kept = {} for i = 1, 1000 do kept[i] = {} for j = 1, 400 do kept[i][j] = { j, i } end end",
    ),
    (
        "a list of a million",
        "local kept = {} for i = 1, 1000000 do kept[i] = i end for i = 1, 10 do kept[-i] = {} end",
    ),
];

const SETTINGS: [(u16, u16, u16); 9] = [
    (200, 200, 1),
    (150, 200, 1),
    (120, 300, 1),
    (300, 200, 1),
    (400, 200, 1),
    (200, 400, 1),
    (200, 200, 4),
    (200, 200, 16),
    (200, 200, 64),
];
const CALLS: usize = 60_000;

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "| kept | goal, % | step, % | step, KiB | a call, us | p50 | p99 | p99.9 | p99.99 | slowest | VM, MiB |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (name, make) in KEPT {
        for (goal, step_multiplier, step_kib) in SETTINGS {
            measure(name, make, Collector { goal, step_multiplier, step_kib })?;
        }
    }
    Ok(())
}

fn measure(name: &str, make: &str, collector: Collector) -> Result<(), Box<dyn Error>> {
    let folder = TempDir::new()?;
    let file = folder.path().join("main.luau");
    let touch = if make.is_empty() { "" } else { "local _ = kept" };
    let garbage = GARBAGE.replacen("function(req)", &format!("function(req) {touch}"), 1);
    std::fs::write(&file, format!("{make}\n{garbage}"))?;
    let options = HostOptions {
        cpu_budget: Duration::from_secs(5),
        slice: Duration::from_secs(5),
        memory_bytes_max: 128 << 20,
        vm_bytes_max: 1 << 30,
        collector,
        ..HostOptions::default()
    };
    let host = Host::new(options)?;
    let handler = host.load(&file, folder.path(), &RecordFields::default())?;
    let request = request("GET / HTTP/1.1\r\nHost: test\r\n\r\n", "")?;
    let mut took = Vec::with_capacity(CALLS);
    let (mut bytes_max, mut all) = (0, Duration::ZERO);
    for turn in 0..CALLS * 2 {
        let begun = Instant::now();
        let step = handler.call(request.clone()).resume();
        let one = begun.elapsed();
        if !matches!(step, Step::Done(Ok(_))) {
            return Err(format!("{step:?}").into());
        }
        // The first half of the calls warms up the VM and is not measured.
        if turn >= CALLS {
            bytes_max = bytes_max.max(host.memory_bytes());
            all += one;
            took.push(one);
        }
    }
    took.sort();
    let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
    let at = |share: f64| us(took[((took.len() - 1) as f64 * share) as usize]);
    let Collector { goal, step_multiplier, step_kib } = collector;
    println!(
        "| {name} | {goal} | {step_multiplier} | {step_kib} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {:.1} |",
        us(all) / took.len() as f64,
        at(0.5),
        at(0.99),
        at(0.999),
        at(0.9999),
        at(1.0),
        bytes_max as f64 / 1_048_576.0
    );
    Ok(())
}
