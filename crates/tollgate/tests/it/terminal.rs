//! A command in a pseudo-terminal: its keys, its size, what it shows, and the modes that it leaves.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::program::{BINARY, eventually};

/// Variables that change the output of a command in a terminal.
const VARIABLES: [&str; 12] = [
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LINES",
    "NO_COLOR",
    "RUST_LOG",
    "TERM",
    "TOLLGATE_CONFIG",
    "TZ",
];

/// A command in a pseudo-terminal. Dropping this value kills the command.
pub(crate) struct Terminal {
    master: File,
    /// The other end, which keeps its modes while this value lives.
    slave: File,
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    _reading: JoinHandle<()>,
}

impl Terminal {
    /// Starts the binary in a folder, in a terminal with colours and UTF-8.
    pub(crate) fn run(folder: &Path, arguments: &[&str], size: (u16, u16)) -> Self {
        let variables = [("TERM", "xterm-256color"), ("LANG", "C.UTF-8"), ("TZ", "UTC")];
        Self::run_with(folder, arguments, size, &variables)
    }

    /// Starts the binary with these variables only, of those that change the output.
    pub(crate) fn run_with(
        folder: &Path,
        arguments: &[&str],
        size: (u16, u16),
        variables: &[(&str, &str)],
    ) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed());
        let slave = options.open(OsStr::from_bytes(name.as_bytes())).unwrap();
        resize(&slave, size);
        let mut command = Command::new(BINARY);
        command.args(arguments).current_dir(folder);
        for name in VARIABLES {
            command.env_remove(name);
        }
        let end = || Stdio::from(slave.try_clone().unwrap());
        let child = command.envs(variables.iter().copied()).stdin(end()).stdout(end()).stderr(end()).spawn();
        let (master, shown) = (File::from(master), Arc::<Mutex<Vec<u8>>>::default());
        let (mut reader, received) = (master.try_clone().unwrap(), shown.clone());
        let _reading = thread::spawn(move || {
            let mut bytes = [0; 4096];
            // EIO: no process has the terminal any more.
            while let Ok(count) = reader.read(&mut bytes) {
                received.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self { master, slave, child: child.unwrap(), shown, _reading }
    }

    /// Returns everything that the command has shown.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until the command has shown a text.
    pub(crate) fn wait_for(&self, text: &str) {
        eventually(text, || self.shown().contains(text).then_some(()));
    }

    /// Waits until the command ends, and returns what it has shown.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let status = eventually("the command ends", || self.child.try_wait().unwrap());
        // The mark is the last text, because the command has ended.
        self.slave.write_all(b"<END>").unwrap();
        self.wait_for("<END>");
        (status, self.shown().replace("<END>", ""))
    }

    pub(crate) fn press(&mut self, keys: &[u8]) {
        self.master.write_all(keys).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Changes the size. The command has no controlling terminal, so it gets the signal from here.
    pub(crate) fn resize(&self, size: (u16, u16)) {
        resize(&self.slave, size);
        self.signal(Signal::WINCH);
    }

    pub(crate) fn modes(&self) -> Termios {
        tcgetattr(&self.slave).unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A command that has ended needs no signal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resize(slave: &File, (ws_col, ws_row): (u16, u16)) {
    tcsetwinsize(slave, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}
