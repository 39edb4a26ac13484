//! The binary in a folder of its own: started, stopped, killed, asked.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::types::FromSql;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::Client;

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a configuration and scripts.
pub(crate) struct App {
    folder: TempDir,
}

impl App {
    /// Writes the configuration, on a free port of one worker, and the scripts by name.
    pub(crate) fn new(config: &str, scripts: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let app = Self { folder };
        app.write("tollgate.toml", &format!("[server]\nlisten = [\"127.0.0.1:0\"]\n{config}"));
        scripts.iter().for_each(|(name, text)| app.write(name, text));
        app
    }

    /// A folder without a configuration.
    pub(crate) fn bare(scripts: &[(&str, &str)]) -> Self {
        let app = Self { folder: tempfile::tempdir().unwrap() };
        scripts.iter().for_each(|(name, text)| app.write(name, text));
        app
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn start(&self) -> Running {
        Running::start(Command::new(BINARY), self.path())
    }

    /// Starts under strace, which injects faults as `inject` says and reports to a file in the folder.
    pub(crate) fn start_with_fault(&self, inject: &str) -> Running {
        let mut strace = Command::new("strace");
        let report = self.path().join("strace.txt");
        strace.arg("-f").arg("-qq").arg("-o").arg(report);
        strace.args(["-e", "trace=fdatasync", "-e", &format!("inject=fdatasync:{inject}"), BINARY]);
        Running::start(strace, self.path())
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        Command::new(BINARY).args(arguments).current_dir(self.path()).output().unwrap()
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path().join("data/tollgate.sqlite")).unwrap()
    }

    /// The first column of all rows.
    pub(crate) fn query<T: FromSql>(&self, sql: &str) -> Vec<T> {
        let database = self.database();
        let mut statement = database.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    pub(crate) fn has_table(&self, name: &str) -> bool {
        self.database().table_exists(None, name).unwrap()
    }

    /// The segment files, in order.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.path().join("data/log")).unwrap().map(|entry| entry.unwrap().path());
        let files = folders.filter(|path| path.is_dir()).flat_map(|log| fs::read_dir(log).unwrap());
        let mut files: Vec<_> =
            files.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some()).collect();
        files.sort();
        files
    }

    /// Starts and stops it once more, so that all that is in the log is loaded.
    pub(crate) fn settle(&self) {
        let (status, log) = self.start().stop();
        assert!(status.success(), "{log}");
        let audit = self.succeed(&["audit"]);
        assert!(audit.contains("\nexact:"), "{audit}");
        self.succeed(&["log", "verify"]);
    }
}

/// A server that runs. It is killed when dropped.
pub(crate) struct Running {
    child: Child,
    address: SocketAddr,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    fn start(mut command: Command, folder: &Path) -> Self {
        let command = command.arg("serve").arg(folder).env_remove("RUST_LOG");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace is installed: make tools");
        let stderr = child.stderr.take().unwrap();
        let mut running =
            Self { child, address: SocketAddr::from(([0; 4], 0)), stderr: Some(collect(stderr)) };
        let stdout = running.child.stdout.take().unwrap();
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        match line.strip_prefix("serving http://").and_then(|rest| rest.split(' ').next()) {
            Some(address) => running.address = address.parse().unwrap(),
            None => panic!("{line:?}: {}", running.wait().1),
        }
        running
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends SIGTERM and waits; returns how it ended and what it logged.
    pub(crate) fn stop(self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Signals the server, also below strace.
    pub(crate) fn signal(&self, signal: Signal) {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let below = fs::read_to_string(children).unwrap_or_default();
        let id = below.split_whitespace().next().map_or(self.child.id(), |id| id.parse().unwrap());
        let _ = kill_process(Pid::from_raw(id.cast_signed()).unwrap(), signal);
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let status = eventually("the server ends", || self.child.try_wait().unwrap());
        (status, self.stderr.take().unwrap().join().unwrap())
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
        self.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Waits until `look` finds something.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// What a command printed, for messages of failed checks.
pub(crate) fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn collect(mut stderr: ChildStderr) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    })
}

const BINARY: &str = env!("CARGO_BIN_EXE_tollgate");
