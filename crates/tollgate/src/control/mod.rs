//! The control socket `<log.dir>/control.sock`: other processes send questions and reports to a server, each
//! as one line.
//!
//! | line of the client | answer of the server |
//! | --- | --- |
//! | `watermark` | `LOG-ID SEQUENCE`: the last synced record of the log. The server then closes the connection |
//! | `status` | a line of JSON as `tollgate status --json` prints it, and an empty line. The server then closes the connection |
//! | `reload` | after the reload: the exit code for `tollgate reload` in a separate line, and lines for people. The server then closes the connection |
//! | `upgrade` or `upgrade PATH` | after the upgrade: as after a reload. `PATH` is the new program. The server then closes the connection |
//! | `renew` or `renew NAME` | at once: the exit code in a separate line, and the ordered names, or the reason. The server then closes the connection |
//! | `follow` | `LOG-ID SEQUENCE` at once, after each change, and once a second. The connection stays open |
//!
//! A client that follows is a loader. This client sends `loaded SINK LOG-ID SEQUENCE` when a sink of the
//! server's configuration has committed all records of a log up to this number. The server can then delete
//! segments. The client also sends `report JSON`, once a second: the state of its sink, which becomes part of
//! the status. The server answers neither line. The mode of the socket allows connections only to the user
//! that the server runs as.
//!
//! Each client has a separate thread, so a slow client delays no other client. The number of clients is
//! bounded. The connection of one more client is closed before its question is read. The socket file is no
//! state: a start removes the file of a dead server. A server that cannot make the socket still serves
//! requests.

mod ask;
mod follow;
mod server;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use tollgate_log::{LogId, Sequence, Watermark};

pub(crate) use ask::{Silence, ask, ask_reload, ask_renew, ask_status, ask_upgrade};
pub(crate) use follow::RemoteLog;
pub(crate) use server::{Asker, Control, ControlOrder};

const NAME: &str = "control.sock";
/// The name of a socket that does not listen yet.
const NEW_NAME: &str = "control.sock.new";
/// Time that either side waits for bytes from the other side.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Interval at which a server sends a line to each follower, even if the watermark is the same.
const HEARTBEAT: Duration = Duration::from_secs(1);
const WATERMARK: &str = "watermark";
const STATUS: &str = "status";
const RELOAD: &str = "reload";
const RENEW: &str = "renew";
const UPGRADE: &str = "upgrade";
const UPGRADE_OF: &str = "upgrade ";
const FOLLOW: &str = "follow";
const LOADED: &str = "loaded ";
const REPORT: &str = "report ";
/// Maximum bytes of a client's line. A report is the longest line.
const LINE_BYTES_MAX: usize = 16 << 10;

/// The outcome of an order, for the client that asked for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// The exit code: 0 success, 1 failure, 2 wrong configuration.
    pub(crate) code: u8,
    /// Lines for people.
    pub(crate) text: String,
}

/// The last record of a log that a sink has.
struct Loaded<'a> {
    sink: &'a str,
    log: LogId,
    last: Sequence,
}

impl<'a> Loaded<'a> {
    fn line(&self) -> String {
        format!("{LOADED}{} {} {}\n", self.sink, self.log, self.last)
    }

    /// Reads the text after the word `loaded`.
    fn read(told: &'a str) -> Option<Self> {
        let mut words = told.split(' ');
        let (sink, log, last) = (words.next()?, words.next()?, words.next()?);
        words.next().is_none().then_some(())?;
        Some(Self { sink, log: log.parse().ok()?, last: Sequence(last.parse().ok()?) })
    }
}

fn watermark_line(Watermark { log, synced }: Watermark) -> String {
    format!("{log} {synced}\n")
}

fn read_watermark(line: &str) -> Option<Watermark> {
    let (log, synced) = line.strip_suffix('\n')?.split_once(' ')?;
    Some(Watermark { log: log.parse().ok()?, synced: Sequence(synced.parse().ok()?) })
}

/// Passes a path of the socket through a descriptor of its folder. The path of a socket has at most 107 bytes
/// (unix(7)), and the path of the folder may have any length.
pub(crate) fn through_folder<T>(socket: &Path, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let folder = File::open(socket.parent().unwrap_or(Path::new("/")))?;
    let through = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string());
    open(&through.join(socket.file_name().unwrap_or_default()))
}

#[cfg(test)]
mod tests;
