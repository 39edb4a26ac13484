//! `tollgate cert`: lists certificates, renews them, and makes one for development.

use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use serde_json::Value;
use tollgate_acme::{CertificateReport, reports, request_orders};

use crate::acme::{NO_ACME, chosen, now};
use crate::cli::CertCommand;
use crate::config::{Config, denial};
use crate::control::{Reloaded, Silence, ask_renew, ask_status};
use crate::local_tls;
use crate::print::{note, printable, table, to_stdout, write_table};
use crate::status::unanswered;
use crate::wall::rfc3339;

/// Time that `renew` waits for the orders of the server. One order takes about two seconds.
const RENEW_TIMEOUT: Duration = Duration::from_mins(5);
/// Pause between two questions for the state of the orders.
const PAUSE: Duration = Duration::from_millis(200);
/// The port of the example.
const PORT: u16 = 8443;

/// Runs a command on certificates.
pub(crate) fn run(command: CertCommand) -> anyhow::Result<ExitCode> {
    match command {
        CertCommand::Ls { config } => list(&Config::load(&config)?),
        CertCommand::Renew { name, config } => renew(&config, name.as_deref()),
        CertCommand::Local { names, config } => local(&config, &names),
    }
}

fn list(config: &Config) -> anyhow::Result<ExitCode> {
    let now = now();
    let mut table = table(&["names", "state", "issuer", "expires", "source", "next order"]);
    let tls = config.server.tls.as_ref();
    let files = tls.iter().flat_map(|tls| tls.options().certificates.iter().zip(tls.certificates()));
    for (files, certificate) in files {
        let facts = certificate.facts();
        let names: Vec<_> =
            facts.names.iter().map(|name| name.split_once(':').map_or(&**name, |name| name.1)).collect();
        let state = if facts.not_after <= now { "expired" } else { "valid" };
        table.add_row([
            printable(&names.join(" ")),
            state.to_owned(),
            printable(&facts.issuer),
            rfc3339(facts.not_after),
            files.certificate.display().to_string(),
            "-".to_owned(),
        ]);
    }
    // A folder that cannot be searched would look like a folder without certificates.
    if let Some(refusal) = config.acme.as_ref().and_then(|acme| denial(&acme.options.folder.join("."))) {
        bail!(refusal);
    }
    let ordered = config.acme.iter().flat_map(|acme| reports(&acme.options, now)).collect::<Vec<_>>();
    for CertificateReport { name, state, facts, next_order, .. } in &ordered {
        let facts = facts.as_ref();
        table.add_row([
            name.clone(),
            state.name().to_owned(),
            facts.map_or_else(|| "-".to_owned(), |facts| printable(&facts.issuer)),
            facts.map_or_else(|| "-".to_owned(), |facts| rfc3339(facts.not_after)),
            "acme".to_owned(),
            if *next_order <= now { "now".to_owned() } else { rfc3339(*next_order) },
        ]);
    }
    to_stdout(|out| {
        write_table(out, &mut table)?;
        out.flush()?;
        for CertificateReport { name, reason, .. } in &ordered {
            reason
                .iter()
                .for_each(|reason| note(&printable(&format!("{name}: the last order failed: {reason}"))));
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn renew(path: &Path, name: Option<&str>) -> anyhow::Result<ExitCode> {
    let config = Config::load(path)?;
    let Some(acme) = &config.acme else { bail!("{NO_ACME}") };
    let dir = &config.log.dir;
    let names = match ask_renew(dir, name) {
        Ok(Reloaded { code: 0, text }) => text.lines().map(str::to_owned).collect::<Vec<_>>(),
        Ok(Reloaded { code, text }) => {
            note(&text);
            return Ok(ExitCode::from(code));
        }
        Err(Silence::Absent) => {
            let names = chosen(&config, name).map_err(|text| anyhow!(text))?;
            request_orders(&acme.options, &names)?;
            return to_stdout(|out| {
                names.iter().try_for_each(|name| {
                    writeln!(out, "{name}: no server runs, so the next start orders it")
                })?;
                Ok(ExitCode::SUCCESS)
            });
        }
        Err(silence) => return Err(unanswered(path, dir, &silence)),
    };
    let status = wait_for(dir, &names).map_err(|silence| unanswered(path, dir, &silence))?;
    let source = status["config"]["source"].as_str().unwrap_or_default();
    note(&printable(&format!("the server of {source}, process {}, answered", status["process_id"])));
    let done = of_names(&status, &names);
    to_stdout(|out| {
        let mut is_complete = true;
        for certificate in &done {
            let text = |key: &str| certificate[key].as_str().map(printable);
            let name = text("name").unwrap_or_default();
            match (certificate["requested"] == true, text("reason")) {
                (true, _) => writeln!(out, "{name}: the order still runs")?,
                (false, Some(reason)) => writeln!(out, "{name}: {reason}")?,
                (false, None) => {
                    writeln!(out, "{name}: renewed, expires {}", text("expires_at").unwrap_or_default())?;
                    continue;
                }
            }
            is_complete = false;
        }
        Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Waits until the server has done the orders of these names. Returns its status.
fn wait_for(dir: &Path, names: &[String]) -> Result<Value, Silence> {
    let begun = Instant::now();
    loop {
        let status: Value = ask_status(dir)?.parse().unwrap_or_default();
        let is_done = of_names(&status, names).iter().all(|certificate| certificate["requested"] == false);
        if is_done || begun.elapsed() > RENEW_TIMEOUT {
            return Ok(status);
        }
        thread::sleep(PAUSE);
    }
}

/// Returns the certificates of these names in a status.
fn of_names(status: &Value, names: &[String]) -> Vec<Value> {
    let is_one = |certificate: &&Value| names.iter().any(|name| certificate["name"] == name.as_str());
    status["certificates"].as_array().into_iter().flatten().filter(is_one).cloned().collect()
}

fn local(config: &Path, names: &[String]) -> anyhow::Result<ExitCode> {
    let made = local_tls::certificate(config, names)?;
    to_stdout(|out| {
        writeln!(out, "# authority for clients: {}", made.authority.display())?;
        writeln!(out, "[server]\nlisten = [{{ address = \"127.0.0.1:{PORT}\", tls = true }}]\n")?;
        writeln!(out, "[[certificate]]")?;
        writeln!(
            out,
            "file = {:?}\nkey_file = {:?}\n",
            made.certificate.display().to_string(),
            made.key.display().to_string()
        )?;
        writeln!(out, "# {}", local_tls::try_line(&made, PORT))?;
        Ok(ExitCode::SUCCESS)
    })
}
