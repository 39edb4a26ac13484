//! `<log.dir>/control.sock`: what other processes ask a server, in one line each.
//!
//! `watermark` is answered by `LOG-ID SEQUENCE`: how far the log is synced. `loaded SINK LOG-ID SEQUENCE` tells how far a sink of
//! the server's configuration has a log, durably, so that retention may go on; it has no answer. `reload` is answered, when the reload is done,
//! by the exit code for `tollgate reload` in a line of its own, and lines for people. Then the connection is closed. Whoever may
//! connect decides the mode of the socket, which the umask gave: nobody but the owner, as a rule.
//!
//! The socket is no state: a start removes what a dead server left, and a server that cannot make it serves all the same.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tollgate_log::{Follower, LogId, Sequence, Watermark};

const NAME: &str = "control.sock";
/// How long either side waits for the other.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long a reload may take: longer than the server lets it.
const RELOAD_TIMEOUT: Duration = Duration::from_mins(3);
const WATERMARK: &str = "watermark";
const RELOAD: &str = "reload";
const LOADED: &str = "loaded ";
/// A word, the name of a sink, an id and a number.
const REQUEST_BYTES_MAX: u64 = 256;
/// An id, a blank, a number and a line end.
const WATERMARK_BYTES_MAX: u64 = 64;
const RELOADED_BYTES_MAX: u64 = 1 << 20;
/// Between two tries to accept, when the system has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers until it is dropped.
pub(crate) struct Control {
    socket: PathBuf,
}

/// Somebody who asked for a reload and waits.
pub(crate) struct Asker(UnixStream);

/// What became of a reload, for whoever asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// 0 done, 1 failed, 2 wrong configuration.
    pub(crate) code: u8,
    /// Lines for people.
    pub(crate) text: String,
}

impl Asker {
    /// Whoever went away needs no answer.
    pub(crate) fn tell(mut self, Reloaded { code, text }: &Reloaded) {
        drop(self.0.write_all(format!("{code}\n{text}").as_bytes()));
    }
}

impl Control {
    /// Begins to answer. The caller holds the lock of the folder; what sinks have is confirmed to their followers, who asks
    /// for a reload is given to `on_reload`.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(crate) fn serve(
        dir: &Path,
        log: Follower,
        sinks: Vec<(String, Follower)>,
        on_reload: impl Fn(Asker) + Send + 'static,
    ) -> anyhow::Result<Self> {
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
                    Ok(stream) => drop(answer(stream, &log, &sinks, &on_reload)),
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

fn answer(
    mut stream: UnixStream,
    log: &Follower,
    sinks: &[(String, Follower)],
    on_reload: &impl Fn(Asker),
) -> io::Result<()> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut request = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES_MAX)).read_line(&mut request)?;
    match request.trim_end() {
        WATERMARK => {
            let Watermark { log, synced } = log.watermark();
            stream.write_all(format!("{log} {synced}\n").as_bytes())
        }
        RELOAD => {
            on_reload(Asker(stream));
            Ok(())
        }
        request => {
            if let Some(Loaded { sink, log, last }) = request.strip_prefix(LOADED).and_then(read_loaded) {
                let named = sinks.iter().filter(|(name, _)| *name == sink);
                named.for_each(|(_, follower)| follower.confirm(log, last));
            }
            Ok(())
        }
    }
}

/// What a sink has of a log.
struct Loaded<'a> {
    sink: &'a str,
    log: LogId,
    last: Sequence,
}

fn read_loaded(told: &str) -> Option<Loaded<'_>> {
    let mut words = told.split(' ');
    let (sink, log, last) = (words.next()?, words.next()?, words.next()?);
    words.next().is_none().then_some(())?;
    Some(Loaded { sink, log: log.parse().ok()?, last: Sequence(last.parse().ok()?) })
}

/// Tells the server of a log folder how far a sink has a log. A server that is not there hears it later.
pub(crate) fn tell_loaded(dir: &Path, sink: &str, log: LogId, last: Sequence) {
    exchange(dir, &format!("{LOADED}{sink} {log} {last}"), TIMEOUT, WATERMARK_BYTES_MAX);
}

/// Asks the server of a log folder how far its log is synced. None: no server answers.
pub(crate) fn ask(dir: &Path) -> Option<Watermark> {
    read_answer(&exchange(dir, WATERMARK, TIMEOUT, WATERMARK_BYTES_MAX)?)
}

/// Has the server of a log folder reload, and waits until it did or refused to. None: no server answers.
pub(crate) fn ask_reload(dir: &Path) -> Option<Reloaded> {
    let answer = exchange(dir, RELOAD, RELOAD_TIMEOUT, RELOADED_BYTES_MAX)?;
    let (code, text) = answer.split_once('\n')?;
    Some(Reloaded { code: code.parse().ok()?, text: text.to_owned() })
}

fn exchange(dir: &Path, request: &str, timeout: Duration, bytes_max: u64) -> Option<String> {
    let mut stream = through_folder(dir, |path| UnixStream::connect(path)).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    stream.set_read_timeout(Some(timeout)).ok()?;
    stream.write_all(format!("{request}\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.take(bytes_max).read_to_string(&mut answer).ok()?;
    Some(answer)
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
        let reloaded = || Reloaded { code: 2, text: "t.toml: wrong\n".to_owned() };
        let control =
            Control::serve(&dir, log.follower(), Vec::new(), move |asker| asker.tell(&reloaded())).unwrap();
        assert_eq!(ask(&dir), Some(Watermark { log: log.id(), synced: Sequence(0) }));
        assert_eq!(ask_reload(&dir), Some(reloaded()));
        assert_eq!(exchange(&dir, "format the disk", TIMEOUT, 64).as_deref(), Some(""));
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
