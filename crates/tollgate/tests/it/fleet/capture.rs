//! A packet capture by tcpdump. It counts the packets that match a filter.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::Receiver;

use rustix::process::{Pid, Signal, kill_process};

use super::network::Network;
use crate::program::{PATIENCE, follow};

/// A running capture on all interfaces of a host. The drop of this value ends it.
pub(crate) struct Capture {
    process: Child,
    report: BufReader<ChildStderr>,
    packets: Receiver<String>,
}

impl Capture {
    /// Starts a capture, and waits until it sees each later packet.
    pub(crate) fn start(network: &Network, host: &str, filter: &str) -> Self {
        let mut command = Command::new("tcpdump");
        command.args(["-i", "any", "-n", "-l", "--immediate-mode", filter]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = network
            .within(host, || command.spawn())
            .unwrap_or_else(|error| panic!("tcpdump: {error}: `make tools` installs it"));
        let mut report = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on any") {
            line.clear();
            assert!(report.read_line(&mut line).unwrap() > 0, "tcpdump ended");
        }
        let packets = follow(process.stdout.take().unwrap());
        Self { process, report, packets }
    }

    /// Waits for a packet that matches the filter. Returns its line.
    pub(crate) fn next(&self) -> String {
        self.packets.recv_timeout(PATIENCE).expect("a packet in time")
    }

    /// Ends the capture. Returns the lines of the packets that [`Self::next`] has not returned.
    pub(crate) fn end(mut self) -> Vec<String> {
        kill_process(Pid::from_child(&self.process), Signal::INT).unwrap();
        // The line after the last packet is empty.
        let lines: Vec<_> = self.packets.iter().filter(|line| !line.is_empty()).collect();
        let summary: Vec<_> = (&mut self.report).lines().map(Result::unwrap).collect();
        assert!(self.process.wait().unwrap().success(), "{summary:?}");
        assert!(summary.iter().any(|line| line == "0 packets dropped by kernel"), "{summary:?}");
        lines
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
