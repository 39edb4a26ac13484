//! `tollgate check --sinks`: whether the streams fit the tables that exist, and the log of a running server.
//! A start or a reload refuses streams that do not fit.

use std::sync::Arc;

use tollgate_log::{DiskStorage, Schema, join_chain, scan_segment, segments};

use crate::config::{Config, Fault};
use crate::control::ask;
use crate::retyped::retyped;

/// The result of the check.
#[derive(Debug, Default)]
pub(crate) struct SinkChecks {
    /// The reasons why a start or a reload would refuse the configuration.
    pub(crate) faults: Vec<String>,
    /// The sinks that could not be checked, and why.
    pub(crate) failed: Vec<String>,
}

/// Compares the streams with the table of each sink and with the log.
pub(crate) fn run(config: &Config) -> SinkChecks {
    let mut checks = SinkChecks::default();
    for sink in &config.sinks {
        let name = sink.name();
        match sink.options.check() {
            Ok(()) => {}
            Err(error) if error.is_of_configuration() => {
                let fault = Fault::of_file(&config.source, format!("sink {name}: {error}"));
                checks.faults.push(fault.to_string());
            }
            Err(error) => {
                checks.failed.push(format!("sink {name} cannot be checked: {}", join_chain(&error)));
            }
        }
    }
    checks.faults.extend(retyped(config, &schemas_of_server(config)));
    checks
}

/// Returns the schemas in the last segment of a running server, in the order of their numbers. Without a
/// server there are none, because a start begins a new log.
fn schemas_of_server(config: &Config) -> Vec<Arc<Schema>> {
    let dir = &config.log.dir;
    let Ok(watermark) = ask(dir) else { return Vec::new() };
    let last = segments(&DiskStorage, dir, watermark.log).ok().and_then(|mut all| all.pop());
    let scan = last.and_then(|(_, path)| scan_segment(&DiskStorage, &path).ok());
    let mut schemas = scan.map(|scan| scan.schemas).unwrap_or_default();
    schemas.sort_unstable_by_key(|(id, _)| *id);
    schemas.into_iter().map(|(_, schema)| schema).collect()
}
