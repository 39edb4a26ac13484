//! The client's side of the control socket: one question, one answer.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use tollgate_log::Watermark;

use super::{
    NAME, RELOAD, RENEW, Reloaded, STATUS, TIMEOUT, UPGRADE, UPGRADE_OF, WATERMARK, read_watermark,
    through_folder,
};
use crate::config::denial_of;
use crate::print::note;

/// Maximum time of a reload. This time is longer than the server's own bound.
const RELOAD_TIMEOUT: Duration = Duration::from_mins(3);
/// Maximum time of an upgrade. This time is longer than the sum of the server's own bounds.
const UPGRADE_TIMEOUT: Duration = Duration::from_mins(10);
/// Maximum time until the server takes an order to renew. A reload may run before it.
const RENEW_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum bytes of the answer: a log id, a blank, a number and a line end.
const WATERMARK_BYTES_MAX: u64 = 64;
const LINES_BYTES_MAX: u64 = 1 << 20;

/// The reason why no server answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// No server listens.
    Absent,
    /// The system refuses this user the socket, so a server may listen.
    Denied,
    /// The system cannot connect to the socket for another reason, for example a lack of descriptors.
    Failed(String),
    /// A server listens, but sent nothing for `waited`.
    Mute { process: Option<i32>, waited: Duration },
    /// The server closed the connection because it ends, or because it has too many clients.
    Closed,
}

impl Silence {
    /// Returns the reason as a line for people.
    pub(crate) fn describe(&self, dir: &Path) -> String {
        let socket = dir.join(NAME);
        let socket = socket.display();
        match self {
            Self::Absent => format!("no server answers at {socket}"),
            Self::Denied => denial_of(&dir.join(NAME)),
            Self::Failed(error) => format!("cannot connect to {socket}: {error}"),
            Self::Mute { process, waited } => {
                let process = named(*process);
                let waited = waited.as_secs();
                format!(
                    "the server at {socket}{process} has not answered for {waited} s: it hangs, or it is \
                     stopped (send SIGCONT)"
                )
            }
            Self::Closed => format!(
                "the server at {socket} closed the connection: it is ending, or it has too many clients"
            ),
        }
    }

    /// Returns the reason why there is no connection.
    fn of_connect(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::ConnectionRefused => {
                Self::Absent
            }
            io::ErrorKind::PermissionDenied => Self::Denied,
            _ => Self::Failed(error.to_string()),
        }
    }

    fn of(error: &io::Error, stream: &UnixStream, waited: Duration) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Self::Mute { process: process_of(stream), waited }
            }
            _ => Self::Closed,
        }
    }
}

/// Asks the server of a log folder for its watermark.
pub(crate) fn ask(dir: &Path) -> Result<Watermark, Silence> {
    let answer = exchange(dir, WATERMARK, TIMEOUT, WATERMARK_BYTES_MAX)?;
    read_watermark(&answer).ok_or(Silence::Closed)
}

/// Asks the server of a log folder for its status: a line of JSON.
pub(crate) fn ask_status(dir: &Path) -> Result<String, Silence> {
    let answer = exchange(dir, STATUS, TIMEOUT, LINES_BYTES_MAX)?;
    // A complete answer ends with an empty line. Without this line, the server closed the connection too
    // early.
    answer.strip_suffix('\n').map(str::to_owned).ok_or(Silence::Closed)
}

/// Asks the server of a log folder to reload. Waits until the server has reloaded or refused.
pub(crate) fn ask_reload(dir: &Path) -> Result<Reloaded, Silence> {
    give(dir, RELOAD, "reloads", RELOAD_TIMEOUT)
}

/// Asks the server of a log folder to start a new program. Waits until that program serves, or the server has
/// refused.
pub(crate) fn ask_upgrade(dir: &Path, program: Option<&Path>) -> Result<Reloaded, Silence> {
    let question = match program.map(|program| program.to_str().filter(|path| !path.contains('\n'))) {
        None => UPGRADE.to_owned(),
        Some(Some(program)) => format!("{UPGRADE_OF}{program}"),
        Some(None) => {
            let text = "the path of the program is no line of UTF-8: rename it".to_owned();
            return Ok(Reloaded { code: 2, text });
        }
    };
    give(dir, &question, "upgrades", UPGRADE_TIMEOUT)
}

/// Gives an order, and waits for the outcome. `does` says what the server may be doing meanwhile.
fn give(dir: &Path, order: &str, does: &str, timeout: Duration) -> Result<Reloaded, Silence> {
    let stream = question(dir, order)?;
    if !is_answered(&stream, TIMEOUT) {
        let (socket, process) = (dir.join(NAME), named(process_of(&stream)));
        note(&format!(
            "waiting for the server at {}{process} which {does}, hangs, or is stopped (send SIGCONT)",
            socket.display()
        ));
    }
    outcome(&answer(&stream, timeout, LINES_BYTES_MAX)?)
}

/// Asks the server of a log folder to renew the certificate of a name, or all certificates. Returns at once.
pub(crate) fn ask_renew(dir: &Path, name: Option<&str>) -> Result<Reloaded, Silence> {
    let question = name.map_or_else(|| RENEW.to_owned(), |name| format!("{RENEW} {name}"));
    outcome(&exchange(dir, &question, RENEW_TIMEOUT, LINES_BYTES_MAX)?)
}

fn outcome(answer: &str) -> Result<Reloaded, Silence> {
    let reloaded = answer
        .split_once('\n')
        .and_then(|(code, text)| Some(Reloaded { code: code.parse().ok()?, text: text.to_owned() }));
    reloaded.ok_or(Silence::Closed)
}

pub(super) fn exchange(
    dir: &Path,
    request: &str,
    timeout: Duration,
    bytes_max: u64,
) -> Result<String, Silence> {
    answer(&question(dir, request)?, timeout, bytes_max)
}

fn question(dir: &Path, request: &str) -> Result<UnixStream, Silence> {
    let mut stream = through_folder(&dir.join(NAME), |path| UnixStream::connect(path))
        .map_err(|error| Silence::of_connect(&error))?;
    let told = stream
        .set_write_timeout(Some(TIMEOUT))
        .and_then(|()| stream.write_all(format!("{request}\n").as_bytes()));
    match told {
        Ok(()) => Ok(stream),
        Err(error) => Err(Silence::of(&error, &stream, TIMEOUT)),
    }
}

fn answer(stream: &UnixStream, timeout: Duration, bytes_max: u64) -> Result<String, Silence> {
    let mut answer = String::new();
    let told = stream
        .set_read_timeout(Some(timeout))
        .and_then(|()| (&*stream).take(bytes_max).read_to_string(&mut answer));
    told.map(|_| answer).map_err(|error| Silence::of(&error, stream, timeout))
}

/// Returns whether a byte arrives, or the server closes the connection, within `timeout`.
fn is_answered(stream: &UnixStream, timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).ok();
    let ready = poll(&mut [PollFd::new(stream, PollFlags::IN)], timeout.as_ref());
    !matches!(ready, Ok(0))
}

fn process_of(stream: &UnixStream) -> Option<i32> {
    socket_peercred(stream).ok().map(|peer| peer.pid.as_raw_nonzero().get())
}

/// Returns a process id as a part of a line.
fn named(process: Option<i32>) -> String {
    process.map_or_else(String::new, |process| format!(", process {process},"))
}
