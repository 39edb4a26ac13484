//! Progress of long work. Progress is shown on stderr, and only if stderr is a terminal.
//!
//! The system counts the bytes that this process reads, so the code that does the work does not count them.
//! After each output the cursor returns to the start of the line, so the next output overwrites the line.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate_log::{DiskStorage, LogId, segments};

/// Time before progress is shown, because short work needs no progress.
const PATIENCE: Duration = Duration::from_millis(500);
const PERIOD: Duration = Duration::from_millis(200);

/// Progress of all loaders together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Number of records that were loaded since the start.
    pub(crate) records: u64,
    /// Bytes of these records.
    pub(crate) bytes: u64,
    /// Bytes of segments that are not loaded yet.
    pub(crate) left_bytes: u64,
}

/// Shows progress until it is dropped.
pub(crate) struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

impl Progress {
    /// Begins to show work that will read about `total_bytes`.
    pub(crate) fn of(work: &'static str, total_bytes: u64) -> Self {
        let before = bytes_read();
        Self::showing(work, move |time| {
            Some(state(bytes_read().saturating_sub(before).min(total_bytes), total_bytes, time))
        })
    }

    /// Begins to show work that will read each log of a folder `times` times.
    pub(crate) fn of_logs(work: &'static str, dir: &Path, logs: &[LogId], times: u64) -> Self {
        let files = logs.iter().filter_map(|log| segments(&DiskStorage, dir, *log).ok()).flatten();
        let bytes = files.filter_map(|(_, path)| fs::metadata(path).ok()).map(|file| file.len()).sum::<u64>();
        Self::of(work, times * bytes)
    }

    /// Begins to show the progress of a load: the loaded records and the remaining bytes. Nothing is shown
    /// for a load shorter than `PATIENCE`, or while nothing is left to load.
    pub(crate) fn of_load(mut look: impl FnMut() -> Load + Send + 'static) -> Self {
        let mut before: Option<(Load, Duration)> = None;
        Self::showing("load", move |time| {
            let now = look();
            if now.left_bytes == 0 {
                before = None;
                return None;
            }
            let (first, since) = before.get_or_insert((now, time));
            let time = time.saturating_sub(*since);
            let done = Load {
                records: now.records.saturating_sub(first.records),
                bytes: now.bytes.saturating_sub(first.bytes),
                ..now
            };
            (time >= PATIENCE).then(|| load_state(done, time))
        })
    }

    fn showing(
        work: &'static str,
        mut state: impl FnMut(Duration) -> Option<String> + Send + 'static,
    ) -> Self {
        let shown = io::stderr().is_terminal().then(|| {
            let (end, ended) = channel::<()>();
            let begun = Instant::now();
            let show = move || {
                let mut period = PATIENCE;
                while ended.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                    draw(
                        &state(begun.elapsed()).map_or_else(String::new, |state| format!("{work}  {state}")),
                    );
                    period = PERIOD;
                }
                draw("");
            };
            thread::Builder::new().name("progress".to_owned()).spawn(show).ok().map(|thread| (end, thread))
        });
        Self(shown.flatten())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // The thread only shows progress, so a panic in it is ignored.
            drop(thread.join());
        }
    }
}

/// Overwrites the line and returns the cursor to its start. An error is ignored, because a terminal that is
/// gone needs no progress.
fn draw(text: &str) {
    drop(write!(io::stderr().lock(), "{text}\x1b[K\r"));
}

/// Returns the bytes that this process has read from files so far (proc(5), `rchar`).
fn bytes_read() -> u64 {
    let counters = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let read = counters.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// Returns the text of progress: the bytes read, the total, and the rate.
fn state(done: u64, total: u64, time: Duration) -> String {
    let percent = (done * 100).checked_div(total).unwrap_or(100);
    let per_second = done as f64 / time.as_secs_f64().max(0.001);
    format!("{} of {}  {percent}%  {}/s", size(done), size(total), size(per_second as u64))
}

/// Returns the text of a load: records and their bytes, the percentage, both rates, and the remaining bytes.
fn load_state(Load { records, bytes, left_bytes }: Load, time: Duration) -> String {
    let rate = |count: u64| (count as f64 / time.as_secs_f64().max(0.001)) as u64;
    let (read, per_second, left) = (size(bytes), size(rate(bytes)), size(left_bytes));
    let percent = (bytes * 100).checked_div(bytes + left_bytes).unwrap_or(100);
    let per_second = format!("{} records/s  {per_second}/s", rate(records));
    format!("{records} records  {read}  {percent}%  {per_second}  {left} left")
}

pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut shown = bytes as f64 / 1024.0;
    let mut unit = 0;
    while shown >= 1024.0 && unit < UNITS.len() - 1 {
        shown /= 1024.0;
        unit += 1;
    }
    if bytes < 1024 { format!("{bytes} B") } else { format!("{shown:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_done_of_how_many_and_the_rate_are_told() {
        let second = Duration::from_secs(2);
        assert_eq!(state(512 << 20, 2 << 30, second), "512.0 MiB of 2.0 GiB  25%  256.0 MiB/s");
        assert_eq!(state(0, 0, Duration::ZERO), "0 B of 0 B  100%  0 B/s");
        assert_eq!(size(3 << 50), "3072.0 TiB");
    }

    #[test]
    fn a_load_tells_records_bytes_both_rates_and_what_is_left() {
        assert_eq!(
            load_state(
                Load { records: 41_200, bytes: 512 << 20, left_bytes: 3 << 29 },
                Duration::from_secs(2)
            ),
            "41200 records  512.0 MiB  25%  20600 records/s  256.0 MiB/s  1.5 GiB left"
        );
    }

    #[test]
    fn read_bytes_are_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [0; 50_000]).unwrap();
        let before = bytes_read();
        fs::read(file.path()).unwrap();
        assert!(bytes_read() - before >= 50_000);
    }
}
