//! Translates the regular expressions of XML Schema (Part 2, appendix F) for the crate `regex`, which
//! matches in linear time. The size of a compiled expression is bounded.

use std::iter::Peekable;
use std::str::Chars;

use ::regex::{Regex, RegexBuilder};

use super::blocks::block;

/// Bytes of a compiled expression.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Characters of an expression.
const LENGTH_MAX: usize = 4096;

/// Levels of parentheses and classes.
const DEPTH_MAX: usize = 50;

/// Compiles an expression, which has to match a whole text.
pub(super) fn compile(text: &str) -> Result<Regex, String> {
    if text.len() > LENGTH_MAX {
        return Err(format!("expression is too long: {} bytes, limit {LENGTH_MAX} bytes", text.len()));
    }
    let mut translation = Translation { rest: text.chars().peekable(), result: "^(?:".to_owned() };
    translation.expression(0)?;
    if translation.rest.next().is_some() {
        return Err("\")\" has no \"(\"".to_owned());
    }
    translation.result.push_str(")$");
    let built = RegexBuilder::new(&translation.result).size_limit(COMPILED_BYTES_MAX).build();
    built.map_err(|error| match error {
        ::regex::Error::CompiledTooBig(limit) => {
            format!("expression \"{text}\" is too large: limit {limit} bytes when compiled")
        }
        _ => format!("expression \"{text}\" is malformed"),
    })
}

struct Translation<'a> {
    rest: Peekable<Chars<'a>>,
    result: String,
}

/// The characters of names (`\i`, `\c`), for use inside brackets.
const NAME_START: &str = concat!(
    r"A-Z_a-z:\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{2FF}\x{370}-\x{37D}",
    r"\x{37F}-\x{1FFF}\x{200C}-\x{200D}\x{2070}-\x{218F}",
    r"\x{2C00}-\x{2FEF}\x{3001}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFFD}\x{10000}-\x{EFFFF}",
);
const NAME_MORE: &str = r"\-.0-9\x{B7}\x{300}-\x{36F}\x{203F}-\x{2040}";

