//! The queue of lines that wait to be written to stderr. A thread that logs never waits for the reader.
//!
//! A stopped terminal, or a hung reader of a pipe, blocks only the thread that writes. While this thread is
//! blocked, lines that do not fit the queue are dropped. Their number is logged at the place where they are
//! missing. Lines keep their order.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum bytes of waiting lines. This bound is some thousand lines.
const BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
pub(super) struct LineQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// Bytes of the waiting lines, and of the line that is being written.
    bytes: usize,
    /// Number of dropped lines that are not reported yet.
    untold: u64,
    left_out: u64,
    is_writer_idle: bool,
}

/// The next step of the writer.
enum Next {
    Write(Vec<u8>),
    TellLeftOut(u64),
}

impl LineQueue {
    /// Appends a line to the queue, or drops it. After one line that does not fit, all lines are dropped
    /// until the queue is empty.
    pub(super) fn push(&self, line: Vec<u8>) {
        let mut state = self.state();
        if state.untold > 0 || state.bytes + line.len() > BYTES_MAX {
            state.untold += 1;
            state.left_out += 1;
        } else {
            state.bytes += line.len();
            state.lines.push_back(line);
        }
        self.changed.notify_all();
    }

    /// Writes the lines, and never returns. If the reader closed the pipe, lines are dropped.
    pub(super) fn write(&self, mut out: impl Write, tell_left_out: impl Fn(u64)) {
        loop {
            match self.next() {
                Next::Write(line) => {
                    drop(out.write_all(&line));
                    self.state().bytes -= line.len();
                }
                Next::TellLeftOut(count) => tell_left_out(count),
            }
        }
    }

    fn next(&self) -> Next {
        let mut state = self.state();
        loop {
            if let Some(line) = state.lines.pop_front() {
                return Next::Write(line);
            }
            if state.untold > 0 {
                return Next::TellLeftOut(std::mem::take(&mut state.untold));
            }
            state.is_writer_idle = true;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.is_writer_idle = false;
        }
    }

    /// Waits until all lines are written, for `patience` at most.
    pub(super) fn wait_written(&self, patience: Duration) {
        let is_due =
            |state: &mut State| !(state.is_writer_idle && state.lines.is_empty() && state.untold == 0);
        drop(self.changed.wait_timeout_while(self.state(), patience, is_due));
    }

    /// Returns the number of lines that were left out since the start.
    pub(super) fn left_out(&self) -> u64 {
        self.state().left_out
    }

    /// Locks the state, also after a panic of another thread. The state is consistent after every statement.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(300);

    /// A reader that accepts no bytes while the test holds the lock.
    struct Reader(Arc<Mutex<Vec<u8>>>);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_reader_of_lines_holds_nobody_up_and_gets_the_number_of_lines_left_out() {
        let (queue, read) = (Arc::new(LineQueue::default()), Arc::new(Mutex::new(Vec::new())));
        let (writing, telling, reader) = (queue.clone(), queue.clone(), Reader(read.clone()));
        thread::spawn(move || {
            let tell = |count: u64| telling.push(format!("{count} left out\n").into_bytes());
            writing.write(reader, tell);
        });
        let held = read.lock().unwrap();
        let line = |number: usize| format!("{number:01023}\n").into_bytes();
        (0..1500).for_each(|number| queue.push(line(number)));
        queue.wait_written(Duration::from_millis(1));
        drop(held);
        queue.wait_written(PATIENCE);
        queue.push(line(1500));
        queue.wait_written(PATIENCE);
        let told = String::from_utf8(read.lock().unwrap().clone()).unwrap();
        let told: Vec<_> = told.lines().map(|line| line.trim_start_matches('0')).collect();
        let mut expected: Vec<_> = (0..1024).map(|number| number.to_string()).collect();
        expected[0].clear();
        expected.extend(["476 left out".to_owned(), "1500".to_owned()]);
        assert_eq!(told, expected);
        assert_eq!(queue.left_out(), 476);
    }
}
