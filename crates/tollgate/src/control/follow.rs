//! The loader's side of the control socket, in another process: one connection that lasts as long as the
//! server.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tollgate_load::LiveLog;
use tollgate_log::{LogId, Sequence, Watermark};

use super::{
    FOLLOW, HEARTBEAT, LINE_BYTES_MAX, Loaded, NAME, REPORT, TIMEOUT, read_watermark, through_folder,
};
use crate::config::denial_of;

/// Time between two tries to connect while there is no server.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// A server that sends no byte for this time is treated as ended.
const SILENCE_MAX: Duration = HEARTBEAT.saturating_mul(5);

/// The log that a server in another process writes. Its watermark arrives over the control socket of this
/// server.
#[derive(Clone)]
pub(crate) struct RemoteLog(Arc<Link>);

struct Link {
    dir: PathBuf,
    sink: String,
    state: Mutex<LinkState>,
    moved: Condvar,
}

#[derive(Default)]
struct LinkState {
    /// The connection to the server, while there is a server.
    server: Option<UnixStream>,
    watermark: Option<Watermark>,
    /// The last record of each log that the sink has. A server that starts later gets these positions when it
    /// connects.
    loaded: BTreeMap<LogId, Sequence>,
}

impl RemoteLog {
    /// Starts a thread that tries repeatedly to connect to the server of a log folder, until the last handle
    /// is dropped.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn follow(dir: &Path, sink: &str) -> anyhow::Result<Self> {
        let (dir, sink) = (dir.to_owned(), sink.to_owned());
        let (state, moved) = (Mutex::default(), Condvar::new());
        let link = Arc::new(Link { dir, sink, state, moved });
        // A loader needs the watermark when it first reads the log, so this function makes the first try to
        // connect.
        let first = link.connect();
        if first.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            let reason = denial_of(&link.dir.join(NAME));
            tracing::warn!(
                reason,
                "only sealed segments are loaded, and the server does not learn the positions of this loader"
            );
        }
        let first = first.ok();
        let heard = link.clone();
        let hear = move || {
            let mut server = first;
            // This thread holds one of the counted handles. The thread ends when no other handle is left.
            while Arc::strong_count(&heard) > 1 {
                if let Some(lines) = server.take() {
                    heard.read_watermarks(lines);
                }
                thread::sleep(LOOK_PAUSE);
                server = heard.connect().ok();
            }
        };
        thread::Builder::new()
            .name("control-link".to_owned())
            .spawn(hear)
            .context("cannot start the thread of the link to the server")?;
        Ok(Self(link))
    }

    /// Reports the state of the sink to the server. Without a server the report is dropped.
    pub(crate) fn report(&self, report: &Value) {
        self.0.state().say(&format!("{REPORT}{report}\n"));
    }
}

impl LinkState {
    fn say(&mut self, line: &str) {
        let said = self.server.as_mut().map(|server| server.write_all(line.as_bytes()));
        if let Some(Err(_)) = said {
            self.hang_up();
        }
    }

    fn hang_up(&mut self) {
        if let Some(server) = self.server.take() {
            // After the shutdown, the reading thread gets the end of the stream and stops reading.
            drop(server.shutdown(Shutdown::Both));
        }
        self.watermark = None;
    }
}

impl Link {
    /// Locks the state, also after a panic of another thread. The state is consistent after every statement.
    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects to the server, reports the loaded positions, and reads the first watermark.
    fn connect(&self) -> io::Result<BufReader<UnixStream>> {
        let mut stream = through_folder(&self.dir.join(NAME), |path| UnixStream::connect(path))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.write_all(format!("{FOLLOW}\n").as_bytes())?;
        let mut lines = BufReader::new(stream.try_clone()?);
        let watermark = read_line(&mut lines)?;
        let mut state = self.state();
        (state.server, state.watermark) = (Some(stream), Some(watermark));
        let told = state.loaded.iter().map(|(log, last)| self.loaded(*log, *last)).collect::<String>();
        state.say(&told);
        drop(state);
        self.moved.notify_all();
        Ok(lines)
    }

    /// Reads watermarks from the server until the server has ended.
    fn read_watermarks(&self, mut lines: BufReader<UnixStream>) {
        while let Ok(watermark) = read_line(&mut lines) {
            self.state().watermark = Some(watermark);
            self.moved.notify_all();
        }
        self.state().hang_up();
        self.moved.notify_all();
    }

    fn loaded(&self, log: LogId, last: Sequence) -> String {
        Loaded { sink: &self.sink, log, last }.line()
    }
}

/// Reads one watermark.
fn read_line(lines: impl BufRead) -> io::Result<Watermark> {
    let mut line = String::new();
    lines.take(LINE_BYTES_MAX as u64).read_line(&mut line)?;
    read_watermark(&line).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

impl LiveLog for RemoteLog {
    fn watermark(&self) -> Option<Watermark> {
        self.0.state().watermark
    }

    fn wait_beyond(&self, seen: Sequence, timeout: Duration) -> Option<Watermark> {
        let is_same = |state: &mut LinkState| state.watermark.is_some_and(|now| now.synced <= seen);
        let waited = self.0.moved.wait_timeout_while(self.0.state(), timeout, is_same);
        waited.unwrap_or_else(PoisonError::into_inner).0.watermark
    }

    fn confirm(&self, log: LogId, last: Sequence) {
        let mut state = self.0.state();
        state.loaded.insert(log, last);
        state.say(&self.0.loaded(log, last));
    }
}

impl Drop for RemoteLog {
    fn drop(&mut self) {
        // If two handles are left, they are this handle and the handle of the reading thread.
        if Arc::strong_count(&self.0) <= 2 {
            self.0.state().hang_up();
        }
    }
}
