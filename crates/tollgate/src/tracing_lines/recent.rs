//! The last warnings and errors of the log, for the status of the server.

use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::json::PLACE_PREFIX;
use super::library::{LOG_TARGET, LibraryLimit, Turn};
use super::misleading::is_misleading;
use crate::wall;
const LINES_MAX: usize = 20;
/// Maximum number of characters of a text.
const TEXT_MAX: usize = 400;

static LINES: Mutex<VecDeque<RecentLine>> = Mutex::new(VecDeque::new());

/// A line of the log.
#[derive(Debug, Clone)]
pub(crate) struct RecentLine {
    pub(crate) at: Timestamp,
    /// `warn` or `error`.
    pub(crate) level: &'static str,
    /// The message, then the fields as `name=value`.
    pub(crate) text: String,
}

/// Returns the last warnings and errors, oldest first.
pub(crate) fn recent() -> Vec<RecentLine> {
    lines().iter().cloned().collect()
}

fn lines() -> MutexGuard<'static, VecDeque<RecentLine>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps each event of level WARN and ERROR. A library cannot displace all other lines.
#[derive(Default)]
pub(super) struct RecentLines {
    limit: LibraryLimit,
}

impl<S: Subscriber> Layer<S> for RecentLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            _ => return,
        };
        let mut text = Text::default();
        event.record(&mut text);
        let target = text.target.as_deref().unwrap_or(event.metadata().target());
        if self.limit.take(target) == Turn::LeaveOut {
            return;
        }
        let line = RecentLine { at: wall::now(), level, text: text.finish() };
        let mut lines = lines();
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// The message and the fields of an event.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
    /// The target of a library's line.
    target: Option<String>,
}

impl Text {
    /// Returns the text without control characters, because a reader may show it on a terminal.
    fn finish(mut self) -> String {
        self.message.push_str(&self.fields);
        let is_harmful = |character: char| character.is_control() || is_misleading(character);
        self.message
            .chars()
            .take(TEXT_MAX)
            .map(|character| if is_harmful(character) { ' ' } else { character })
            .collect()
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            LOG_TARGET => self.target = Some(value.to_owned()),
            // These fields name folders of the machine that built the program.
            name if name.starts_with(PLACE_PREFIX) => {}
            name => drop(write!(self.fields, " {name}={value}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => drop(write!(self.message, "{value:?}")),
            name if name.starts_with(PLACE_PREFIX) => {}
            name => drop(write!(self.fields, " {name}={value:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    use super::*;

    #[test]
    fn the_last_warnings_are_kept_and_a_forged_line_stays_one_line() {
        let subscriber = registry().with(RecentLines::default());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("not kept");
            for number in 0..LINES_MAX {
                tracing::warn!(number, "kept");
            }
            tracing::error!(error = "a\nERROR forged \u{202e}", "the last");
        });
        let lines = recent();
        let (first, last) = (&lines[0], &lines[LINES_MAX - 1]);
        assert_eq!((lines.len(), first.level, &*first.text), (LINES_MAX, "warn", "kept number=1"));
        assert_eq!((last.level, &*last.text), ("error", "the last error=a ERROR forged  "));
    }

    #[test]
    fn a_long_text_is_cut() {
        let text = Text { message: "ü".repeat(TEXT_MAX + 1), ..Text::default() };
        assert_eq!(text.finish(), "ü".repeat(TEXT_MAX));
    }
}
