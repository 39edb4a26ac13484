//! Output for people and pipes. A closed pipe is no error, because its reader needs no more output.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use comfy_table::{Table, presets};

use crate::colour::{self, Marked, Tone};
use crate::tracing_lines;

/// Runs `write` on a buffered stdout, and flushes it. If the reader closed the pipe, the program ends with
/// success.
pub(crate) fn to_stdout(
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let result = write(&mut out).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    match result {
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        result => result,
    }
}

/// Runs `write` as [`to_stdout`] does. On a terminal the first words of lines have colours.
pub(crate) fn to_stdout_marked(
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    to_stdout(|out| {
        let mut out = Marked::stdout(out);
        let code = write(&mut out)?;
        out.flush()?;
        Ok(code)
    })
}

/// Returns whether an error says that the reader closed the pipe.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// Prints a note on stderr, so that it is not part of the output.
pub(crate) fn note(text: &str) {
    tracing_lines::write(format!("tollgate: {text}\n").as_bytes());
}

/// Prints a note about a failure on stderr. On a terminal its first word is red.
pub(crate) fn problem(text: &str) {
    let name = "tollgate:";
    let name = if colour::is_on(&io::stderr()) { Tone::Bad.paint(name) } else { name.to_owned() };
    tracing_lines::write(format!("{name} {text}\n").as_bytes());
}

/// Returns a fault with its place in red, if stderr shows colours. The place ends with `: `.
pub(crate) fn fault(text: &str) -> String {
    match text.split_once(": ") {
        Some((place, text)) if colour::is_on(&io::stderr()) => {
            format!("{} {text}", Tone::Bad.paint(&format!("{place}:")))
        }
        _ => text.to_owned(),
    }
}

/// Returns a count with its noun: `1 log`, `2 logs`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Makes a table without borders.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    table
}

/// Writes a table, if it has columns. Blanks at the ends of lines are left out.
pub(crate) fn write_table(out: &mut dyn Write, table: &mut Table) -> io::Result<()> {
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

/// Returns the text without characters that control a terminal. A record holds text that any client sent.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() { out.extend(character.escape_default()) } else { out.push(character) }
    }
    out
}

/// Appends a JSON string (RFC 8259 section 7).
pub(crate) fn push_json_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // U+007F to U+009F control terminals too.
            _ if character.is_control() => {
                push_formatted(out, format_args!("\\u{:04x}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Appends a JSON number. JSON has no infinities and no NaN, so they become null.
pub(crate) fn push_json_float(out: &mut String, number: f64) {
    if number.is_finite() { push_formatted(out, format_args!("{number:?}")) } else { out.push_str("null") }
}

/// Appends formatted text. Writing to a string cannot fail.
pub(crate) fn push_formatted(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// Returns bytes as SQLite writes them in statements: `x'00ff'`.
pub(crate) fn blob(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2 + 3);
    out.push_str("x'");
    for byte in bytes {
        push_formatted(&mut out, format_args!("{byte:02x}"));
    }
    out.push('\'');
    out
}

/// Returns bytes as base64 with padding (RFC 4648 section 4).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 0x3f;
            out.push(if digit <= group.len() { char::from(ALPHABET[value as usize]) } else { '=' });
        }
    }
    out
}

/// Names of the fields of a printed record that are no columns. Readers such as DuckDB take names without
/// regard to case.
const RESERVED_NAMES: [&str; 6] = ["log", "sequence", "stream", "reject", "item", "item_base64"];
/// Precedes the name of a column that is reserved.
const COLUMN_PREFIX: &str = "column.";

/// Returns the name under which a column is printed next to the reserved names.
///
/// A name that begins with the prefix gets it too. Otherwise it could be the printed name of another column.
pub(crate) fn printed_name(column: &str) -> Cow<'_, str> {
    let is_prefixed =
        column.get(..COLUMN_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(COLUMN_PREFIX));
    if is_prefixed || RESERVED_NAMES.iter().any(|name| name.eq_ignore_ascii_case(column)) {
        Cow::Owned(format!("{COLUMN_PREFIX}{column}"))
    } else {
        Cow::Borrowed(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_name_gets_a_prefix_and_no_two_columns_get_one_name() {
        for (column, expected) in [
            ("n", "n"),
            ("log", "column.log"),
            ("LOG", "column.LOG"),
            ("sequence", "column.sequence"),
            ("stream", "column.stream"),
            ("reject", "column.reject"),
            ("item", "column.item"),
            ("item_base64", "column.item_base64"),
            ("logs", "logs"),
            ("column", "column"),
            ("column.log", "column.column.log"),
            ("Column.x", "column.Column.x"),
            ("columnü", "columnü"),
        ] {
            assert_eq!(printed_name(column), expected);
        }
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        // RFC 4648 section 10.
        for (text, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
        assert_eq!(base64(&[0xff, 0xef, 0xbe]), "/+++");
    }

    #[test]
    fn json_strings_and_numbers_read_back() {
        for text in ["", "a\"b\\c/", "\0\u{1f}\u{7f}\u{9b}\n\r\t", "ü😀"] {
            let mut out = String::new();
            push_json_string(&mut out, text);
            assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
            assert!(!out.contains(char::is_control), "{out:?}");
        }
        for number in [0.0, -0.5, 1e300, 1e-7, 123_456_789.125, f64::MIN_POSITIVE] {
            let mut out = String::new();
            push_json_float(&mut out, number);
            assert_eq!(serde_json::from_str::<f64>(&out).unwrap().to_bits(), number.to_bits(), "{out}");
        }
        let mut out = String::new();
        push_json_float(&mut out, f64::NAN);
        assert_eq!(out, "null");
    }

    #[test]
    fn nothing_printed_steers_a_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\nü"), "a\\u{1b}[2Jb\\nü");
    }

    #[test]
    fn bytes_are_literals_of_sql() {
        assert_eq!(blob(&[0, 255]), "x'00ff'");
    }

    #[test]
    fn a_closed_pipe_is_success_and_other_errors_are_not() {
        let fail = |kind: ErrorKind| {
            to_stdout(|_| Err(anyhow::Error::new(io::Error::from(kind)).context("writing")))
        };
        assert!(fail(ErrorKind::BrokenPipe).is_ok());
        assert!(fail(ErrorKind::StorageFull).is_err());
    }

    #[test]
    fn a_table_has_no_borders_and_no_blanks_at_the_end() {
        let mut table = table(&["a", "long"]);
        table.add_row(["xyz", "1"]);
        let mut out = Vec::new();
        write_table(&mut out, &mut table).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a    long\nxyz  1\n");
    }
}
