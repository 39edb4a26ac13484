//! `tollgate audit`: checks that every record of the log is in the database.
//!
//! With `--store`, the records are counted across machines. The machine that wrote a log compares it with a
//! store. A machine that loads compares the store with its database. With `--kafka`, the rows in topics are
//! counted.

mod counts;
mod database;
mod finding;
mod line;
mod local;
mod report;
mod side;
mod stored;
mod topics;
mod walk;
mod web;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use tollgate_log::{DiskStorage, log_ids};
use tollgate_ship::{NodeName, Store};

use crate::cli::{AuditCommand, WrongUsage};
use crate::config::Config;
use crate::print::to_stdout_marked;
use crate::ships;
use crate::store::{SEGMENT_BYTES_MAX, open_store};
use crate::temporary::TemporaryFolder;
use report::{Report, SideAudit};
use side::Side;
use stored::AuditedStore;

/// Prints the account of this machine. The exit code is 1 if a record is missing.
pub(crate) fn run(command: &AuditCommand) -> anyhow::Result<ExitCode> {
    let config = Config::load(&command.config)?;
    if let Some(brokers) = &command.kafka {
        return topics::run(&config, brokers, command.json);
    }
    match &command.place {
        Some(place) => with_store(&config, place, command),
        None => local::run(&config, command.json),
    }
}

/// RecordCounts the records of this machine's side, or of both sides if both are here.
fn with_store(config: &Config, place: &str, command: &AuditCommand) -> anyhow::Result<ExitCode> {
    let (name, store) = open(config, place, command)?;
    let folder = TemporaryFolder::make("audit")?;
    let storage = Arc::new(DiskStorage);
    let dir = folder.path();
    let store = AuditedStore { name, store: &*store, storage, dir, bytes_max: SEGMENT_BYTES_MAX };
    let mut accounts: Vec<(Side, Option<String>, SideAudit)> = Vec::new();
    if is_web(config) {
        let node = NodeName::encode(&config.log.node).context("node in [log] is empty: name this machine")?;
        let found = web::audit(&store, &config.log.dir, &node)?;
        accounts.extend(found.into_iter().map(|(sink, account)| (Side::Web, sink, account)));
    }
    for sink in loading_sinks(config) {
        let found = database::audit(&store, &sink.options)
            .with_context(|| format!("cannot count the records of sink {}", sink.name()))?;
        accounts.push((Side::Database, Some(sink.name().to_owned()), found));
    }
    ensure!(!accounts.is_empty(), WrongUsage("this configuration has neither a log nor a sink to count"));
    print(&store.name, &accounts, command.json)
}

fn print(
    store: &str,
    accounts: &[(Side, Option<String>, SideAudit)],
    is_json: bool,
) -> anyhow::Result<ExitCode> {
    to_stdout_marked(|out| {
        for (at, (side, sink, audit)) in accounts.iter().enumerate() {
            let report = Report { side: *side, store, sink: sink.as_deref(), audit };
            if is_json {
                report.write_json(out)?;
                continue;
            }
            if at > 0 {
                writeln!(out)?;
            }
            report.write_table(out)?;
        }
        let is_well = accounts.iter().all(|(_, _, audit)| audit.is_well());
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Returns whether this machine writes a log: it ships, or it has logs.
fn is_web(config: &Config) -> bool {
    !config.ships.is_empty() || log_ids(&DiskStorage, &config.log.dir).is_ok_and(|logs| !logs.is_empty())
}

/// Returns the sinks that load from a store. The sinks of a machine that ships load its own log, and
/// `tollgate audit` without a store counts them.
fn loading_sinks(config: &Config) -> &[crate::config::SinkConfig] {
    if config.ships.is_empty() { &config.sinks } else { &[] }
}

/// Opens the store: the store of a ship target, or a place.
fn open(config: &Config, place: &str, command: &AuditCommand) -> anyhow::Result<(String, Arc<dyn Store>)> {
    match config.ships.iter().find(|ship| ship.name == place) {
        Some(ship) => {
            anyhow::ensure!(
                ship.volumes().is_none(),
                "[ship.{place}] has volumes, which are no store: name the folder of a mounted volume"
            );
            Ok((ship.to_string(), Arc::from(ships::open_store(ship, &config.log)?.store)))
        }
        None => Ok((place.to_owned(), open_store(place, &command.store)?)),
    }
}

#[cfg(test)]
mod tests;
