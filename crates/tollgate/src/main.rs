//! The program: command line, configuration, wiring.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.

mod access_log;
mod acme;
mod admin;
mod audit;
mod auth;
mod board;
mod cert;
mod certificate_watch;
mod certificates;
mod check;
mod cli;
mod colour;
mod common_log;
mod config;
mod control;
mod descriptors;
mod destinations;
mod dev;
mod event;
mod leases;
mod load;
mod load_end;
mod load_from;
mod load_report;
mod load_topics;
mod loader;
mod local_tls;
mod log;
mod manual;
mod new;
mod notify;
mod observe;
mod orders;
mod otlp;
mod panic;
mod print;
mod progress;
mod reload;
mod retyped;
mod serve;
mod ship;
mod ship_plan;
mod ship_volumes;
mod ships;
mod sinks;
mod sql;
mod status;
mod store;
mod sys;
mod temporary;
mod test;
mod tracing_lines;
mod types;
mod upgrade;
mod version;
mod wall;
mod watch;

use std::process::ExitCode;

use check::SinkChecks;
use cli::{
    CheckCommand, Command, NewCommand, SqlCommand, StatusCommand, TestCommand, UpgradeCommand, WrongUsage,
};
use config::{Config, ConfigError, UnknownSink};
use log::UnknownStream;
use print::{fault, problem};
use status::{CodeOf, Shown};

fn main() -> ExitCode {
    let code = run(cli::read().command).unwrap_or_else(|error| report_error(&error));
    tracing_lines::finish();
    code
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(command) => serve::run(command),
        Command::Reload { config } => orders::reload(&config),
        Command::Upgrade(UpgradeCommand { program, config }) => orders::upgrade(program.as_deref(), &config),
        Command::Check(command) => run_check(command),
        Command::Test(TestCommand { config, filter, watch: false }) => test::run(&config, &filter),
        Command::Test(TestCommand { config, filter, watch: true }) => test::run_watching(&config, &filter),
        Command::New(NewCommand { folder, kind }) => new::run(&folder, kind.kind()),
        Command::Load(command) => load::run(&command),
        Command::Ship(command) => ship::run(&command),
        Command::Log(command) => log::run(command),
        Command::Sql(SqlCommand { statement, sink, config, format }) => {
            sql::run(&Config::load(&config)?, sink.as_deref(), &statement, format)
        }
        Command::Status(command) => run_status(&command),
        Command::Audit(command) => audit::run(&command),
        Command::Auth(command) => auth::run(command),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::pages(&folder),
        Command::Cert(command) => cert::run(command),
    }
}

fn run_check(command: CheckCommand) -> anyhow::Result<ExitCode> {
    let CheckCommand { config: path, print, types, store, sinks, sample, sample_arguments } = command;
    let mut config = Config::load_to_serve(&path)?;
    if let Some(file) = sample {
        return check::sample(&config, &file, sample_arguments);
    }
    if store {
        return check::stores(&config);
    }
    let faults = if types { types::faults(&path, &config)? } else { Vec::new() };
    let sinks = if sinks { check::sinks(&config) } else { SinkChecks::default() };
    check::run(&mut config, faults, sinks, print)
}

fn run_status(command: &StatusCommand) -> anyhow::Result<ExitCode> {
    let StatusCommand { config, watch, web, port, json, exit_code } = command;
    if *watch {
        return status::watch(config);
    }
    if *web {
        return status::web::serve(config, *port);
    }
    let shown = if *json { Shown::Json } else { Shown::Screen };
    if !exit_code {
        return status::run(config, shown, CodeOf::Command);
    }
    Ok(status::run(config, shown, CodeOf::Server).unwrap_or_else(|error| {
        report_error(&error);
        ExitCode::from(status::UNANSWERED)
    }))
}

/// Writes an error to stderr. Faults of a configuration begin with their place, as editors expect.
fn report_error(error: &anyhow::Error) -> ExitCode {
    if let Some(error) = error.downcast_ref::<ConfigError>() {
        let faults = error.faults.iter().map(|error| format!("{}\n", fault(&error.to_string())));
        tracing_lines::write(faults.collect::<String>().as_bytes());
        return ExitCode::from(2);
    }
    problem(&format!("{error:#}"));
    let is_usage = error.is::<WrongUsage>() || error.is::<UnknownSink>() || error.is::<UnknownStream>();
    ExitCode::from(if is_usage { 2 } else { 1 })
}
