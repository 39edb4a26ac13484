//! The log lines of the process: text for a person at a terminal, JSON for a machine.

mod json;
mod library;
mod misleading;
mod queue;
mod recent;
mod text;

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::colour;
use json::JsonLines;
pub(crate) use misleading::is_misleading;
use queue::LineQueue;
use recent::RecentLines;
pub(crate) use recent::{RecentLine, recent};
use text::TextLines;

/// Time for which a process waits at its end until the remaining lines are read.
const PATIENCE: Duration = Duration::from_secs(1);

/// The events and spans without `RUST_LOG`. The client of Kafka has a span for each record at the level
/// `info`, which would cost more than the record itself. Its warnings repeat failures that the sinks report.
const EVENTS: &str = "info,krafka=error";

/// The queue of log lines in a process that runs until it is stopped. Other processes have no queue: they
/// write to stderr directly, and wait until the write is done.
static QUEUE: OnceLock<Arc<LineQueue>> = OnceLock::new();

/// Starts a thread that writes the lines to stderr. `RUST_LOG` selects the events.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(EVENTS));
    let lines = tracing_subscriber::fmt().with_env_filter(filter);
    if io::stderr().is_terminal() {
        let lines = lines.with_writer(|| Indented(Lines)).with_ansi(colour::is_on(&io::stderr()));
        lines.event_format(TextLines::default()).finish().with(RecentLines::default()).init();
    } else {
        let lines = lines.with_writer(|| Escaped(Lines)).event_format(JsonLines::default());
        lines.finish().with(RecentLines::default()).init();
    }
    let queue = QUEUE.get_or_init(Arc::default);
    let write = || queue.write(io::stderr(), log_left_out);
    thread::Builder::new()
        .name("lines".to_owned())
        .spawn(write)
        .context("cannot start the thread that writes log lines")?;
    Ok(())
}

fn log_left_out(left_out: u64) {
    tracing::warn!(left_out, "log lines were dropped, because stderr was not read fast enough");
}

/// Returns the number of lines that were left out because the reader was too slow.
pub(crate) fn left_out() -> u64 {
    QUEUE.get().map_or(0, |queue| queue.left_out())
}

/// Writes a text unchanged, after the lines before it.
pub(crate) fn write(text: &[u8]) {
    match QUEUE.get() {
        Some(queue) => queue.push(text.to_vec()),
        // An error is ignored, because a reader that closed stderr needs no more lines.
        None => drop(io::stderr().write_all(text)),
    }
}

/// Writes the remaining lines before the process ends, for at most `PATIENCE`.
pub(crate) fn finish() {
    if let Some(queue) = QUEUE.get() {
        queue.wait_written(PATIENCE);
    }
}

/// Writes events to the queue. Each event arrives in one call.
struct Lines;

impl Write for Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        // An event that is left out has no text.
        if !event.is_empty() {
            write(event);
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Indents the second and later lines of an event. A client's text may have line ends, and could otherwise
/// imitate a line of the server.
pub(crate) struct Indented<W>(pub(crate) W);

/// An event arrives in one call.
impl<W: Write> Write for Indented<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let lines = event.strip_suffix(b"\n").unwrap_or(event);
        let mut shown = Vec::with_capacity(event.len());
        for (index, line) in lines.split(|byte| matches!(byte, b'\n' | b'\r')).enumerate() {
            if index > 0 {
                shown.extend_from_slice(b"\n    ");
            }
            for character in String::from_utf8_lossy(line).chars() {
                if is_misleading(character) {
                    shown.extend(character.escape_unicode().map(|part| part as u8));
                } else {
                    shown.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        shown.push(b'\n');
        self.0.write_all(&shown)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Escapes characters in a line of JSON that JSON leaves unchanged. Such characters control a terminal, or
/// some readers treat them as a line end. An event arrives in one call.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut shown = String::with_capacity(event.len());
        for character in String::from_utf8_lossy(event).chars() {
            match character {
                '\u{7f}'..='\u{9f}' => escape(&mut shown, character),
                _ if is_misleading(character) => escape(&mut shown, character),
                _ => shown.push(character),
            }
        }
        self.0.write_all(shown.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Appends a character as an escape of a JSON string.
fn escape(shown: &mut String, character: char) {
    shown.push_str(&format!("\\u{:04x}", u32::from(character)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_of_an_event_begins_at_the_left() {
        let check = |event: &str, expect: &str| {
            let mut shown = Indented(Vec::new());
            shown.write_all(event.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(shown.0).unwrap(), expect, "{event:?}");
        };
        check("INFO one line\n", "INFO one line\n");
        check("WARN of a client: a\nERROR forged\n", "WARN of a client: a\n    ERROR forged\n");
        check("WARN of a client: a\rERROR forged\n", "WARN of a client: a\n    ERROR forged\n");
        check("WARN ü: a\u{202e}b\u{2066}c\0\n", "WARN ü: a\\u{202e}b\\u{2066}c\\u{0}\n");
    }

    #[test]
    fn a_line_of_json_holds_nothing_that_steers_a_terminal_and_reads_back() {
        let text = "ü a\u{7f}b\u{9b}2Jc\u{85}d\u{2028}e\u{2029}f\u{202e}g\u{2066}";
        let event = format!("{}\n", serde_json::json!({ "message": text }));
        let mut shown = Escaped(Vec::new());
        shown.write_all(event.as_bytes()).unwrap();
        let shown = String::from_utf8(shown.0).unwrap();
        let line = "{\"message\":\"ü a\\u007fb\\u009b2Jc\\u0085d\\u2028e\\u2029f\\u202eg\\u2066\"}\n";
        assert_eq!(shown, line);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap()["message"], text);
    }
}
