//! `<log.dir>/control.sock`: what other processes ask a server, and tell it, in lines.
//!
//! | the client says | the server answers |
//! | --- | --- |
//! | `watermark` | `LOG-ID SEQUENCE`: how far the log is synced; then it closes |
//! | `status` | a line of JSON: how it does, as `tollgate status --json` prints it; and an empty one; then it closes |
//! | `reload` | when that is done, the exit code for `tollgate reload` in a line of its own, and lines for people; then it closes |
//! | `follow` | `LOG-ID SEQUENCE` at once, each time that it moves, and once a second; the connection stays |
//!
//! Who follows is a loader. It says `loaded SINK LOG-ID SEQUENCE` when a sink of the server's configuration
//! has a log so far, durably, so that retention may go on, and `report JSON` now and then: how its sink does,
//! which is told to who asks for the status. Neither has an answer. Whoever may connect decides the mode of
//! the socket, which the umask gave: nobody but the owner, as a rule.
//!
//! Each client has a thread of its own, so a slow one holds up nobody; there are so many of them at most, and
//! one more is closed unheard. The socket is no state: a start removes what a dead server left, and a server
//! that cannot make it serves all the same.

mod ask;
mod follow;
mod server;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use tollgate_log::{LogId, Sequence, Watermark};

pub(crate) use ask::{Silence, ask, ask_reload, ask_status};
pub(crate) use follow::RemoteLog;
pub(crate) use server::{Asker, Control};

const NAME: &str = "control.sock";
/// How long either side waits for the other.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How often a server tells who follows that it is there.
const HEARTBEAT: Duration = Duration::from_secs(1);
const WATERMARK: &str = "watermark";
const STATUS: &str = "status";
const RELOAD: &str = "reload";
const FOLLOW: &str = "follow";
const LOADED: &str = "loaded ";
const REPORT: &str = "report ";
/// What a line of a client may have: a report is the longest.
const LINE_BYTES_MAX: usize = 16 << 10;

/// What became of a reload, for whoever asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// 0 done, 1 failed, 2 wrong configuration.
    pub(crate) code: u8,
    /// Lines for people.
    pub(crate) text: String,
}

/// What a sink has of a log.
struct Loaded<'a> {
    sink: &'a str,
    log: LogId,
    last: Sequence,
}

impl<'a> Loaded<'a> {
    fn line(&self) -> String {
        format!("{LOADED}{} {} {}\n", self.sink, self.log, self.last)
    }

    /// Reads what follows the word.
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

/// Names the socket by a descriptor of its folder: the path of a socket has at most 107 bytes (unix(7)), that
/// of the folder any length.
fn through_folder<T>(dir: &Path, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let folder = File::open(dir)?;
    open(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(NAME))
}

#[cfg(test)]
mod tests;
