//! The command `tollgate-faults`: a backend or clients that misbehave, from a shell.

use std::io::{self, BufRead, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use tollgate_faults::client::{FaultyClientsError, TargetReach};
use tollgate_faults::{
    Backend, ClientFault, Fault, FaultyClients, FaultyClientsOptions, Seen, SpellingError, Tally,
};

const EXAMPLES: &str = "\
Examples:
  tollgate-faults list                                          list all faults, each with its argument
  tollgate-faults backend silent --listen 127.0.0.1:9001        reads requests and sends nothing
  tollgate-faults backend slow:200ms --listen 127.0.0.1:9001    answers after 200 ms
  tollgate-faults client slow-head --connect 127.0.0.1:8080 --count 500

A line on the standard input of a backend selects another fault: `none`, `reset`, `slow:2s`.

Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// Backends and clients that misbehave, for tests of your own services.
#[derive(Debug, Parser)]
#[command(name = "tollgate-faults", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List all faults, each with its argument
    List,
    /// Run a backend with a fault, until interrupted
    Backend(BackendCommand),
    /// Run clients with a fault against a server, until all have ended
    Client(ClientCommand),
}

#[derive(Debug, Args)]
struct BackendCommand {
    /// The fault, as `list` spells it
    fault: Fault,
    /// The address to listen on. Port 0 takes a free port
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Allow an address that other machines can reach
    #[arg(long)]
    anywhere: bool,
}

#[derive(Debug, Args)]
struct ClientCommand {
    /// The fault of each client, as `list` spells it
    fault: ClientFault,
    /// The address of the server
    #[arg(long)]
    connect: SocketAddr,
    /// The number of clients at once
    #[arg(long, default_value_t = 1)]
    count: usize,
    /// The path that the clients request
    #[arg(long, default_value = "/")]
    path: String,
    /// The address that the clients connect from
    #[arg(long)]
    from: Option<IpAddr>,
    /// Each client returns this long after its end
    #[arg(long, value_name = "PAUSE", value_parser = pause)]
    again: Option<Duration>,
    /// The time after which all clients end
    #[arg(long = "for", value_name = "TIME", value_parser = pause, default_value = "60s")]
    time: Duration,
    /// Allow a server on another machine. Only use this with your own server
    #[arg(long)]
    anywhere: bool,
}

const REPORT_PAUSE: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::List => list(),
        Command::Backend(command) => be_backend(&command),
        Command::Client(command) => be_clients(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tollgate-faults: {error:#}");
            ExitCode::from(if is_usage(&error) { 2 } else { 1 })
        }
    }
}

fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<NotLoopback>() || matches!(error.downcast_ref(), Some(FaultyClientsError::NotLoopback(_)))
}

#[derive(Debug, thiserror::Error)]
#[error("{0} can be reached from other machines: use --anywhere to allow it")]
struct NotLoopback(SocketAddr);

fn list() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for (title, list) in [("Backends", Fault::LIST), ("Clients", ClientFault::LIST)] {
        writeln!(out, "{title}:")?;
        for (spelling, summary) in list {
            writeln!(out, "  {spelling:26} {summary}")?;
        }
    }
    Ok(())
}

fn be_backend(command: &BackendCommand) -> anyhow::Result<()> {
    if !command.anywhere && !command.listen.ip().is_loopback() {
        bail!(NotLoopback(command.listen));
    }
    let backend = Backend::start_at(command.listen, command.fault.clone())
        .with_context(|| format!("cannot listen on {}", command.listen))?;
    say(format_args!("listening on {}", backend.address()))?;
    let lines = lines_of_stdin();
    let mut told = Seen::default();
    loop {
        match lines.recv_timeout(REPORT_PAUSE) {
            Ok(line) => turn(&backend, line.trim())?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(REPORT_PAUSE),
        }
        let seen = backend.seen();
        if seen != told {
            say(format_args!(
                "connections {} (open {}), requests {} (in flight {}, at most {})",
                seen.connections, seen.open, seen.requests, seen.in_flight, seen.in_flight_max
            ))?;
            told = seen;
        }
    }
}

fn turn(backend: &Backend, line: &str) -> anyhow::Result<()> {
    let fault: Result<Fault, SpellingError> = line.parse();
    match fault {
        Ok(fault) => {
            backend.turn(fault).context("cannot listen again with the new fault")?;
            say(format_args!("now {line}"))
        }
        Err(error) => {
            eprintln!("tollgate-faults: {error}");
            Ok(())
        }
    }
}

/// Returns the lines of the standard input. The backend continues after the end of the input.
fn lines_of_stdin() -> Receiver<String> {
    let (sender, lines) = mpsc::sync_channel(16);
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn be_clients(command: ClientCommand) -> anyhow::Result<()> {
    let ends = Instant::now() + command.time;
    let clients = FaultyClients::start(FaultyClientsOptions {
        fault: command.fault,
        to: command.connect,
        count: command.count,
        path: command.path,
        from: command.from,
        again_after: command.again,
        reach: if command.anywhere { TargetReach::Anywhere } else { TargetReach::Loopback },
    })?;
    let is_over = |tally: &Tally| command.again.is_none() && tally.ended() >= command.count as u64;
    let is_watched = io::stdout().is_terminal();
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        if clients.wait_until(left.min(REPORT_PAUSE), is_over).is_some() || left.is_zero() {
            return print_tally(&clients.tally());
        }
        if is_watched {
            print_tally(&clients.tally())?;
        }
    }
}

fn print_tally(tally: &Tally) -> anyhow::Result<()> {
    let statuses = tally.statuses.iter().map(|(status, count)| format!(", {status}: {count}"));
    say(format_args!(
        "connected {}, unconnected {}, open {}, closed {}, reset {}, left {}{}, longest {:.1} s",
        tally.connected,
        tally.unconnected,
        tally.open,
        tally.closed,
        tally.reset,
        tally.left,
        statuses.collect::<String>(),
        tally.open_for_max.as_secs_f64()
    ))
}

fn say(line: std::fmt::Arguments<'_>) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn pause(text: &str) -> Result<Duration, String> {
    tollgate_faults::duration(text).ok_or_else(|| "allowed is a time like 200ms, 5s, 1m".to_owned())
}
