//! The ship targets of a running server. This includes the targets that segments are kept for, the threads
//! that ship, and the effect of a reload on both.
//!
//! A changed target is a new one: the log waits for it as for a target that has nothing yet. So no segment is
//! deleted that only the store before has.

mod report;
mod store;
mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tollgate_log::{DiskStorage, Follower, Log};
use tollgate_ship::{KeptUntilLoaded, ShipOptions, ShipTuning, ShipWatch, ShippedLogs, Shipper, VolumeWatch};

use crate::config::{Config, Fault, LoadedBy, ShipConfig, unfit_log};
pub(crate) use report::report;
use store::OpenStore;
pub(crate) use store::{node_of, open_objects, open_store, volume_home};
use volumes::volumes_report;

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
    /// `None`: its store is no volume, or it is not started.
    volumes: Option<VolumeWatch>,
}

/// Reads the state of a target. A read never waits for the store.
pub(crate) struct TargetWatch {
    name: String,
    /// `None`: the target is not started.
    ship: Option<ShipWatch>,
    volumes: Option<VolumeWatch>,
}

impl TargetWatch {
    /// Returns the report on the target.
    pub(crate) fn report(&self) -> Value {
        let status = self.ship.as_ref().map(ShipWatch::status);
        let mut found = report(&self.name, status.as_ref());
        if let Some(volumes) = &self.volumes {
            found["volumes"] = volumes_report(&volumes.status());
        }
        found
    }
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
            let config = ship.clone();
            let target = Target { config, is_awaited, follower, shipper: None, volumes: None };
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
    ///
    /// The log waits for the new targets already, so the ones before may go. They go first, because a changed
    /// target may have the same volumes.
    pub(crate) fn change(&mut self, new: &Config, log: &Log) {
        let is_gone = |name: &String| new.ship(name).is_none() || self.admitted.contains_key(name);
        let gone: Vec<_> = self.targets.extract_if(.., |name, _| is_gone(name)).collect();
        gone.into_iter().for_each(|(_, target)| target.leave(log));
        for (name, mut target) in std::mem::take(&mut self.admitted) {
            if let Err(error) = target.start(new, log) {
                tracing::error!(
                    ship = name,
                    "the ship target sends nothing until the next start or reload: {error:#}"
                );
            }
            self.targets.insert(name, target);
        }
    }

    /// Ends the targets that are volumes, because a successor uses these volumes.
    pub(crate) fn leave_volumes(&mut self, log: &Log) {
        let volumes: Vec<_> =
            self.targets.extract_if(.., |_, target| target.config.volumes().is_some()).collect();
        volumes.into_iter().for_each(|(_, target)| target.leave(log));
    }

    /// Whether a target of another configuration is a present one that ships.
    fn is_kept(&self, ship: &ShipConfig, is_awaited: bool) -> bool {
        self.targets.get(&ship.name).is_some_and(|target| {
            target.config == *ship && target.is_awaited == is_awaited && target.shipper.is_some()
        })
    }

    /// Returns the watches of the targets.
    pub(crate) fn watches(&self) -> Vec<TargetWatch> {
        self.targets.values().map(Target::watch).collect()
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
        let options = ShipOptions {
            name: ship.name.clone(),
            dir: config.log.dir.clone(),
            node: node_of(&config.log)?,
            delete: ship.delete_rule(),
            tuning: ShipTuning { poll: ship.poll, heartbeat: ship.heartbeat, ..ShipTuning::default() },
        };
        let logs = (self.follower.clone(), log.watch());
        // A volume that is lost on its way must lose no record.
        let logs: Box<dyn ShippedLogs> =
            if ship.volumes().is_some() { Box::new(KeptUntilLoaded(logs)) } else { Box::new(logs) };
        let OpenStore { store, volumes } = open_store(ship, &config.log)?;
        let shipper = Shipper::start(options, Arc::new(DiskStorage), store, logs);
        self.shipper = Some(shipper.context("cannot start a thread")?);
        self.volumes = volumes;
        tracing::info!(ship = ship.name, to = %ship, "shipping");
        Ok(())
    }

    fn watch(&self) -> TargetWatch {
        TargetWatch {
            name: self.config.name.clone(),
            ship: self.shipper.as_ref().map(Shipper::watch),
            volumes: self.volumes.clone(),
        }
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
