//! The server's side of the control socket: one thread accepts connections, each client has a thread, and
//! each follower has a second thread.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use socket2::{Domain, SockAddr, Socket, Type};
use tollgate_log::Follower;

use super::{
    FOLLOW, HEARTBEAT, LINE_BYTES_MAX, LOADED, Loaded, NAME, NEW_NAME, RELOAD, RENEW, REPORT, Reloaded,
    STATUS, TIMEOUT, UPGRADE, UPGRADE_OF, WATERMARK, through_folder, watermark_line,
};
use crate::board::Board;
use crate::sinks::Followers;

/// Maximum number of clients at the same time.
pub(super) const CLIENTS_MAX: usize = 32;
/// Maximum number of followers at the same time. The remaining `CLIENTS_MAX - FOLLOWERS_MAX` clients can only
/// ask short questions.
pub(super) const FOLLOWERS_MAX: usize = 24;
/// Permissions of the socket. A client can order a reload, so only the user of the server may connect.
const SOCKET_MODE: u32 = 0o600;
const BACKLOG: i32 = 128;
/// Maximum bytes of a question: the longest path of a program, and a word.
const QUESTION_BYTES_MAX: usize = 4096 + 256;
/// Minimum pause between two lines to a follower, even if the watermark moves faster.
const PUSH_PAUSE: Duration = Duration::from_millis(10);
/// Pause between two tries to accept when the system has no free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers clients until it is dropped.
pub(crate) struct Control {
    socket: PathBuf,
    server: Arc<ControlServer>,
    /// Whether a successor listens at this path.
    is_left: bool,
}

/// State that the threads of the clients share.
struct ControlServer {
    /// The log that this process writes. `None`: it writes none, so it answers no question about it.
    log: Option<Follower>,
    /// The sinks of the configuration. Each reported position is confirmed to the follower of its sink.
    sinks: Followers,
    board: Board,
    on_status: Box<dyn Fn() -> String + Send + Sync>,
    on_order: Box<dyn Fn(ControlOrder, Asker) + Send + Sync>,
    clients: AtomicUsize,
    followers: AtomicUsize,
    /// Whether the followers have to connect to the successor.
    is_ended: AtomicBool,
    /// Number of followers since the start. This number is the id of the next follower.
    followed: AtomicU64,
}

/// An order of a client.
pub(crate) enum ControlOrder {
    /// Read the configuration again.
    Reload,
    /// Renew the certificate of this name, or all certificates.
    Renew(Option<String>),
    /// Start this program, or the present one again, and hand everything over to it.
    Upgrade(Option<PathBuf>),
}

/// A client that gave an order and waits for the outcome.
pub(crate) struct Asker(UnixStream);

impl Asker {
    /// Sends the answer. An error is ignored, because a client that has closed the connection needs no
    /// answer.
    pub(crate) fn reply(mut self, Reloaded { code, text }: &Reloaded) {
        drop(self.0.write_all(format!("{code}\n{text}").as_bytes()));
    }
}

impl Control {
    /// Begins to answer clients. The caller holds the lock of the folder.
    ///
    /// Positions of sinks are confirmed to their followers, and reports of other loaders go to the board.
    /// `on_status` returns the status in one line. Orders go to `on_order`.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(crate) fn serve(
        dir: &Path,
        log: Option<Follower>,
        sinks: Followers,
        board: Board,
        on_status: impl Fn() -> String + Send + Sync + 'static,
        on_order: impl Fn(ControlOrder, Asker) + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let socket = dir.join(NAME);
        let listener = through_folder(&socket, listen)
            .with_context(|| format!("cannot listen on {}", socket.display()))?;
        let server = Arc::new(ControlServer {
            log,
            sinks,
            board,
            on_status: Box::new(on_status),
            on_order: Box::new(on_order),
            clients: AtomicUsize::new(0),
            followers: AtomicUsize::new(0),
            is_ended: AtomicBool::new(false),
            followed: AtomicU64::new(0),
        });
        let accepted = server.clone();
        let accept = move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => admit(stream, &accepted),
                    Err(_) => thread::sleep(ACCEPT_PAUSE),
                }
            }
        };
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(accept)
            .context("cannot start the thread of the control socket")?;
        Ok(Self { socket, server, is_left: false })
    }

    /// Leaves the path to a successor. Clients of this process are still answered.
    pub(crate) fn leave(&mut self) {
        self.is_left = true;
    }

    /// Closes the connections of all loaders, which then connect to the successor.
    pub(crate) fn release_followers(&self) {
        self.server.is_ended.store(true, Ordering::Relaxed);
    }
}

/// The mode is set before the socket listens, so no client can connect earlier. The socket gets its name when
/// it listens, and replaces the socket of a predecessor. So at each moment one of both listens.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let new = path.with_file_name(NEW_NAME);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(&new)?)?;
    fs::set_permissions(&new, Permissions::from_mode(SOCKET_MODE))?;
    socket.listen(BACKLOG)?;
    fs::rename(&new, path)?;
    Ok(socket.into())
}

impl Drop for Control {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        // If this fails, the next start removes the socket.
        drop(fs::remove_file(&self.socket));
    }
}

/// A permit for one client. The number of permits is bounded. Dropping a permit admits the next client.
struct ControlPermit<'a>(&'a AtomicUsize);

