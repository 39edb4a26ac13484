//! A log line as text, for a person at a terminal.

use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::library::{LOG_TARGET, LibraryLimit, Turn};

/// Writes each event as a line of text. A second line has the number of lines of the library that were left
/// out before.
pub(super) struct TextLines {
    limit: LibraryLimit,
    format: Format<Full>,
}

impl Default for TextLines {
    fn default() -> Self {
        Self { limit: LibraryLimit::default(), format: Format::default().with_target(false) }
    }
}

impl<S, N> FormatEvent<S, N> for TextLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut library = LogTarget(None);
        event.record(&mut library);
        let target = library.0.as_deref().unwrap_or(event.metadata().target());
        let Turn::Print { left_out } = self.limit.take(target) else { return Ok(()) };
        self.format.format_event(context, writer.by_ref(), event)?;
        if left_out > 0 {
            writeln!(writer, "left_out={left_out}")?;
        }
        Ok(())
    }
}

/// The target of a line that a library wrote by the crate `log`.
struct LogTarget(Option<String>);

impl Visit for LogTarget {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == LOG_TARGET {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Shown(Arc<Mutex<Vec<u8>>>);

    impl Shown {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Shown {
        fn write(&mut self, event: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(event);
            Ok(event.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_library_prints_a_few_lines_a_second_on_a_terminal_too() {
        let shown = Shown::default();
        let writer = shown.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).event_format(TextLines::default());
        tracing::subscriber::with_default(lines.with_writer(move || writer.clone()).finish(), || {
            for _ in 0..100 {
                tracing::info!(target: "library", "a notice");
                tracing::info!("a line of our own");
            }
            let count = |text: &str| shown.text().matches(text).count();
            assert!((5..100).contains(&count("a notice")), "{}", shown.text());
            assert_eq!(count("a line of our own"), 100);
            // The next line of the library that is printed has the number of the lines before it.
            while count("left_out=") == 0 {
                tracing::info!(target: "library", "a notice");
            }
        });
        assert!(shown.text().ends_with('\n') && !shown.text().contains("library"), "{}", shown.text());
    }
}
