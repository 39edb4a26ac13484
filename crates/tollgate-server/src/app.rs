//! Apps: folders of routes and scripts that are mounted below a path.
//!
//! Each mount has a script host of its own in each worker, so its modules, its state and its bounds are its own, also where one
//! folder is mounted twice. What is below its path belongs to it: where none of its routes is, there is nothing, whatever
//! routes of others would take.

use std::rc::Rc;

use tollgate_script::{Fetcher, Host, HostError, HostOptions, SourceFile};

use crate::options::{RouteSpec, ServerOptions};

/// One mount of an app.
#[derive(Debug, Clone)]
pub struct AppSpec {
    /// The path that it is mounted at, without a slash at its end; empty at the root.
    pub base: String,
    /// The host that it answers for; any if none.
    pub host: Option<String>,
    /// Bounds on its scripts, what they share, and what of the environment they may read.
    pub script: HostOptions,
}

impl AppSpec {
    /// The path of all that it has.
    pub fn pattern(&self) -> String {
        format!("{}/*", self.base)
    }
}

/// The script hosts of a configuration in one worker.
pub(crate) struct Hosts {
    /// Of the routes that belong to no app.
    own: Host,
    apps: Vec<Host>,
}

impl Hosts {
    pub(crate) fn new(options: &ServerOptions) -> Result<Self, HostError> {
        let apps = options.apps.iter().map(|app| Host::new(app.script.clone()));
        Ok(Self { own: Host::new(options.script.clone())?, apps: apps.collect::<Result<_, _>>()? })
    }

    pub(crate) fn of(&self, route: &RouteSpec) -> &Host {
        route.app.and_then(|app| self.apps.get(app)).unwrap_or(&self.own)
    }

    fn all(&self) -> impl Iterator<Item = &Host> {
        [&self.own].into_iter().chain(&self.apps)
    }

    /// Gives all scripts whom they ask for backends.
    pub(crate) fn set_fetcher(&self, fetcher: impl Fetcher + 'static) {
        let fetcher: Rc<dyn Fetcher> = Rc::new(fetcher);
        self.all().for_each(|host| host.set_fetcher(Rc::clone(&fetcher)));
    }

    /// Memory of all VMs, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.all().map(Host::memory_bytes).sum()
    }

    pub(crate) fn sources(&self) -> Sources {
        Sources { own: self.own.sources(), apps: self.apps.iter().map(Host::sources).collect() }
    }
}

/// The scripts and modules of a configuration, as its workers read them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// Of the routes that belong to no app.
    pub own: Vec<SourceFile>,
    /// Of each mount, in the order of the options.
    pub apps: Vec<Vec<SourceFile>>,
}
