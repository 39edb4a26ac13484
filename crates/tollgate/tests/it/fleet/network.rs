//! A network for one test: each machine is a network namespace, and cables connect the machines to bridges.
//! Needs root.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// First part of the names of all namespaces. The id of the test's process follows.
const PREFIX: &str = "tollgate-fleet";
/// Folder with a file for each namespace that `ip netns` made.
const NAMESPACES: &str = "/run/netns";
/// Namespace that has the bridges and one end of each cable, so all packets pass through it.
pub(crate) const SWITCH: &str = "switch";

/// A network. The drop of this value removes it.
pub(crate) struct Network {
    hosts: Vec<&'static str>,
    /// The host and the end in the switch of each cable.
    cables: Vec<(&'static str, String)>,
}

impl Network {
    /// Makes a network that has only a switch. If this machine does not allow it, prints a line that is
    /// always visible and returns `None`.
    pub(crate) fn new() -> Option<Self> {
        remove_old();
        let mut network = Self { hosts: Vec::new(), cables: Vec::new() };
        match network.try_add_host(SWITCH) {
            Ok(()) => Some(network),
            Err(error) => {
                // Writes to stderr without `eprintln!`, because the test harness hides the output of
                // `eprintln!` if the test passes.
                let _ = writeln!(std::io::stderr(), "\n!!! NOT TESTED: networks: {error}\n");
                None
            }
        }
    }

    pub(crate) fn add_host(&mut self, host: &'static str) {
        self.try_add_host(host).unwrap();
    }

    fn try_add_host(&mut self, host: &'static str) -> Result<(), String> {
        ip(&["netns", "add", &namespace(host)])?;
        self.hosts.push(host);
        ip(&["-n", &namespace(host), "link", "set", "lo", "up"])
    }

    pub(crate) fn add_bridge(&self, bridge: &str) {
        self.configure(SWITCH, &["link", "add", bridge, "type", "bridge"]);
        self.configure(SWITCH, &["link", "set", bridge, "up"]);
    }

    /// Connects a host to a bridge. The host gets an interface with the name of the bridge.
    pub(crate) fn connect(&mut self, host: &'static str, bridge: &str, address: &str) {
        let port = format!("{host}-{bridge}");
        let switch = namespace(SWITCH);
        self.configure(
            host,
            &["link", "add", bridge, "type", "veth", "peer", "name", &port, "netns", &switch],
        );
        self.configure(SWITCH, &["link", "set", &port, "master", bridge, "up"]);
        self.configure(host, &["address", "add", address, "dev", bridge]);
        self.configure(host, &["link", "set", bridge, "up"]);
        self.cables.push((host, port));
    }

    /// Unplugs all cables of a host, or plugs them in again.
    pub(crate) fn set_cables(&self, host: &str, is_plugged: bool) {
        for (_, port) in self.cables.iter().filter(|(of, _)| *of == host) {
            self.configure(SWITCH, &["link", "set", port, if is_plugged { "up" } else { "down" }]);
        }
    }

    /// Runs a command of ip(8) in a host.
    pub(crate) fn configure(&self, host: &str, command: &[&str]) {
        let host = namespace(host);
        ip(&[&["-n", &*host], command].concat()).unwrap();
    }

    /// Runs `work` in a thread whose network is the network of a host. Processes and threads that `work`
    /// starts, and sockets that it opens, belong to this host too.
    pub(crate) fn within<R: Send>(&self, host: &str, work: impl FnOnce() -> R + Send) -> R {
        let namespace = File::open(Path::new(NAMESPACES).join(namespace(host))).unwrap();
        let work = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        };
        thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Sends a signal to all processes of a host.
    pub(crate) fn signal(&self, host: &str, signal: Signal) {
        let found = Command::new("ip").args(["netns", "pids", &namespace(host)]).output().unwrap();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        for id in String::from_utf8(found.stdout).unwrap().lines() {
            // A process may have ended meanwhile.
            let _ = kill_process(Pid::from_raw(id.parse().unwrap()).unwrap(), signal);
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in &self.hosts {
            drop(ip(&["netns", "delete", &namespace(host)]));
        }
    }
}

fn namespace(host: &str) -> String {
    format!("{PREFIX}-{}-{host}", std::process::id())
}

/// Removes the namespaces of tests that were killed.
fn remove_old() {
    for entry in fs::read_dir(NAMESPACES).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('-'));
        let process = rest.and_then(|rest| rest.split_once('-')).map(|(process, _)| process);
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            drop(ip(&["netns", "delete", &name]));
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| format!("ip: {error}: `make tools` installs it"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
