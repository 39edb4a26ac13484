//! Wraps comments that are too wide.
//!
//! From its first wide line on, a paragraph of comment lines is wrapped again. Tables, code, headings, lines
//! with an address, and paragraphs with significant blanks are not changed. Code is never changed: if the
//! tokens of a file would differ, the file is not written.

use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

use crate::rules::{WIDTH_MAX, is_too_wide};

/// Returns the text with its wide comments wrapped. `None` if there is nothing to wrap.
#[must_use]
pub fn wrapped(text: &str) -> Option<String> {
    let mut out = Vec::<String>::new();
    let mut paragraph = Paragraph::default();
    let mut is_in_code = false;
    for line in text.lines() {
        let comment = Comment::of(line);
        let is_fence = comment.as_ref().is_some_and(|comment| comment.text.trim_start().starts_with("```"));
        is_in_code = comment.is_some() && (is_in_code != is_fence);
        match comment {
            Some(comment) if !is_in_code && !is_fence && comment.is_prose() => {
                if !paragraph.takes(&comment) {
                    paragraph.end(&mut out);
                }
                paragraph.lines.push((line.to_owned(), comment));
            }
            _ => {
                paragraph.end(&mut out);
                out.push(line.to_owned());
            }
        }
    }
    paragraph.end(&mut out);
    let new = out.join("\n") + if text.ends_with('\n') { "\n" } else { "" };
    (new != text && code_of(&new) == code_of(text)).then_some(new)
}

/// A line that contains only a comment.
struct Comment {
    /// Beginning of the line: the indentation, the slashes, and one blank.
    head: String,
    text: String,
}

impl Comment {
    fn of(line: &str) -> Option<Self> {
        let blanks = line.len() - line.trim_start().len();
        let slashes = ["///", "//!", "//"].into_iter().find(|slashes| line[blanks..].starts_with(slashes))?;
        let (head, text) = line.split_at(blanks + slashes.len());
        if text.starts_with('/') {
            return None;
        }
        let head = format!("{head} ");
        Some(Self { head, text: text.strip_prefix(' ').unwrap_or(text).to_owned() })
    }

    /// Returns whether the line belongs to a paragraph or to an item of a list.
    fn is_prose(&self) -> bool {
        let text = self.text.trim();
        let is_code = self.text.starts_with("    ");
        let is_definition = text.starts_with('[') && text.contains("]: ");
        let has_address = text.contains("http://") || text.contains("https://");
        let has_meaning = text.contains("  ") || text.ends_with('\\');
        let is_command = text.len() > 1
            && text.trim_matches('`').len() + 2 == text.len()
            && !text[1..text.len() - 1].contains('`');
        let is_mark = text.is_empty() || text.starts_with(['|', '#', '>']);
        !(is_code || is_command || is_definition || has_address || has_meaning || is_mark)
    }

    /// Returns the number of bytes of a list item's mark with the blanks around it, or 0 if the line begins
    /// no item.
    fn mark(&self) -> usize {
        let blanks = self.text.len() - self.text.trim_start().len();
        let text = &self.text[blanks..];
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let is_item = text.starts_with("- ") || text.starts_with("* ");
        let is_numbered = digits > 0 && text[digits..].starts_with(". ");
        match (is_item, is_numbered) {
            (true, _) => blanks + 2,
            (_, true) => blanks + digits + 2,
            _ => 0,
        }
    }

    fn indent(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }
}

#[derive(Default)]
struct Paragraph {
    lines: Vec<(String, Comment)>,
}

impl Paragraph {
    /// Returns whether a line continues this paragraph.
    fn takes(&self, next: &Comment) -> bool {
        let Some((_, first)) = self.lines.first() else { return true };
        first.head == next.head && next.mark() == 0 && next.indent() == first.mark().max(first.indent())
    }

    /// Appends the lines of the paragraph to `out`, wrapped from the first wide line on.
    fn end(&mut self, out: &mut Vec<String>) {
        let lines = std::mem::take(&mut self.lines);
        let Some(wide) = lines.iter().position(|(line, _)| is_too_wide(line)) else {
            return out.extend(lines.into_iter().map(|(line, _)| line));
        };
        let (kept, rest) = lines.split_at(wide);
        out.extend(kept.iter().map(|(line, _)| line.clone()));
        let first = &lines[0].1;
        let (mark, body) = rest[0].1.text.split_at(rest[0].1.mark().max(rest[0].1.indent()));
        let lines = [body].into_iter().chain(rest[1..].iter().map(|(_, line)| line.text.trim()));
        let body = lines.collect::<Vec<_>>().join(" ");
        let head_of_rest = format!("{}{}", first.head, " ".repeat(first.mark().max(first.indent())));
        match fill(&words(&body), &format!("{}{mark}", first.head), &head_of_rest) {
            Some(filled) => out.extend(filled),
            None => out.extend(rest.iter().map(|(line, _)| line.clone())),
        }
    }
}

