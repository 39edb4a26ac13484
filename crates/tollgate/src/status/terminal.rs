//! The terminal of `status --watch`: its keys, its size, and the signals that end the command. The terminal
//! gets its modes and its text back at each end, also at a signal and after a panic.

use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::low_level::pipe;

/// Changes to the alternate screen, and hides the cursor (xterm control sequences).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Shows the cursor, and returns to the first screen with its text.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Keys that end the command: `q`, `Q`, Ctrl-C, Ctrl-D.
const END_KEYS: [u8; 4] = [b'q', b'Q', 0x03, 0x04];
/// Size of a terminal that does not report its size.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// A terminal that shows a screen until the end.
pub(super) struct Terminal {
    /// The modes of stdin before the start. `None`: stdin is no terminal, so there are no keys.
    modes: Option<Termios>,
    /// Gets a byte for each signal that ends the command.
    ended: UnixStream,
    /// Gets a byte for each change of the size.
    resized: UnixStream,
}

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// The time is over, or the size has changed: the screen is drawn again.
    Draw,
    /// A key or a signal ends the command.
    End,
}

impl Terminal {
    /// Takes the terminal. `None`: stdout is no terminal.
    ///
    /// # Errors
    /// A signal cannot be received, or the modes of the terminal cannot be changed.
    pub(super) fn take() -> io::Result<Option<Self>> {
        if !io::stdout().is_terminal() {
            return Ok(None);
        }
        let (ended, teller) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            pipe::register(signal, teller.try_clone()?)?;
        }
        let (resized, teller) = UnixStream::pair()?;
        resized.set_nonblocking(true)?;
        pipe::register(SIGWINCH, teller)?;
        let modes = io::stdin().is_terminal().then(|| tcgetattr(io::stdin())).transpose()?;
        let terminal = Self { modes, ended, resized };
        if let Some(modes) = &terminal.modes {
            let mut by_key = modes.clone();
            // Each key arrives at once and is not shown. Ctrl-C is a key.
            by_key.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
            tcsetattr(io::stdin(), OptionalActions::Now, &by_key)?;
        }
        Self::show(ENTER)?;
        Ok(Some(terminal))
    }

    /// Returns columns and rows.
    pub(super) fn size() -> (usize, usize) {
        let size =
            tcgetwinsize(io::stdout()).map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        size.ok().filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(USUAL_SIZE)
    }

    /// Writes a whole screen in one call, so that the terminal shows no part of it.
    pub(super) fn show(text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Waits for a key, a signal or the end of `time`.
    pub(super) fn wait(&self, time: Duration) -> io::Result<Wake> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Wake::Draw);
            }
            let stdin = io::stdin();
            let mut waited =
                vec![PollFd::new(&self.ended, PollFlags::IN), PollFd::new(&self.resized, PollFlags::IN)];
            waited.extend(self.modes.as_ref().map(|_| PollFd::new(&stdin, PollFlags::IN)));
            match poll(&mut waited, Timespec::try_from(left).ok().as_ref()) {
                Err(Errno::INTR) => continue,
                ready => ready?,
            };
            let is_ready = |index: usize| waited.get(index).is_some_and(|fd| !fd.revents().is_empty());
            let (is_ended, is_resized, has_key) = (is_ready(0), is_ready(1), is_ready(2));
            if is_ended || (has_key && is_end_key()?) {
                return Ok(Wake::End);
            }
            if is_resized {
                drain(&self.resized);
                return Ok(Wake::Draw);
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no modes and no text.
        drop(Self::show(LEAVE));
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
        }
    }
}

/// Reads the keys that were pressed. Returns whether one of them ends the command. The end of the input ends
/// the command too, because the terminal is gone.
fn is_end_key() -> io::Result<bool> {
    let mut keys = [0; 64];
    let count = rustix::io::read(io::stdin(), &mut keys)?;
    Ok(count == 0 || keys[..count].iter().any(|key| END_KEYS.contains(key)))
}

fn drain(stream: &UnixStream) {
    let mut bytes = [0; 64];
    while rustix::io::read(stream, &mut bytes).is_ok_and(|count| count > 0) {}
}