impl<'a> ControlPermit<'a> {
    fn take(taken: &'a AtomicUsize, count_max: usize) -> Option<Self> {
        let more = |count| (count < count_max).then_some(count + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(taken))
    }
}

impl Drop for ControlPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A client while it is answered. Fields are dropped in their order, so the permit is free before the client
/// sees its connection closed.
struct ControlClient<'a> {
    _permit: ControlPermit<'a>,
    stream: UnixStream,
}

/// Starts a thread for a client. If `CLIENTS_MAX` is reached or no thread can be started, the connection is
/// closed.
fn admit(stream: UnixStream, server: &Arc<ControlServer>) {
    let server = server.clone();
    let answer = move || {
        if let Some(permit) = ControlPermit::take(&server.clients, CLIENTS_MAX) {
            // A client that has closed the connection needs no answer.
            drop(server.answer(ControlClient { _permit: permit, stream }));
        }
    };
    drop(thread::Builder::new().name("control-client".to_owned()).spawn(answer));
}

impl ControlServer {
    fn answer(&self, mut client: ControlClient<'_>) -> io::Result<()> {
        client.stream.set_write_timeout(Some(TIMEOUT))?;
        let (question, behind) = read_question(&client.stream)?;
        match &*question {
            WATERMARK => match &self.log {
                Some(log) => client.stream.write_all(watermark_line(log.watermark()).as_bytes()),
                None => Ok(()),
            },
            STATUS => client.stream.write_all(format!("{}\n\n", (self.on_status)()).as_bytes()),
            RELOAD => {
                (self.on_order)(ControlOrder::Reload, Asker(client.stream));
                Ok(())
            }
            FOLLOW => match (&self.log, ControlPermit::take(&self.followers, FOLLOWERS_MAX)) {
                (Some(log), Some(_permit)) => self.be_followed(log, &client.stream, &behind),
                _ => Ok(()),
            },
            order if order == UPGRADE || order.starts_with(UPGRADE_OF) => {
                let program = order.strip_prefix(UPGRADE_OF).map(PathBuf::from);
                (self.on_order)(ControlOrder::Upgrade(program), Asker(client.stream));
                Ok(())
            }
            order => {
                let name = order.strip_prefix(RENEW);
                let name = name.filter(|name| name.is_empty() || name.starts_with(' ')).map(str::trim_start);
                if let Some(name) = name {
                    let name = (!name.is_empty()).then(|| name.to_owned());
                    (self.on_order)(ControlOrder::Renew(name), Asker(client.stream));
                }
                Ok(())
            }
        }
    }

    /// Sends watermarks and reads reports, until either side closes the connection.
    fn be_followed(&self, log: &Follower, stream: &UnixStream, behind: &[u8]) -> io::Result<()> {
        stream.set_read_timeout(None)?;
        let id = self.followed.fetch_add(1, Ordering::Relaxed);
        let heard = thread::scope(|scope| {
            let pusher = thread::Builder::new().name("control-push".to_owned());
            pusher.spawn_scoped(scope, || push(stream, log, &self.is_ended))?;
            let heard = self.read_reports(id, BufReader::new(behind.chain(stream)));
            // After the shutdown, the next write of the other thread fails, and the thread ends.
            drop(stream.shutdown(Shutdown::Both));
            heard
        });
        self.board.forget(id);
        heard
    }

    fn read_reports(&self, id: u64, mut lines: impl BufRead) -> io::Result<()> {
        let mut line = String::new();
        loop {
            line.clear();
            (&mut lines).take(LINE_BYTES_MAX as u64).read_line(&mut line)?;
            let Some(text_line) = line.strip_suffix('\n') else { return Ok(()) };
            if let Some(Loaded { sink, log, last }) = text_line.strip_prefix(LOADED).and_then(Loaded::read) {
                self.sinks.confirm(sink, log, last);
            } else if let Some(report) = text_line.strip_prefix(REPORT).and_then(|json| json.parse().ok()) {
                self.board.note_report(id, report);
            }
        }
    }
}

/// Sends the watermark each time that it moves, until a write fails or a successor has the followers.
fn push(mut stream: &UnixStream, log: &Follower, is_ended: &AtomicBool) {
    let mut watermark = log.watermark();
    while !is_ended.load(Ordering::Relaxed) && stream.write_all(watermark_line(watermark).as_bytes()).is_ok()
    {
        thread::sleep(PUSH_PAUSE);
        watermark = log.wait_beyond(watermark.synced, HEARTBEAT);
    }
    drop(stream.shutdown(Shutdown::Both));
}

/// Reads the first line within the timeout. Also returns the bytes that arrived after this line.
fn read_question(mut stream: &UnixStream) -> io::Result<(String, Vec<u8>)> {
    let deadline = Instant::now() + TIMEOUT;
    let mut read = Vec::with_capacity(QUESTION_BYTES_MAX);
    loop {
        if let Some(end) = read.iter().position(|byte| *byte == b'\n') {
            let behind = read.split_off(end + 1);
            read.truncate(end);
            let question = String::from_utf8(read).map_err(|_| io::ErrorKind::InvalidData)?;
            return Ok((question, behind));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || read.len() >= QUESTION_BYTES_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut part = [0; QUESTION_BYTES_MAX];
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => read.extend_from_slice(&part[..bytes]),
        }
    }
}
