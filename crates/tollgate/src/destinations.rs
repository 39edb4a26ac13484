//! Everything that the log of a running server goes to: the sinks and the ship targets.
//!
//! A segment is deleted when each of them has it. So all are registered before one of them starts.

use std::thread;
use std::time::Duration;

use tollgate_log::Log;

use crate::config::Config;
use crate::observe::Observer;
use crate::ships::Ships;
use crate::sinks::Sinks;

/// The sinks and the ship targets of the present configuration.
pub(crate) struct Destinations {
    pub(crate) sinks: Sinks,
    ships: Ships,
}

impl Destinations {
    /// Registers all. From now on, no segment is deleted that one of them lacks.
    pub(crate) fn follow(config: &Config, log: &Log) -> Self {
        Self { sinks: Sinks::follow(config, log), ships: Ships::follow(config, log) }
    }

    /// Begins to load.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start_loaders(&mut self, config: &Config) -> anyhow::Result<()> {
        self.sinks.start(config)
    }

    /// Begins to ship.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start_ships(&mut self, config: &Config, log: &Log) -> anyhow::Result<()> {
        self.ships.start(config, log)
    }

    /// Leaves the volumes to a successor. Only one process at a time can use a volume.
    pub(crate) fn leave_volumes(&mut self, log: &Log) {
        self.ships.leave_volumes(log);
    }

    /// Returns the reasons why the new configuration cannot be used.
    pub(crate) fn faults(&self, present: &Config, new: &Config) -> Vec<String> {
        let mut faults = self.sinks.faults(present, new);
        faults.extend(Ships::faults(new));
        faults
    }

    /// Registers what the new configuration adds.
    pub(crate) fn admit(&mut self, new: &Config, log: &Log) {
        self.sinks.admit(new, log);
        self.ships.admit(new, log);
    }

    /// Stops waiting for what [`Self::admit`] registered. `present` is the configuration that stays.
    pub(crate) fn dismiss(&mut self, present: &Config, log: &Log) {
        self.sinks.dismiss(present, log);
        self.ships.dismiss(log);
    }

    /// Changes to another configuration, which was admitted before.
    pub(crate) fn change(&mut self, present: &Config, new: &Config, log: &Log) {
        self.sinks.change(present, new, log);
        self.ships.change(new, log);
    }

    /// Shows the present threads to the observer.
    pub(crate) fn show(&self, observer: &Observer) {
        observer.show(self.sinks.watches());
        observer.show_ships(self.ships.watches());
    }

    /// Ends all at the same time, each within `timeout`. The log is closed before.
    pub(crate) fn finish(self, timeout: Duration) {
        let Self { sinks, ships } = self;
        thread::scope(|scope| {
            scope.spawn(|| ships.finish(timeout));
            sinks.finish(timeout);
        });
    }
}