/// Splits a text at its blanks, except blanks inside of code spans.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut begin, mut is_code) = (0, false);
    for (at, letter) in text.char_indices() {
        is_code ^= letter == '`';
        if letter == ' ' && !is_code {
            words.push(&text[begin..at]);
            begin = at + 1;
        }
    }
    words.push(&text[begin..]);
    words.retain(|word| !word.is_empty());
    words
}

/// Fills lines with words. Returns `None` if a line would begin with the sign of a list, a table, a heading
/// or a quote.
fn fill(words: &[&str], first: &str, rest: &str) -> Option<Vec<String>> {
    let mut lines = vec![first.to_owned()];
    let mut is_begun = false;
    for word in words {
        let line = lines.last_mut()?;
        if !is_begun {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= WIDTH_MAX {
            line.push(' ');
            line.push_str(word);
        } else {
            let is_number = word.trim_end_matches('.').bytes().all(|byte| byte.is_ascii_digit());
            let is_mark = word.starts_with(['|', '#', '>']) || ["-", "*", "+"].contains(word);
            if is_mark || (is_number && word.ends_with('.')) {
                return None;
            }
            lines.push(format!("{rest}{word}"));
        }
        is_begun = true;
    }
    Some(lines)
}

/// Returns the tokens of a source without its documentation.
fn code_of(text: &str) -> Option<String> {
    fn code(tokens: TokenStream) -> TokenStream {
        let mut kept = Vec::<TokenTree>::new();
        for token in tokens {
            let is_doc =
                matches!(&token, TokenTree::Group(group) if group.stream().to_string().starts_with("doc ="));
            match token {
                _ if is_doc => {
                    while kept.last().is_some_and(
                        |last| matches!(last, TokenTree::Punct(mark) if ['#', '!'].contains(&mark.as_char())),
                    ) {
                        kept.pop();
                    }
                }
                TokenTree::Group(group) => {
                    kept.push(proc_macro2::Group::new(group.delimiter(), code(group.stream())).into());
                }
                token => kept.push(token),
            }
        }
        kept.into_iter().collect()
    }
    Some(code(TokenStream::from_str(text).ok()?).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `count` words of five letters, which have `6 * count - 1` characters.
    fn letters(count: usize) -> String {
        vec!["words"; count].join(" ")
    }

    #[test]
    fn a_paragraph_is_wrapped_from_its_first_wide_line_on() {
        let text = format!("/// Short.\n/// {}\n/// end.\n///\n/// Next.\nfn f() {{}}\n", letters(20));
        let wrapped_once = wrapped(&text).unwrap();
        let (first, rest) = (letters(17), letters(3));
        assert_eq!(
            wrapped_once,
            format!("/// Short.\n/// {first}\n/// {rest} end.\n///\n/// Next.\nfn f() {{}}\n")
        );
        assert_eq!(wrapped(&wrapped_once), None);
    }

    #[test]
    fn an_item_of_a_list_is_wrapped_below_its_text() {
        let text = format!("//! Short.\n//! - {}\n//!   more.\n//! - Next.\n", letters(20));
        let (first, rest) = (letters(17), letters(3));
        assert_eq!(
            wrapped(&text).unwrap(),
            format!("//! Short.\n//! - {first}\n//!   {rest} more.\n//! - Next.\n")
        );
    }

    #[test]
    fn code_is_not_broken() {
        let text = format!("// {} `one two` end\n// `cargo run -- a`\n", letters(17));
        let expected = format!("// {}\n// `one two` end\n// `cargo run -- a`\n", letters(17));
        assert_eq!(wrapped(&text).unwrap(), expected);
    }

    #[test]
    fn tables_code_addresses_and_strings_stay() {
        let long = letters(30);
        for text in [
            format!("/// | {long} |\nfn f() {{}}\n"),
            format!("/// ```\n/// {long}\n/// ```\nfn f() {{}}\n"),
            format!("///     {long}\nfn f() {{}}\n"),
            format!("// https://example.org/ {long}\n"),
            format!("/// # {long}\nfn f() {{}}\n"),
            format!("const T: &str = \"\n// {long}\n\";\n"),
            format!("fn f() {{}} // {long}\n"),
            format!("//// {long}\n"),
        ] {
            assert_eq!(wrapped(&text), None, "{text}");
        }
    }

    #[test]
    fn a_word_that_would_look_like_an_item_keeps_the_paragraph_as_it_is() {
        let text = format!("// {} - {}\n", letters(18), letters(9));
        assert_eq!(wrapped(&text), None);
    }
}
