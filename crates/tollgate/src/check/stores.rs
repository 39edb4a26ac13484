//! `tollgate check --store`: whether the stores of a configuration answer, and whether they create each
//! object once.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use tollgate_log::join_chain;
use tollgate_ship::probe_store;

use crate::config::{Config, ShipConfig};
use crate::print::to_stdout;
use crate::ships::open_store;

/// Checks the store of each ship target, and prints the result. The exit code is 1 if a store does not
/// answer.
pub(crate) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let mut is_well = true;
    let lines: Vec<_> = config
        .ships
        .iter()
        .map(|ship| {
            let result = check(ship);
            is_well &= result.is_ok();
            match result {
                Ok(text) => format!("ship {}: store {ship}: {text}", ship.name),
                Err(error) => format!("ship {}: store {ship} cannot be used: {error:#}", ship.name),
            }
        })
        .collect();
    to_stdout(|out| {
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if lines.is_empty() {
            writeln!(out, "no [ship.NAME]: no store to check")?;
        }
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn check(ship: &ShipConfig) -> anyhow::Result<String> {
    let store = open_store(ship)?;
    let folder = ProbeFolder::make()?;
    let report = probe_store(&*store, &folder.0).map_err(|error| anyhow::anyhow!(join_chain(&error)))?;
    let mut text = format!("conditional create: {}", report.conditional_create);
    if !report.undeleted.is_empty() {
        let names = report.undeleted.join(", ");
        text.push_str(&format!("; objects of the check that may be deleted by hand: {names}"));
    }
    Ok(text)
}

/// A folder for the files of one check, removed at its end.
struct ProbeFolder(PathBuf);

impl ProbeFolder {
    fn make() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("tollgate-check-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for ProbeFolder {
    fn drop(&mut self) {
        // A folder that stays costs some bytes.
        drop(fs::remove_dir_all(&self.0));
    }
}
