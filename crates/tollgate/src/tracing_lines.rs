//! The lines that tell what happens: text for a person at a terminal, JSON for a machine.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;

/// Starts to write them to stderr; RUST_LOG picks what is told.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter);
    if io::stderr().is_terminal() {
        lines.with_writer(|| Indented(io::stderr().lock())).with_target(false).init();
    } else {
        lines.with_writer(io::stderr).json().flatten_event(true).init();
    }
}

/// Sets the second and later lines of an event in from the left. A text of a client may have line ends, and could write what
/// looks like a line of the server otherwise.
pub(crate) struct Indented<W>(pub(crate) W);

/// An event comes by one call.
impl<W: Write> Write for Indented<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let lines = event.strip_suffix(b"\n").unwrap_or(event);
        let mut shown = Vec::with_capacity(event.len());
        for (index, line) in lines.split(|byte| matches!(byte, b'\n' | b'\r')).enumerate() {
            if index > 0 {
                shown.extend_from_slice(b"\n    ");
            }
            shown.extend_from_slice(line);
        }
        shown.push(b'\n');
        self.0.write_all(&shown)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
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
    }
}
