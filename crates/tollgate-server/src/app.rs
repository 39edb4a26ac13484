//! Apps: folders of routes and scripts that are mounted below a path.
//!
//! Each mount has its own `Host` in each worker. Mounts share no modules, state or bounds, even if one
//! folder is mounted twice. All paths below a mount belong to its app. If no route of the app matches, the
//! reply is 404, even if a route outside of the app would match.

use std::rc::Rc;

use tollgate_script::{EmitStream, Fetcher, Host, HostError, Keeper, SourceFile};

use crate::options::{RouteSpec, ServerOptions};
use crate::row::StreamPlan;

/// The `Host`s of a configuration in one worker.
pub(crate) struct Hosts {
    /// Host for routes that belong to no app.
    own: Host,
    apps: Vec<Host>,
    /// Streams that the scripts of each app may emit records to. Other scripts may emit to all streams.
    app_streams: Vec<Rc<[Rc<StreamPlan>]>>,
}

impl Hosts {
    /// Creates the `Host`s. Scripts of an app may emit records to the streams of the app, under the names
    /// that the app gives them. Other scripts may emit to all `streams`.
    pub(crate) fn new(options: &ServerOptions, streams: &[Rc<StreamPlan>]) -> Result<Self, HostError> {
        let all = streams.iter().map(|stream| stream.for_scripts()).collect();
        let own = Host::with_streams(options.script.clone(), all)?;
        let (mut apps, mut app_streams) = (Vec::new(), Vec::new());
        for app in &options.apps {
            let of_app = || app.streams.iter().filter_map(|(name, place)| Some((name, streams.get(*place)?)));
            let emitted = of_app()
                .map(|(name, stream)| EmitStream { name: name.clone(), ..stream.for_scripts() })
                .collect();
            apps.push(Host::with_streams(app.script.clone(), emitted)?);
            app_streams.push(of_app().map(|(_, stream)| stream.clone()).collect());
        }
        Ok(Self { own, apps, app_streams })
    }

    /// Returns the streams that the scripts of a route may emit records to.
    pub(crate) fn streams_of(
        &self,
        route: &RouteSpec,
        streams: &Rc<[Rc<StreamPlan>]>,
    ) -> Rc<[Rc<StreamPlan>]> {
        route.app.and_then(|app| self.app_streams.get(app)).unwrap_or(streams).clone()
    }

    pub(crate) fn of(&self, route: &RouteSpec) -> &Host {
        route.app.and_then(|app| self.apps.get(app)).unwrap_or(&self.own)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Host> {
        [&self.own].into_iter().chain(&self.apps)
    }

    /// Sets the fetcher, which sends the requests of all scripts to backends.
    pub(crate) fn set_fetcher(&self, fetcher: impl Fetcher + 'static) {
        let fetcher: Rc<dyn Fetcher> = Rc::new(fetcher);
        self.all().for_each(|host| host.set_fetcher(Rc::clone(&fetcher)));
    }

    /// Sets `keeper` as the keeper of all VMs.
    pub(crate) fn set_keeper(&self, keeper: &Rc<Keeper>) {
        self.all().for_each(|host| host.set_keeper(keeper));
    }

    /// Returns the memory of all VMs, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.all().map(Host::memory_bytes).sum()
    }

    pub(crate) fn sources(&self) -> Sources {
        Sources { own: self.own.sources(), apps: self.apps.iter().map(Host::sources).collect() }
    }
}

/// The scripts and modules of a configuration, with the content that the workers read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// Files of the routes that belong to no app.
    pub own: Vec<SourceFile>,
    /// Files of each mount, in the order of the options.
    pub apps: Vec<Vec<SourceFile>>,
}
