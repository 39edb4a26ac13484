//! The orders to upgrade that a running server gets, and what it gives up when its successor serves.

use std::sync::mpsc::Sender;

use super::reporters::Reporters;
use super::running::Running;
use crate::acme::AcmeCertificates;
use crate::config::Config;
use crate::control::{Asker, Reloaded};
use crate::event::Event;
use crate::upgrade::{BegunUpgrade, DrainingProcess, Offer, OfferedAdmin, Refusal, Successor, UpgradeOrder};

/// The id of the first process of a container, whose end ends the container.
const FIRST_PROCESS: u32 = 1;

/// The upgrades of a server, in both roles.
pub(super) struct HandOver {
    teller: Sender<Event>,
    /// The process that this one took over from.
    old: Option<DrainingProcess>,
    begun: Option<(BegunUpgrade, Option<Asker>)>,
}

impl HandOver {
    pub(super) fn new(teller: Sender<Event>, old: Option<DrainingProcess>) -> Self {
        Self { teller, old, begun: None }
    }

    /// Starts a new program, which is to take over. The outcome arrives as an event.
    pub(super) fn begin(
        &mut self,
        order: UpgradeOrder,
        config: &Config,
        running: &Running<'_>,
        reporters: &Reporters,
    ) {
        let UpgradeOrder { program, asker } = order;
        if asker.is_none() {
            tracing::info!("SIGUSR2: upgrading");
        }
        let teller = self.teller.clone();
        // If the server stops, the event is dropped.
        let report = move |outcome| drop(teller.send(Event::Upgraded(outcome)));
        let offered = self.refusal().map_or_else(|| offer(config, running, reporters), Err);
        match offered.and_then(|offer| BegunUpgrade::begin(program, offer, report)) {
            Ok(begun) => self.begun = Some((begun, asker)),
            Err(refusal) => refuse(asker, refusal, reporters),
        }
    }

    /// Returns why no upgrade may begin now.
    fn refusal(&self) -> Option<Refusal> {
        if std::process::id() == FIRST_PROCESS {
            return Some(Refusal::new(
                "the server is process 1, so its end would end the container: let the orchestrator replace \
                 the container",
            ));
        }
        if let Some((begun, _)) = &self.begun {
            return Some(Refusal::new(begun.describe()));
        }
        let drain = self.old.as_ref()?.drain()?;
        let connections = drain.connections.map(|count| format!(", {count} connections left"));
        Some(Refusal::new(format!(
            "process {} of the upgrade before still drains{}: wait for its end",
            drain.process,
            connections.unwrap_or_default()
        )))
    }

    /// Returns the answer to an order to reload during an upgrade. `None`: no upgrade runs.
    pub(super) fn refusal_of_reload(&self) -> Option<Reloaded> {
        let (begun, _) = self.begun.as_ref()?;
        let text = format!("not reloaded: {}, and reads the configuration\n", begun.describe());
        tracing::warn!("{}", text.trim_end());
        Some(Reloaded { code: 1, text })
    }

    /// Ends an upgrade. If the new process serves, gives all duties up, and returns the new process.
    pub(super) fn finish(
        &mut self,
        outcome: Result<Successor, Refusal>,
        running: &mut Running<'_>,
        reporters: &mut Reporters,
    ) -> Option<Successor> {
        let (_, asker) = self.begun.take()?;
        match outcome {
            Ok(successor) => {
                give_up(&successor, running, reporters);
                let (process, program) = (successor.process(), successor.program());
                tracing::info!(process, program, "upgraded: the new process serves");
                let text = format!(
                    "upgraded: process {process} serves, version {program}\nprocess {} drains and ends\n",
                    std::process::id()
                );
                answer(asker, &Reloaded { code: 0, text });
                Some(successor)
            }
            Err(refusal) => {
                refuse(asker, refusal, reporters);
                None
            }
        }
    }

    /// Ends the part in upgrades, because this server stops.
    pub(super) fn end(&mut self) {
        if let Some((begun, asker)) = self.begun.take() {
            begun.abort();
            answer(asker, &Refusal::new("the server stops").into());
        }
        self.old.iter().for_each(DrainingProcess::note_ending);
    }
}

fn offer(config: &Config, running: &Running<'_>, reporters: &Reporters) -> Result<Offer, Refusal> {
    let admin = reporters.admin.as_ref().zip(config.admin.listen.name());
    let admin = admin.map(|(admin, name)| admin.socket().map(|socket| OfferedAdmin { name, socket }));
    let offered =
        admin.transpose().and_then(|admin| Offer::of(running.server, running.log, &config.log.dir, admin));
    offered.map_err(|error| Refusal::new(format!("cannot copy the sockets: {error}")))
}

/// Gives all duties to the new process, except for the log of this one and its last connections.
fn give_up(successor: &Successor, running: &mut Running<'_>, reporters: &mut Reporters) {
    running.log.give_up();
    running.destinations.leave_volumes(running.log);
    running.server.leave(successor.listens());
    *running.certificates = AcmeCertificates::default();
    if let Some(control) = running.control {
        control.leave();
    }
    if let Some(admin) = reporters.admin.take() {
        admin.leave();
    }
    reporters.notifier.hand_over(successor.process());
    let watch = running.server.watch();
    successor.yield_to(move || watch.status().connections as u64);
}

/// Logs and counts a refusal, and sends it to the client that waits for the outcome.
fn refuse(asker: Option<Asker>, refusal: Refusal, reporters: &Reporters) {
    let outcome = Reloaded::from(refusal);
    tracing::error!(reason = outcome.text.trim_end(), "upgrade refused: this process serves on");
    reporters.observer.note_refused_upgrade();
    answer(asker, &outcome);
}

fn answer(asker: Option<Asker>, outcome: &Reloaded) {
    if let Some(asker) = asker {
        asker.reply(outcome);
    }
}
