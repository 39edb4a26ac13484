//! The ship targets of a running server. This includes the targets that segments are kept for, the threads
//! that ship, and the effect of a reload on both.
//!
//! A changed target is a new one: the log waits for it as for a target that has nothing yet. So no segment is
//! deleted that only the store before has.

mod report;
mod store;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tollgate_log::{DiskStorage, Follower, Log};
use tollgate_ship::{NodeName, ShipOptions, ShipTuning, ShipWatch, Shipper};

use crate::config::{Config, Fault, LoadedBy, ShipConfig, unfit_log};
pub(crate) use report::report;
pub(crate) use store::{open_objects, open_store};

/// The ship targets of the present configuration.
pub(crate) struct Ships {
    targets: BTreeMap<String, Target>,
    /// The targets of a new configuration that does not serve yet.
    admitted: BTreeMap<String, Target>,
}

/// A target that segments are kept for.
struct Target {
    config: ShipConfig,
    /// Whether the log waits for the target before it deletes a segment.
    is_awaited: bool,
    follower: Follower,
    /// `None`: it is not started.
    shipper: Option<Shipper>,
}

impl Ships {
    /// Registers the targets. From now on, no segment is deleted that one of them lacks.
    pub(crate) fn follow(config: &Config, log: &Log) -> Self {
        let mut ships = Self { targets: BTreeMap::new(), admitted: BTreeMap::new() };
        ships.admit(config, log);
        ships.targets = std::mem::take(&mut ships.admitted);
        ships
    }

    /// Registers the targets of this configuration that are new or changed. From now on, no segment is
    /// deleted that one of them lacks.
    pub(crate) fn admit(&mut self, config: &Config, log: &Log) {
        let is_awaited = are_awaited(config);
        for ship in &config.ships {
            if self.is_kept(ship, is_awaited) {
                continue;
            }
            let follower = if is_awaited { log.add_sink() } else { log.follower() };
            let target = Target { config: ship.clone(), is_awaited, follower, shipper: None };
            self.admitted.insert(ship.name.clone(), target);
        }
    }

    /// Stops waiting for the targets that [`Self::admit`] registered.
    pub(crate) fn dismiss(&mut self, log: &Log) {
        for (_, target) in std::mem::take(&mut self.admitted) {
            log.remove_sink(&target.follower);
        }
    }

    /// Begins to ship.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(&mut self, config: &Config, log: &Log) -> anyhow::Result<()> {
        self.targets.values_mut().try_for_each(|target| target.start(config, log))
    }

    /// Returns the reasons why the targets of a new configuration cannot be used with the present log.
    pub(crate) fn faults(new: &Config) -> Vec<String> {
        if new.ships.is_empty() {
            return Vec::new();
        }
        let problems = unfit_log(&new.log).into_iter();
        let faults = problems
            .map(|problem| format!("{problem}, then restart: [log] of the running server is unchanged"));
        faults.map(|fault| Fault::of_file(&new.source, fault).to_string()).collect()
    }

    /// Changes to the targets of another configuration, which were admitted before. A target that stays as it
    /// is keeps its thread.
    pub(crate) fn change(&mut self, new: &Config, log: &Log) {
        for (name, mut target) in std::mem::take(&mut self.admitted) {
            if let Err(error) = target.start(new, log) {
                tracing::error!(
                    ship = name,
                    "the ship target sends nothing until the next start or reload: {error:#}"
                );
            }
            // The log waits for the new target already, so the one before may go.
            if let Some(before) = self.targets.insert(name.clone(), target) {
                before.leave(log);
            }
        }
        let gone: Vec<_> = self.targets.extract_if(.., |name, _| new.ship(name).is_none()).collect();
        gone.into_iter().for_each(|(_, target)| target.leave(log));
    }

    /// Whether a target of another configuration is a present one that ships.
    fn is_kept(&self, ship: &ShipConfig, is_awaited: bool) -> bool {
        self.targets.get(&ship.name).is_some_and(|target| {
            target.config == *ship && target.is_awaited == is_awaited && target.shipper.is_some()
        })
    }

    /// Returns the watches of the targets. `None`: the target is not started.
    pub(crate) fn watches(&self) -> Vec<(String, Option<ShipWatch>)> {
        let watch =
            |(name, target): (&String, &Target)| (name.clone(), target.shipper.as_ref().map(Shipper::watch));
        self.targets.iter().map(watch).collect()
    }

    /// Ends all targets at the same time, each within `timeout`. The log is closed before.
    pub(crate) fn finish(self, timeout: Duration) {
        thread::scope(|scope| {
            for (name, target) in self.targets {
                let Some(shipper) = target.shipper else { continue };
                scope.spawn(move || finish(&name, shipper, timeout));
            }
        });
    }
}

/// Whether the log waits for the targets before it deletes a segment.
///
/// With `--no-load`, nothing is deleted that the sinks of the configuration lack, and they lack everything.
fn are_awaited(config: &Config) -> bool {
    config.load.by != LoadedBy::Nobody || config.sinks.is_empty()
}

impl Target {
    /// Starts the thread. `config` has the options of the open log.
    fn start(&mut self, config: &Config, log: &Log) -> anyhow::Result<()> {
        let ship = &self.config;
        let node = NodeName::encode(&config.log.node).context("node in [log] is empty")?;
        let options = ShipOptions {
            name: ship.name.clone(),
            dir: config.log.dir.clone(),
            node,
            delete: ship.delete_rule(),
            tuning: ShipTuning { poll: ship.poll, heartbeat: ship.heartbeat, ..ShipTuning::default() },
        };
        let logs = Box::new((self.follower.clone(), log.watch()));
        let shipper = Shipper::start(options, Arc::new(DiskStorage), open_store(ship)?, logs);
        self.shipper = Some(shipper.context("cannot start a thread")?);
        tracing::info!(ship = ship.name, to = %ship, "shipping");
        Ok(())
    }

    /// Ends the target without waiting for the store.
    fn leave(self, log: &Log) {
        log.remove_sink(&self.follower);
        drop(self.shipper);
    }
}

fn finish(ship: &str, shipper: Shipper, timeout: Duration) {
    let watch = shipper.watch();
    let is_done = shipper.finish(timeout);
    let status = watch.status();
    let (segments, bytes) = (status.segments, status.bytes);
    if is_done {
        tracing::info!(ship, segments, bytes, "shipped");
    } else {
        let (left, reason) = (status.unshipped_segments, status.last_error);
        tracing::warn!(
            ship,
            segments,
            left,
            reason,
            "not all segments are shipped, the next start continues"
        );
    }
}
