//! `<log.dir>/control.sock`: what a server tells other processes of its log, here how far it is synced.
//!
//! Whoever connects gets one line, `LOG-ID SEQUENCE`, and the connection is closed. The socket is no state: a start
//! removes what a dead server left, and a server that cannot make it serves all the same.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tollgate_log::{Follower, Sequence, Watermark};

const NAME: &str = "control.sock";
/// How long either side waits for the other.
const TIMEOUT: Duration = Duration::from_secs(1);
/// An answer is an id, a blank, a number and a line end.
const ANSWER_BYTES_MAX: u64 = 64;
/// Between two tries to accept, when the system has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers until it is dropped.
pub(crate) struct Control {
    socket: PathBuf,
}

impl Control {
    /// Begins to answer. The caller holds the lock of the folder.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(crate) fn serve(dir: &Path, log: Follower) -> anyhow::Result<Self> {
        let socket = dir.join(NAME);
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", socket.display()));
            }
            _ => {}
        }
        let listener = through_folder(dir, |path| UnixListener::bind(path))
            .with_context(|| format!("cannot listen on {}", socket.display()))?;
        let answer = move || {
            for stream in listener.incoming() {
                match stream {
                    // Whoever went away needs no answer.
                    Ok(stream) => drop(tell(stream, log.watermark())),
                    Err(_) => thread::sleep(ACCEPT_PAUSE),
                }
            }
        };
        thread::Builder::new().name("control".to_owned()).spawn(answer).context("cannot start a thread")?;
        Ok(Self { socket })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // What stays is removed by the next start.
        drop(fs::remove_file(&self.socket));
    }
}

fn tell(mut stream: UnixStream, Watermark { log, synced }: Watermark) -> io::Result<()> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("{log} {synced}\n").as_bytes())
}

/// Asks the server of a log folder how far its log is synced. None: no server answers.
pub(crate) fn ask(dir: &Path) -> Option<Watermark> {
    let stream = through_folder(dir, |path| UnixStream::connect(path)).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).ok()?;
    read_answer(&answer)
}

fn read_answer(answer: &str) -> Option<Watermark> {
    let (log, synced) = answer.strip_suffix('\n')?.split_once(' ')?;
    Some(Watermark { log: log.parse().ok()?, synced: Sequence(synced.parse().ok()?) })
}

/// Names the socket by a descriptor of its folder: the path of a socket has at most 107 bytes (unix(7)), that of the
/// folder any length.
fn through_folder<T>(dir: &Path, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let folder = File::open(dir)?;
    open(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;

    use tollgate_log::{DiskStorage, Log, LogOptions};

    #[test]
    fn a_server_tells_how_far_its_log_is_synced_and_takes_the_place_of_a_dead_one() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("a".repeat(120));
        fs::create_dir(&dir).unwrap();
        assert_eq!(ask(&dir), None);
        fs::write(dir.join(NAME), "left by a dead one").unwrap();
        let (log, _) = Log::open(Arc::new(DiskStorage), LogOptions::new(&dir), Vec::new(), |_| {}).unwrap();
        let control = Control::serve(&dir, log.follower()).unwrap();
        assert_eq!(ask(&dir), Some(Watermark { log: log.id(), synced: Sequence(0) }));
        drop(control);
        assert_eq!(ask(&dir), None);
        assert!(!dir.join(NAME).exists());
    }

    #[test]
    fn an_answer_is_read_strictly() {
        let id = "01a1fcf7-2b4c-7747-a271-7032fab340a1";
        assert!(read_answer(&format!("{id} 7\n")).is_some());
        for wrong in ["", "\n", "7\n", &format!("{id} 7"), &format!("{id} -7\n"), &format!("{id} 7 \n")] {
            assert_eq!(read_answer(wrong), None, "{wrong:?}");
        }
    }
}
