//! `tollgate ship cost` and `tollgate ship policy`: what the stores of a configuration cost in a month, and
//! which rights their machines need.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{bail, ensure};
use tollgate_log::{DiskStorage, LogOptions, SegmentState, log_ids, segments};
use tollgate_ship::{
    FetchTuning, NodeName, StorePrices, StoreRetain, StoreRole, StoreService, StoreUse, month_cost, s3_policy,
};

use crate::config::{Config, ShipConfig, StorePlace};
use crate::print::to_stdout;

/// Prints what each object store costs in a month, at the rate of the present log.
pub(crate) fn cost(config: &Config) -> anyhow::Result<ExitCode> {
    let stores: Vec<_> = config.ships.iter().filter(|ship| ship.folders().is_empty()).collect();
    ensure!(!stores.is_empty(), "no [ship.NAME] has an object store: a folder has no price");
    let bytes_per_second = rate(&config.log);
    to_stdout(|out| {
        writeln!(out, "rate of the sealed segments: {bytes_per_second:.0} bytes/s")?;
        for ship in &stores {
            write_cost(out, ship, &config.log, bytes_per_second)?;
        }
        writeln!(out, "prices: S3 Standard, us-east-1, November 2026, without transfer and taxes")?;
        Ok(ExitCode::SUCCESS)
    })
}

fn write_cost(out: &mut dyn Write, ship: &ShipConfig, log: &LogOptions, rate: f64) -> io::Result<()> {
    let load = FetchTuning::default();
    let store = StoreUse {
        bytes_per_second: rate,
        segment_bytes_max: log.segment_bytes_max,
        segment_age_max: log.segment_age_max,
        heartbeat: ship.heartbeat,
        poll: ship.poll,
        sinks: 1,
        load_poll: load.poll,
        answer: load.answer,
        retain: StoreRetain::default().age.unwrap_or_default(),
    };
    let cost = month_cost(&store, &StorePrices::default());
    writeln!(
        out,
        "{} ({ship}): {:.2} dollars a month: {:.0} segments, {:.0} calls that write or list, {:.0} that read, \
         {:.1} GB kept",
        ship.name,
        cost.dollars,
        cost.segments,
        cost.writes,
        cost.reads,
        cost.stored_bytes / 1e9
    )
}

/// Returns the bytes of sealed segments in a second, by the times of their files. Zero with fewer than two.
fn rate(log: &LogOptions) -> f64 {
    let mut files: Vec<(SystemTime, u64)> = Vec::new();
    for id in log_ids(&DiskStorage, &log.dir).unwrap_or_default() {
        for (name, path) in segments(&DiskStorage, &log.dir, id).unwrap_or_default() {
            if name.state == SegmentState::Sealed
                && let Ok(found) = fs::metadata(&path)
                && let Ok(at) = found.modified()
            {
                files.push((at, found.len()));
            }
        }
    }
    files.sort_unstable();
    let (Some((first, _)), Some((last, _))) = (files.first(), files.last()) else { return 0.0 };
    let span = last.duration_since(*first).unwrap_or_default();
    // The first segment was filled before the span began.
    let bytes: u64 = files.iter().skip(1).map(|(_, bytes)| bytes).sum();
    if span > Duration::ZERO { bytes as f64 / span.as_secs_f64() } else { 0.0 }
}

/// Prints the policy of this machine for each S3 store, or the policy of a machine that loads.
pub(crate) fn policy(config: &Config, is_to_load: bool) -> anyhow::Result<ExitCode> {
    let Some(node) = NodeName::encode(&config.log.node) else {
        bail!("node in [log] is empty: name this machine")
    };
    let role = if is_to_load { StoreRole::Load } else { StoreRole::Ship(&node) };
    let mut policies = Vec::new();
    for ship in &config.ships {
        let StorePlace::Objects(objects) = &ship.place else { continue };
        let place = &objects.options.place;
        ensure!(
            place.service == StoreService::S3,
            "[ship.{}] has store {ship}: policies are for s3://",
            ship.name
        );
        let prefix = if place.prefix.is_empty() { String::new() } else { format!("{}/", place.prefix) };
        policies.push(s3_policy(&place.bucket, &prefix, role));
    }
    ensure!(!policies.is_empty(), "no [ship.NAME] has an s3:// store: only these have policies");
    to_stdout(|out| {
        policies.iter().try_for_each(|policy| write!(out, "{policy}"))?;
        Ok(ExitCode::SUCCESS)
    })
}
