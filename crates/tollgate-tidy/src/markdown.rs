//! Finds the links and the headings of a Markdown page.
//!
//! This code reads only the Markdown that the pages of this repository use: headings with `#`, inline links,
//! code spans, indented and fenced code. Absent: reference links (`[name]: path`), HTML, and underlined
//! headings.

use std::collections::BTreeSet;

/// Level of the deepest heading.
const LEVEL_MAX: usize = 6;

/// Returns the targets of the inline links without a scheme, each with the number of its line.
#[must_use]
pub fn relative_links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (first, paragraph) in paragraphs(page) {
        let text = without_code_spans(&paragraph);
        for (at, start) in text.match_indices("](") {
            let target = text[at + start.len()..].split_once(')').map_or("", |(target, _)| target);
            let target = target.split_whitespace().next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((first + text[..at].matches('\n').count(), target.to_owned()));
            }
        }
    }
    found
}

/// Returns the anchors of the headings, as GitHub makes them.
#[must_use]
pub fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(page) {
        let text = line.trim_start_matches('#');
        let level = line.len() - text.len();
        if !(1..=LEVEL_MAX).contains(&level) || !text.starts_with(' ') {
            continue;
        }
        let slug = slug(text.trim());
        let mut anchor = slug.clone();
        let mut repeats = 0;
        while !found.insert(anchor) {
            repeats += 1;
            anchor = format!("{slug}-{repeats}");
        }
    }
    found
}

/// Returns the anchor that GitHub makes of a heading: lower case, `-` for a blank, no punctuation but `-` and
/// `_`.
fn slug(heading: &str) -> String {
    let mut parts = heading.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    let letters = text.chars().flat_map(char::to_lowercase);
    let kept = letters.filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Returns the lines outside of code blocks, with their numbers.
fn prose(page: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let mut is_fenced = false;
    let mut can_be_code = true;
    for (line, number) in page.lines().zip(1..) {
        let is_fence = line.trim_start().starts_with("```");
        let is_indented = can_be_code && line.starts_with("    ");
        if !is_fence && !is_fenced && !is_indented {
            lines.push((number, line));
        }
        is_fenced = is_fenced != is_fence;
        // An indented line is code after a blank line or after code. In all other places, an indented line
        // continues a paragraph.
        can_be_code = is_indented || line.trim().is_empty();
    }
    lines
}

/// Returns the paragraphs with the number of their first line. A heading is a paragraph of its own, and so is
/// a row of a table.
fn paragraphs(page: &str) -> Vec<(usize, String)> {
    let mut paragraphs = Vec::<(usize, String)>::new();
    let mut last = None;
    for (number, line) in prose(page) {
        let stands_alone = line.starts_with(['#', '|']) || line.trim().is_empty();
        match paragraphs.last_mut() {
            Some((_, text)) if !stands_alone && last == Some(number - 1) => {
                text.push('\n');
                text.push_str(line);
            }
            _ => paragraphs.push((number, line.to_owned())),
        }
        last = (!stands_alone).then_some(number);
    }
    paragraphs
}

/// Removes code spans, and keeps their line breaks.
fn without_code_spans(paragraph: &str) -> String {
    let mut text = String::new();
    let mut rest = paragraph;
    while let Some(start) = rest.find('`') {
        text.push_str(&rest[..start]);
        let ticks = ticks(&rest[start..]);
        rest = &rest[start + ticks..];
        if let Some(end) = closing(rest, ticks) {
            text.extend(rest[..end].chars().filter(|letter| *letter == '\n'));
            rest = &rest[end + ticks..];
        }
    }
    text + rest
}

/// Counts the backticks that a text begins with.
fn ticks(text: &str) -> usize {
    text.len() - text.trim_start_matches('`').len()
}

/// Returns the offset of the next run of exactly `count` backticks.
fn closing(text: &str, count: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(start) = text[at..].find('`') {
        at += start;
        let run = ticks(&text[at..]);
        if run == count {
            return Some(at);
        }
        at += run;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, expected: &[(usize, &str)]) {
        let found = relative_links(page);
        let found: Vec<_> = found.iter().map(|(line, target)| (*line, target.as_str())).collect();
        assert_eq!(found, expected, "{page}");
    }

    #[test]
    fn links_are_found_with_their_lines() {
        check("# A [b](c.md)\n\ntext [b\nd](../e.md#f) [g](#h)", &[(1, "c.md"), (4, "../e.md#f"), (4, "#h")]);
        check("| [a](b.md) |\n| [`c`](d.md) |", &[(1, "b.md"), (2, "d.md")]);
        check("![picture](a.svg \"a title\")", &[(1, "a.svg")]);
        check("[a](https://example.org) [b](mailto:c@example.org)", &[]);
    }

    #[test]
    fn code_has_no_links() {
        check("text `a[1](b)` and ``c`d[2](e)``, `f\n[3](g)` [h](i.md)", &[(2, "i.md")]);
        check("text\n\n    t[1](a)\n\n    t[2](b)\n\n[c](d.md)", &[(7, "d.md")]);
        check("- item\n    goes [on](a.md)", &[(2, "a.md")]);
        check("```\nt[1](a)\n```\n[b](c.md)", &[(4, "c.md")]);
    }

    #[test]
    fn anchors_follow_the_rule_of_github() {
        let page = "# Request line (RFC 9112, sections 2 and 3)\n## `[backend.NAME]`\n## Where am I?\n\
                    ## What [it](a.md) is\n## a_b-c / Ü\n## Same\n## Same\n\
                    ####### seven\n#none\n\n    # code\n";
        let expected = [
            "a_b-c--ü",
            "backendname",
            "request-line-rfc-9112-sections-2-and-3",
            "same",
            "same-1",
            "what-it-is",
            "where-am-i",
        ];
        assert_eq!(anchors(page), expected.map(str::to_owned).into());
    }
}
