//! `tollgate check`: all checks of a start, without starting.

mod notes;
mod sample;
mod sinks;
mod stores;

use std::io::{self, Write};
use std::process::ExitCode;

use crate::certificates::Certificates;
use crate::colour::Marked;
use crate::config::Config;
use crate::descriptors;
use crate::print::{fault, to_stdout, to_stdout_marked};
pub(crate) use sample::run as sample;
pub(crate) use sinks::{SinkChecks, run as sinks};
pub(crate) use stores::run as stores;

/// Compiles the scripts of a configuration, and prints the configuration or a summary of it. Notes go to
/// stderr and do not change the exit code.
///
/// `type_faults` and the faults of `sinks` are reported together with the faults that are found here.
pub(crate) fn run(
    config: &mut Config,
    type_faults: Vec<String>,
    sinks: SinkChecks,
    is_printed: bool,
) -> anyhow::Result<ExitCode> {
    let mut faults = tollgate_server::check_scripts(&config.server);
    faults.extend(type_faults);
    faults.extend(sinks.faults);
    faults.extend(descriptors::fit(config, descriptors::limit()).err());
    if !faults.is_empty() {
        print_lines(&faults.iter().map(|text| fault(text)).collect::<Vec<_>>());
        return Ok(ExitCode::from(2));
    }
    print_lines(&notes::notes(config));
    print_lines(&sinks.failed);
    let code = if sinks.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if is_printed {
        return to_stdout(|out| {
            write!(out, "{config}")?;
            Ok(code)
        });
    }
    to_stdout_marked(|out| {
        writeln!(out, "{}", summary(config))?;
        let tls = config.server.tls.as_deref();
        let served = tls.map(Certificates::of).unwrap_or_default().served;
        served.iter().try_for_each(|served| writeln!(out, "{}", served.line()))?;
        Ok(code)
    })
}

fn print_lines(lines: &[String]) {
    let mut stderr = Marked::stderr(io::stderr().lock());
    // If the caller closed stderr, the exit code still reports the result.
    drop(lines.iter().try_for_each(|line| writeln!(stderr, "{line}")));
}

fn summary(config: &Config) -> String {
    let routes = counted(config.server.routes.len(), "route");
    let streams = counted(config.server.streams.len(), "stream");
    let apps = match config.mounts.len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "app")),
    };
    let (source, log) = (config.source.display(), config.log.dir.display());
    let sinks = config.sinks.iter().map(|sink| format!("sink {sink}"));
    let ships = config.ships.iter().map(|ship| format!("ship to {ship}"));
    let ends: Vec<_> = sinks.chain(ships).collect();
    format!("ok: {routes}, {streams}{apps}, log {log}, {} ({source})", ends.join(", "))
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_words() {
        assert_eq!(counted(0, "route"), "0 routes");
        assert_eq!(counted(1, "route"), "1 route");
        assert_eq!(counted(2, "route"), "2 routes");
    }
}
