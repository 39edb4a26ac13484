//! The machines of the fleet: web machines, database machines and the store. Each is killed and started
//! again.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::network::Network;
use crate::authority::certificate;
use crate::client::Client;
use crate::cluster::Cluster;
use crate::gateway::{ACCESS_KEY, Gateway, SECRET_KEY};
use crate::program::{App, BINARY, Running};

/// The network of the web machines and of the store.
pub(crate) const WEB: &str = "web";
/// The network of the database machines and of the store.
pub(crate) const DATA: &str = "data";
/// The machine with the store.
pub(crate) const STORE: &str = "store";
/// Address of the store in the network of the web machines. All addresses are addresses for tests between
/// hosts: RFC 2544 appendix C.2.2.
const STORE_IN_WEB: &str = "198.18.1.1";
/// Address of the store in the network of the database machines.
const STORE_IN_DATA: &str = "198.18.2.1";
const PORT: u16 = 7070;
/// Number of loaders of one database machine.
const LOADERS: usize = 2;

const CONFIG: &str = r#"
[log]
segment_bytes_max = "64KiB"
segment_age_max = "300ms"
retain = "0ms"
[stream.a]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/a"
collect = true
stream = "a"
"#;

/// The machine between the two networks. It has a server with the protocol of S3.
pub(crate) struct StoreMachine {
    gateway: Gateway,
    folder: TempDir,
}

impl StoreMachine {
    pub(crate) fn start(network: &mut Network) -> Self {
        network.add_host(STORE);
        network.connect(STORE, WEB, &format!("{STORE_IN_WEB}/24"));
        network.connect(STORE, DATA, &format!("{STORE_IN_DATA}/24"));
        let folder = TempDir::new().unwrap();
        let certificate = certificate(folder.path(), &format!("IP:{STORE_IN_WEB},IP:{STORE_IN_DATA}"));
        let address: SocketAddr = (Ipv4Addr::UNSPECIFIED, PORT).into();
        let gateway = network.within(STORE, || Gateway::start_at(address, certificate));
        Self { gateway, folder }
    }

    fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub(crate) fn kill_and_restart(&mut self, network: &Network) {
        network.within(STORE, || self.gateway.kill_and_restart());
    }
}

/// A machine that records and ships.
pub(crate) struct WebMachine {
    pub(crate) name: &'static str,
    app: App,
    server: Option<Running>,
}

impl WebMachine {
    /// `sinks`: the names of the sinks that have to load a segment before it is deleted here.
    pub(crate) fn start(
        network: &mut Network,
        store: &StoreMachine,
        name: &'static str,
        address: &str,
        sinks: &[&str],
    ) -> Self {
        network.add_host(name);
        network.connect(name, WEB, &format!("{address}/24"));
        let target = format!(
            "[ship.main]\nstore = \"s3://logs/fleet\"\nendpoint = \"https://{STORE_IN_WEB}:{PORT}\"\n\
             ca_file = \"{}\"\naccess_key = \"{ACCESS_KEY}\"\nsecret_key = \"file:key\"\nsinks = {sinks:?}\n\
             poll = \"100ms\"\nheartbeat = \"500ms\"\n",
            store.authority().display()
        );
        let config = CONFIG.replace("[log]", &format!("[log]\nnode = \"{name}\""));
        let app = App::new(&format!("{config}{target}"), &[]);
        app.write("key", &format!("{SECRET_KEY}\n"));
        let server = Some(network.within(name, || app.start()));
        Self { name, app, server }
    }

    pub(crate) fn kill_and_restart(&mut self, network: &Network) {
        self.server.take().unwrap().kill();
        self.server = Some(network.within(self.name, || self.app.start()));
    }

    /// Connects a client that runs on this machine.
    pub(crate) fn connect(&self, network: &Network) -> Client {
        let address = self.server.as_ref().unwrap().address();
        network.within(self.name, || Client::connect(address))
    }

    /// Returns the number of sealed segments that are kept.
    pub(crate) fn sealed(&self) -> usize {
        let is_sealed = |path: &PathBuf| path.extension().is_some_and(|found| found == "sealed");
        self.app.segments().iter().filter(|path| is_sealed(path)).count()
    }

    pub(crate) fn stop(mut self) {
        let (status, log) = self.server.take().unwrap().stop();
        assert!(status.success(), "{}: {log}", self.name);
    }
}

/// A machine with a PostgreSQL server and several loaders.
pub(crate) struct DatabaseMachine {
    pub(crate) name: &'static str,
    cluster: Cluster,
    database: String,
    app: App,
    authority: PathBuf,
    loaders: Vec<Loader>,
}

impl DatabaseMachine {
    /// The sink has the name of the machine.
    pub(crate) fn start(
        network: &mut Network,
        store: &StoreMachine,
        name: &'static str,
        address: &str,
    ) -> Self {
        network.add_host(name);
        network.connect(name, DATA, &format!("{address}/24"));
        let cluster = network.within(name, || Cluster::start(""));
        let database = cluster.database();
        let app = App::new(&format!("[sink.{name}]\npostgres = \"{}\"\n", cluster.url(&database)), &[]);
        let authority = store.authority();
        let mut machine = Self { name, cluster, database, app, authority, loaders: Vec::new() };
        machine.start_loaders(network);
        machine
    }

    fn start_loaders(&mut self, network: &Network) {
        let start = |number| network.within(self.name, || Loader::start(&self.app, &self.authority, number));
        self.loaders = (0..LOADERS).map(start).collect();
    }

    pub(crate) fn kill_and_restart(&mut self, network: &Network) {
        self.loaders.clear();
        self.cluster.kill();
        network.within(self.name, || self.cluster.boot());
        self.start_loaders(network);
    }

    /// Ends the loaders by SIGTERM. They write their last positions to the store.
    pub(crate) fn stop_loaders(&mut self) {
        self.loaders.drain(..).for_each(Loader::stop);
    }

    /// Runs a query and returns its lines.
    pub(crate) fn ask(&self, question: &str) -> Vec<String> {
        self.cluster.sql(&self.database, question).lines().map(str::to_owned).collect()
    }
}

/// A process that loads from the store. The drop of this value kills it.
struct Loader(Child);

impl Loader {
    fn start(app: &App, authority: &Path, number: usize) -> Self {
        let log = app.path().join(format!("loader-{number}.log"));
        let mut command = Command::new(BINARY);
        command
            .args(["load", "--from", "s3://logs/fleet", "--ca-file"])
            .arg(authority)
            .args(["--endpoint", &format!("https://{STORE_IN_DATA}:{PORT}"), "--spool"])
            .arg(app.path().join(format!("fetched-{number}")))
            .arg(app.path())
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::options().create(true).append(true).open(log).unwrap());
        Self(command.spawn().unwrap())
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
