//! `tollgate ship`: copies sealed segments to a store once, with or without a server.
//!
//! The folder of the log is only read. A running server may seal and delete segments meanwhile.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use tollgate_log::{DiskStorage, log_ids};
use tollgate_ship::{NodeName, OnceOutcome, Sent, ShipOnce, ship_once};

use crate::cli::{ShipCommand, ShipPlan, WrongUsage};
use crate::config::{Config, ConfigError, Fault, denial, unfit_folder, unfit_log};
use crate::load::print_unsealed;
use crate::print::{counted, to_stdout};
use crate::progress::Progress;
use crate::ship_plan;
use crate::ship_volumes;
use crate::store::open_store;

/// Prints what the stores of a configuration mean, or ships once.
pub(crate) fn run(command: &ShipCommand) -> anyhow::Result<ExitCode> {
    match &command.plan {
        Some(ShipPlan::Volume(command)) => ship_volumes::run(command),
        Some(ShipPlan::Cost { config }) => ship_plan::cost(&Config::load(config)?),
        Some(ShipPlan::Policy { config, load }) => ship_plan::policy(&Config::load(config)?, *load),
        None => ship(command),
    }
}

/// Ships all sealed segments, and prints each with its result.
fn ship(command: &ShipCommand) -> anyhow::Result<ExitCode> {
    let config = Config::load(&command.config)?;
    let to = command.to.as_deref().ok_or(WrongUsage("--to is missing: name the folder or the store"))?;
    let node = check(&config, to)?;
    let dir = &config.log.dir;
    if let Some(refusal) = denial(dir) {
        bail!(refusal);
    }
    if !dir.is_dir() {
        bail!("{} is no folder: nothing was recorded yet", dir.display());
    }
    let store = open_store(to, &command.store)?;
    let mut sum = Sum::default();
    let mut shipped = Ok(());
    to_stdout(|out| {
        let logs = log_ids(&DiskStorage, dir).unwrap_or_default();
        let _progress = Progress::of_logs("ship", dir, &logs, 1);
        // A reader that closes the pipe does not end the shipping.
        let report = |visited: &ShipOnce| {
            sum.add(visited);
            drop(writeln!(out, "{}", line(visited)).and_then(|()| out.flush()));
        };
        shipped = ship_once(&DiskStorage, dir, &node, &*store, command.dry_run, report);
        writeln!(out, "{}", sum.line(command.dry_run))?;
        Ok(ExitCode::SUCCESS)
    })?;
    shipped?;
    print_unsealed(dir);
    Ok(if sum.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks that the log can be shipped to this folder. Returns the name of this machine.
fn check(config: &Config, to: &str) -> Result<NodeName, ConfigError> {
    let mut problems = unfit_log(&config.log);
    problems.extend(unfit_folder(Path::new(to), &config.log).map(|problem| format!("--to is {problem}")));
    match NodeName::encode(&config.log.node) {
        Some(node) if problems.is_empty() => Ok(node),
        _ => {
            let faults = problems.into_iter().map(|problem| Fault::of_file(&config.source, problem));
            Err(ConfigError { faults: faults.collect() })
        }
    }
}

fn line(visited: &ShipOnce) -> String {
    let ShipOnce { name, bytes, outcome } = visited;
    let result = match outcome {
        OnceOutcome::Sent(Sent::Stored) => "stored",
        OnceOutcome::Sent(Sent::Present) => "present",
        OnceOutcome::Sent(Sent::Forked { found }) => {
            return format!("forked   {name}  the store has another segment of this name: {found}");
        }
        OnceOutcome::Lacking => "lacking",
        OnceOutcome::Unsound => return format!("unsound  {name}  the file has no valid footer"),
    };
    format!("{result:<8} {name}  {bytes} bytes")
}

/// The counts of all visited segments.
#[derive(Debug, Default)]
struct Sum {
    /// Segments that were sent, or would be sent, and their bytes.
    sent: (u64, u64),
    present: u64,
    forked: u64,
    unsound: u64,
}

impl Sum {
    fn add(&mut self, visited: &ShipOnce) {
        match &visited.outcome {
            OnceOutcome::Sent(Sent::Stored) | OnceOutcome::Lacking => {
                self.sent.0 += 1;
                self.sent.1 += visited.bytes;
            }
            OnceOutcome::Sent(Sent::Present) => self.present += 1,
            OnceOutcome::Sent(Sent::Forked { .. }) => self.forked += 1,
            OnceOutcome::Unsound => self.unsound += 1,
        }
    }

    fn line(&self, is_dry_run: bool) -> String {
        let Self { sent: (count, bytes), present, forked, unsound } = self;
        let (segments, verb) = (counted(*count, "segment"), if is_dry_run { "lacking" } else { "stored" });
        format!("{segments} {verb} ({bytes} bytes), {present} present, {forked} forked, {unsound} unsound")
    }

    /// Whether the store has, or would have, every sealed segment.
    const fn is_well(&self) -> bool {
        self.forked == 0 && self.unsound == 0
    }
}