impl Translation<'_> {
    fn expression(&mut self, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("expression is nested too deeply: limit {DEPTH_MAX} levels"));
        }
        let mut can_repeat = false;
        while let Some(&c) = self.rest.peek() {
            if c == ')' {
                return Ok(());
            }
            self.rest.next();
            match c {
                '|' => {
                    self.result.push('|');
                    can_repeat = false;
                    continue;
                }
                '?' | '*' | '+' | '{' => {
                    if !can_repeat {
                        return Err(format!("\"{c}\" repeats nothing"));
                    }
                    self.quantifier(c)?;
                    can_repeat = false;
                    continue;
                }
                '(' => {
                    self.result.push_str("(?:");
                    self.expression(depth + 1)?;
                    if self.rest.next() != Some(')') {
                        return Err("\"(\" has no \")\"".to_owned());
                    }
                    self.result.push(')');
                }
                '.' => self.result.push_str("[^\\n\\r]"),
                '[' => self.class(depth + 1)?,
                '\\' => {
                    let escape = self.escape()?;
                    self.result.push('[');
                    self.result.push_str(&escape);
                    self.result.push(']');
                }
                ']' | '}' => return Err(format!("\"{c}\" needs \"\\\" before it")),
                _ => self.literal(c),
            }
            can_repeat = true;
        }
        Ok(())
    }

    fn literal(&mut self, c: char) {
        self.result.push_str(&::regex::escape(c.encode_utf8(&mut [0; 4])));
    }

    fn quantifier(&mut self, c: char) -> Result<(), String> {
        self.result.push(c);
        if c != '{' {
            return Ok(());
        }
        let mut digits = String::new();
        loop {
            match self.rest.next() {
                Some('}') => break,
                Some(c) if c.is_ascii_digit() || c == ',' => digits.push(c),
                _ => return Err("\"{\" is not followed by a count and \"}\"".to_owned()),
            }
        }
        let (first, last) = digits.split_once(',').unwrap_or((&digits, &digits));
        let (first, last): (Option<u32>, Option<u32>) = (first.parse().ok(), last.parse().ok());
        let is_valid = match (first, last) {
            (Some(first), Some(last)) => first <= last,
            (Some(_), None) => digits.ends_with(','),
            (None, _) => false,
        };
        if !is_valid {
            return Err(format!("\"{{{digits}}}\" is not a range of counts"));
        }
        self.result.push_str(&digits);
        self.result.push('}');
        Ok(())
    }

    /// Reads a class after its `[`. `[a-z-[aeiou]]` subtracts a class.
    fn class(&mut self, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("expression is nested too deeply: limit {DEPTH_MAX} levels"));
        }
        self.result.push_str("[[");
        if self.rest.next_if_eq(&'^').is_some() {
            self.result.push('^');
        }
        let mut is_empty = true;
        loop {
            let c = self.rest.next().ok_or_else(|| "\"[\" has no \"]\"".to_owned())?;
            match c {
                ']' if !is_empty => {
                    self.result.push_str("]]");
                    return Ok(());
                }
                '-' if !is_empty && self.rest.peek() == Some(&'[') => {
                    self.rest.next();
                    self.result.push_str("]--");
                    self.class(depth + 1)?;
                    if self.rest.next() != Some(']') {
                        return Err("a subtracted class is the last part of its class".to_owned());
                    }
                    self.result.push(']');
                    return Ok(());
                }
                '[' | ']' => return Err(format!("\"{c}\" needs \"\\\" before it")),
                _ => self.range(c)?,
            }
            is_empty = false;
        }
    }

    /// Reads a character, an escape or a range of a class.
    fn range(&mut self, c: char) -> Result<(), String> {
        let Some(first) = self.range_end(c)? else { return Ok(()) };
        self.class_character(first);
        let mut ahead = self.rest.clone();
        let is_range = ahead.next() == Some('-') && !matches!(ahead.peek(), None | Some('[' | ']'));
        if !is_range {
            return Ok(());
        }
        self.rest.next();
        let Some(c) = self.rest.next() else { return Ok(()) };
        let start = self.result.len();
        match self.range_end(c)? {
            Some(last) if first <= last => {
                self.result.push('-');
                self.class_character(last);
                Ok(())
            }
            _ => {
                self.result.truncate(start);
                Err(format!("range from \"{first}\" has no valid end"))
            }
        }
    }

    /// Returns a single character. The escape of several characters is written at once.
    fn range_end(&mut self, c: char) -> Result<Option<char>, String> {
        if c != '\\' {
            return Ok(Some(c));
        }
        if let Some(single) = self.rest.peek().copied().and_then(single_escape) {
            self.rest.next();
            return Ok(Some(single));
        }
        let escape = self.escape()?;
        self.result.push('[');
        self.result.push_str(&escape);
        self.result.push(']');
        Ok(None)
    }

    fn class_character(&mut self, c: char) {
        self.result.push_str(&format!("\\x{{{:X}}}", u32::from(c)));
    }

    /// Reads an escape after its `\`, and returns it in a form for use inside brackets.
    fn escape(&mut self) -> Result<String, String> {
        let c = self.rest.next().ok_or_else(|| "\"\\\" is the last character".to_owned())?;
        if let Some(single) = single_escape(c) {
            return Ok(format!("\\x{{{:X}}}", u32::from(single)));
        }
        Ok(match c {
            's' => r" \t\n\r".to_owned(),
            'S' => r"^ \t\n\r".to_owned(),
            'i' => NAME_START.to_owned(),
            'I' => format!("^{NAME_START}"),
            'c' => format!("{NAME_START}{NAME_MORE}"),
            'C' => format!("^{NAME_START}{NAME_MORE}"),
            'd' => r"\p{Nd}".to_owned(),
            'D' => r"\P{Nd}".to_owned(),
            'w' => r"^\p{P}\p{Z}\p{C}".to_owned(),
            'W' => r"\p{P}\p{Z}\p{C}".to_owned(),
            'p' | 'P' => self.property(c)?,
            _ => return Err(format!("escape \"\\{c}\" is not known")),
        })
    }

    fn property(&mut self, c: char) -> Result<String, String> {
        if self.rest.next() != Some('{') {
            return Err(format!("\"\\{c}\" is not followed by \"{{\""));
        }
        let mut name = String::new();
        loop {
            match self.rest.next() {
                Some('}') => break,
                Some(c) if name.len() < 64 => name.push(c),
                _ => return Err(format!("\"\\{c}{{\" has no \"}}\"")),
            }
        }
        if let Some(block_name) = name.strip_prefix("Is") {
            let (first, last) =
                block(block_name).ok_or_else(|| format!("Unicode block \"{block_name}\" is not known"))?;
            let not = if c == 'P' { "^" } else { "" };
            return Ok(format!("{not}\\x{{{first:X}}}-\\x{{{last:X}}}"));
        }
        let is_category = (1..=2).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphabetic());
        if !is_category {
            return Err(format!("category \"{name}\" is not known"));
        }
        Ok(format!("\\{c}{{{name}}}"))
    }
}

/// Returns the character that an escape of one character stands for.
fn single_escape(c: char) -> Option<char> {
    match c {
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        '\\' | '|' | '.' | '-' | '^' | '?' | '*' | '+' | '{' | '}' | '(' | ')' | '[' | ']' => Some(c),
        _ => None,
    }
}
