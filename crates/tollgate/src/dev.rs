//! `tollgate serve --dev`: reloads the configuration when a file of it changes, and shows errors to clients.
//!
//! The errors show source code. A server with `--dev` therefore listens only on loopback addresses. Other
//! addresses are refused. Unix sockets are also refused, because proxies forward requests of other machines
//! to them. The option `--dev-anywhere` allows all addresses.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::Context;
use tollgate_server::{BoundAddress, Dev};

use crate::cli::ServeCommand;
use crate::config::Config;
use crate::event::Event;
use crate::watch::{Watch, Watched};

/// Begins to watch the files of the configuration, if the start has `--dev`. Reads them again after the watch
/// began, so that no change is missed.
///
/// # Errors
/// The system allows no watch, or a file changed before the watch began and is faulty now.
pub(crate) fn watch(command: &ServeCommand, config: &mut Config) -> anyhow::Result<Option<Watch>> {
    if !command.dev {
        return Ok(None);
    }
    let mut watch = Watch::new()?;
    watch.look_at(&Watched::of(&command.config, config));
    *config = command.load()?;
    config.server.dev = Some(Dev::default());
    Ok(Some(watch))
}

/// Returns a refusal if an address is open to other machines or to proxies.
pub(crate) fn refusal(command: &ServeCommand, addresses: &[BoundAddress]) -> Option<String> {
    if !command.dev || command.dev_anywhere {
        return None;
    }
    let is_local = |address: &BoundAddress| address.tcp().is_some_and(|address| address.ip().is_loopback());
    let open = addresses.iter().find(|address| !is_local(address))?;
    Some(format!(
        "--dev shows source code to every client, and {open} is not a loopback address: listen on 127.0.0.1 \
         (--listen 127.0.0.1:8080), or add --dev-anywhere"
    ))
}

/// Asks for a reload after each change, one at a time.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn follow(
    mut watch: Watch,
    command: &ServeCommand,
    config: &Config,
    teller: Sender<Event>,
) -> anyhow::Result<()> {
    let mut watched = Watched::of(&command.config, config);
    let follow = move || {
        let mut is_due = watch.look_at(&watched);
        loop {
            if !is_due {
                watch.wait();
                // A new folder is watched before it is read, so that no later change is missed.
                watch.look_at(&watched);
            }
            let (sender, reloaded) = channel();
            if teller.send(Event::Changed(sender)).is_err() {
                return;
            }
            // A server that stops does not reload.
            let Ok(now) = reloaded.recv() else { return };
            watched = now;
            is_due = watch.look_at(&watched);
        }
    };
    thread::Builder::new()
        .name("watch".to_owned())
        .spawn(follow)
        .context("cannot start the thread that watches files")?;
    Ok(())
}
