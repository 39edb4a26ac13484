//! Fits the screen into a terminal, so that it does not scroll and the terminal breaks no line.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

use super::screen::Line;
use crate::colour::marked;

/// Indentation of the second and later parts of a broken line.
const INDENT: &str = "     ";

/// Returns text that overwrites the last screen, beginning at the top left corner. The text erases the
/// remainder of each line and the rows below (ECMA-48, EL and ED).
pub(super) fn in_place(lines: &[Line], (columns, rows): (usize, usize), is_coloured: bool) -> String {
    let mut text = "\x1b[H".to_owned();
    // The last row of the terminal stays empty, because a line end in it would scroll the screen.
    for line in lines.iter().flat_map(|line| fitted(line, columns)).take(rows.saturating_sub(1)) {
        text.push_str(&if is_coloured { marked(&line) } else { Cow::Borrowed(&*line) });
        text.push_str("\x1b[K\r\n");
    }
    text.push_str("\x1b[J");
    text
}

fn fitted(line: &Line, columns: usize) -> Vec<String> {
    match line {
        Line::Prose(text) => wrapped(text, columns),
        Line::Row(text) => vec![fitting(text, columns).to_owned()],
        Line::Drawn(text) => vec![text.clone()],
    }
}

/// Breaks a text into lines at blanks. A longer word without blanks, such as a path, is broken anywhere.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let (mut lines, mut indent, mut rest) = (Vec::new(), "", text);
    loop {
        let fits = fitting(rest, columns.saturating_sub(indent.len()));
        if fits.len() == rest.len() {
            lines.push(format!("{indent}{rest}"));
            return lines;
        }
        let is_whole = rest[fits.len()..].starts_with(' ');
        let blank = fits.rfind(' ').filter(|at| !is_whole && !fits[..*at].trim().is_empty());
        let (line, behind) = rest.split_at(blank.unwrap_or(fits.len()));
        lines.push(format!("{indent}{}", line.trim_end()));
        (indent, rest) = (INDENT, behind.trim_start());
    }
}

/// Returns the longest beginning of a text that fits into the columns, but at least one character. Some
/// characters fill two columns, and some fill none.
pub(super) fn fitting(text: &str, columns: usize) -> &str {
    let mut width = 0;
    for (at, character) in text.char_indices() {
        width += character.width().unwrap_or_default();
        if width > columns && at > 0 {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[Line], size: (usize, usize)) -> Vec<String> {
        let text = in_place(lines, size, false);
        let text = text.strip_prefix("\x1b[H").unwrap().strip_suffix("\x1b[J").unwrap();
        text.split_terminator("\x1b[K\r\n").map(str::to_owned).collect()
    }

    #[test]
    fn a_watched_status_fits_the_terminal() {
        let lines: Vec<_> =
            (0..30).map(|number| Line::Row(format!("{number} {}", "x".repeat(100)))).collect();
        let shown = shown(&lines, (20, 5));
        assert_eq!(shown.len(), 4);
        assert_eq!(shown[0], format!("0 {}", "x".repeat(18)));
        assert!(shown[3].starts_with("3 "), "{shown:?}");
    }

    #[test]
    fn findings_are_wrapped_and_figures_are_cut() {
        let check = |line: Line, expected: &[&str]| assert_eq!(shown(&[line], (20, 9)), expected);
        let prose = |text: &str| Line::Prose(text.to_owned());
        check(prose("WARNING: all is well"), &["WARNING: all is well"]);
        check(prose("WARNING: all is well here"), &["WARNING: all is well", "     here"]);
        check(
            prose("  -> mend what stands in /etc/tollgate/tollgate.toml"),
            &["  -> mend what", "     stands in", "     /etc/tollgate/t", "     ollgate.toml"],
        );
        check(Line::Row("requests    10/s   5xx 1/s".to_owned()), &["requests    10/s   5"]);
    }

    #[test]
    fn a_colour_does_not_count_as_a_column() {
        let text = in_place(&[Line::Prose("WARNING: all is well here".to_owned())], (20, 9), true);
        assert_eq!(
            text,
            "\u{1b}[H\u{1b}[1;33mWARNING:\u{1b}[0m all is well\u{1b}[K\r\n     here\u{1b}[K\r\n\u{1b}[J"
        );
    }

    #[test]
    fn a_wide_character_takes_two_columns_and_a_combining_one_none() {
        let row = |text: &str| fitting(text, 5).to_owned();
        assert_eq!(
            ["\u{6f22}\u{5b57}\u{6f22}\u{5b57}", "e\u{301}abcdef"].map(row),
            ["\u{6f22}\u{5b57}", "e\u{301}abcd"]
        );
        assert_eq!(
            wrapped("\u{6f22}\u{5b57}\u{6f22}\u{5b57}", 5),
            ["\u{6f22}\u{5b57}", "     \u{6f22}", "     \u{5b57}"]
        );
    }
}
