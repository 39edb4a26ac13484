//! Splits a text in the compact syntax into tokens.

use super::super::{At, SchemaFault};
use super::token::{Placed, Token};
use crate::name::{is_ncname_character, is_ncname_start};

/// Returns the tokens of `text`, with [`Token::End`] as the last one.
pub(super) fn tokens(text: &str, file: u16) -> Result<Vec<Placed>, SchemaFault> {
    let mut lexer = Lexer { characters: characters(text, file)?, next: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_space();
        let at = lexer.at();
        let token = lexer.token()?;
        let is_end = token == Token::End;
        tokens.push(Placed { at, token });
        if is_end {
            return Ok(tokens);
        }
    }
}

#[derive(Clone, Copy)]
struct Character {
    value: char,
    /// Written as `\x{...}`: such a line feed does not end a line.
    is_escaped: bool,
    at: At,
}

/// The end of the text, which no XML text contains.
const END: char = '\0';

/// Replaces escapes and line ends, and checks that each character is one of XML.
fn characters(text: &str, file: u16) -> Result<Vec<Character>, SchemaFault> {
    let mut result = Vec::with_capacity(text.len() + 1);
    let mut at = At { file, line: 1, column: 1 };
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (value, length, is_escaped) = match escape(rest) {
            Some(escape) => escape.map_err(|text| SchemaFault::new(at, text))?,
            None if rest.starts_with("\r\n") => ('\n', 2, false),
            None if first == '\r' => ('\n', 1, false),
            None => (first, first.len_utf8(), false),
        };
        if !is_xml_character(value) {
            return Err(SchemaFault::new(at, format!("character U+{:04X} is not allowed", u32::from(value))));
        }
        result.push(Character { value, is_escaped, at });
        if value == '\n' && !is_escaped {
            at = At { line: at.line + 1, column: 1, ..at };
        } else {
            let columns = rest[..length].chars().count();
            at.column += u32::try_from(columns).unwrap_or(u32::MAX);
        }
        rest = &rest[length..];
    }
    result.push(Character { value: END, is_escaped: false, at });
    Ok(result)
}

type Escape = Result<(char, usize, bool), String>;

/// Reads `\x{HEX}`, in which `x` may be repeated.
fn escape(text: &str) -> Option<Escape> {
    let digits = text.strip_prefix("\\x")?.trim_start_matches('x').strip_prefix('{')?;
    let end = digits.find('}')?;
    let length = text.len() - digits.len() + end + 1;
    let number = u32::from_str_radix(&digits[..end], 16).ok().filter(|_| !digits.starts_with('+'));
    let value = number.and_then(char::from_u32);
    let shown = &text[..text.floor_char_boundary(length.min(16))];
    let fault = || format!("escape \"{shown}\" is not a character; write \\x{{HEX}}");
    Some(value.map(|value| (value, length, true)).ok_or_else(fault))
}

fn is_xml_character(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

struct Lexer {
    characters: Vec<Character>,
    next: usize,
}

/// The symbols, longer ones first.
const SYMBOLS: [&str; 18] =
    [">>", "|=", "&=", "=", "|", "&", ",", "?", "*", "+", "-", "~", "{", "}", "(", ")", "[", "]"];

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.characters.get(self.next + ahead).map_or(END, |character| character.value)
    }

    fn at(&self) -> At {
        self.characters[self.next.min(self.characters.len() - 1)].at
    }

    fn skip_space(&mut self) {
        loop {
            match self.peek(0) {
                ' ' | '\t' | '\n' | '\r' => self.next += 1,
                '#' => {
                    while !matches!(self.peek(0), '\n' | '\r' | END) {
                        self.next += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn token(&mut self) -> Result<Token, SchemaFault> {
        match self.peek(0) {
            END => Ok(Token::End),
            quote @ ('"' | '\'') => self.literal(quote),
            '\\' => {
                let at = self.at();
                self.next += 1;
                match self.ncname() {
                    Some(text) => Ok(Token::Identifier { text, is_escaped: true }),
                    None => Err(SchemaFault::new(at, "\"\\\" is not followed by a name")),
                }
            }
            c if is_ncname_start(c) => Ok(self.named()),
            _ => self.symbol(),
        }
    }

    fn symbol(&mut self) -> Result<Token, SchemaFault> {
        for symbol in SYMBOLS {
            if symbol.chars().enumerate().all(|(index, c)| self.peek(index) == c) {
                self.next += symbol.len();
                return Ok(Token::Symbol(symbol));
            }
        }
        Err(SchemaFault::new(self.at(), format!("character \"{}\" is not part of the syntax", self.peek(0))))
    }

    fn ncname(&mut self) -> Option<String> {
        if !is_ncname_start(self.peek(0)) {
            return None;
        }
        let mut name = String::new();
        while is_ncname_character(self.peek(0)) {
            name.push(self.peek(0));
            self.next += 1;
        }
        Some(name)
    }

    fn named(&mut self) -> Token {
        let text = self.ncname().unwrap_or_default();
        if self.peek(0) != ':' {
            return Token::Identifier { text, is_escaped: false };
        }
        if self.peek(1) == '*' {
            self.next += 2;
            return Token::AnyIn(text);
        }
        if !is_ncname_start(self.peek(1)) {
            return Token::Identifier { text, is_escaped: false };
        }
        self.next += 1;
        Token::Qualified { prefix: text, local: self.ncname().unwrap_or_default() }
    }

    /// Reads a literal. Three quotes allow quotes and line ends inside.
    fn literal(&mut self, quote: char) -> Result<Token, SchemaFault> {
        let at = self.at();
        let is_long = self.peek(1) == quote && self.peek(2) == quote;
        let quotes = if is_long { 3 } else { 1 };
        self.next += quotes;
        let mut text = String::new();
        loop {
            if (0..quotes).all(|index| self.peek(index) == quote) {
                self.next += quotes;
                return Ok(Token::Literal(text));
            }
            let Some(character) = self.characters.get(self.next).filter(|c| c.value != END) else {
                return Err(SchemaFault::new(at, "the literal has no end"));
            };
            if !is_long && character.value == '\n' && !character.is_escaped {
                return Err(SchemaFault::new(at, "the literal has no end in its line; use three quotes"));
            }
            text.push(character.value);
            self.next += 1;
        }
    }
}
