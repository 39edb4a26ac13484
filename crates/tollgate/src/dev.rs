//! `tollgate serve --dev`: the configuration is taken anew whenever a file of it changes, and what goes wrong
//! is shown to clients.
//!
//! What is shown is source code. So a server in development listens on loopback addresses: others are
//! refused, and so are sockets that proxies use, unless the start says in so many words that anybody may see
//! it.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use anyhow::Context;
use tollgate_server::{BoundAddress, Dev};

use crate::cli::ServeCommand;
use crate::config::Config;
use crate::event::Event;
use crate::watch::{Watch, Watched};

/// Begins to watch what a start has read, if it is one in development, and reads it again: what changes
/// behind that is heard of.
///
/// # Errors
/// The system gives no watches, or something changed meanwhile and is wrong.
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

/// Why a server must not show what it would show there, if it must not.
pub(crate) fn refusal(command: &ServeCommand, addresses: &[BoundAddress]) -> Option<String> {
    if !command.dev || command.dev_anywhere {
        return None;
    }
    let is_local = |address: &BoundAddress| address.tcp().is_some_and(|address| address.ip().is_loopback());
    let open = addresses.iter().find(|address| !is_local(address))?;
    Some(format!(
        "--dev shows source code to whoever asks, and {open} is no loopback address: \
         listen on 127.0.0.1 (--listen 127.0.0.1:8080), or add --dev-anywhere"
    ))
}

/// Asks for a reload after each change, one at a time.
///
/// # Errors
/// The system gives no thread.
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
                // A folder that came is watched before it is read: what changes behind that is heard of.
                watch.look_at(&watched);
            }
            let (sender, reloaded) = channel();
            if teller.send(Event::Changed(sender)).is_err() {
                return;
            }
            // A server that stops reloads no more.
            let Ok(now) = reloaded.recv() else { return };
            watched = now;
            is_due = watch.look_at(&watched);
        }
    };
    thread::Builder::new().name("watch".to_owned()).spawn(follow).context("cannot start a thread")?;
    Ok(())
}
