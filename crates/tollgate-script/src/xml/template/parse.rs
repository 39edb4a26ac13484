//! Compiles a template.

use mlua::Lua;
use tollgate_xml::{Attributes, Doctype, Events, Name, Place, Reader, Stop, is_ncname};

use super::piece::{Piece, Template, ValuePath};
use crate::sys::raw::FieldName;
use crate::xml::decode::limits;

/// Compiles the source of a template.
///
/// # Errors
/// The source is no template. The text has the byte, counted from 1.
pub(crate) fn compile(lua: &Lua, source: &[u8]) -> Result<Template, String> {
    let source = std::str::from_utf8(source)
        .map_err(|error| format!("the template is not UTF-8 at byte {}", error.valid_up_to() + 1))?;
    let mut parser = Parser {
        lua,
        source,
        at: 0,
        state: State::Content,
        depth: 0,
        open: Vec::new(),
        sample: String::new(),
    };
    let pieces = parser.pieces()?;
    check(&parser.sample)?;
    Ok(Template { pieces })
}

/// Checks the template with blanks in its places.
fn check(sample: &str) -> Result<(), String> {
    struct Ignored;
    impl Events for Ignored {
        fn start(&mut self, _: Name<'_>, _: &Attributes<'_>) -> Result<(), Stop> {
            Ok(())
        }
        fn text(&mut self, _: &str) -> Result<(), Stop> {
            Ok(())
        }
        fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
            Ok(())
        }
    }
    let mut reader = Reader::new(limits(Doctype::Refuse));
    let read = reader.feed(sample.as_bytes(), &mut Ignored).and_then(|()| reader.finish(&mut Ignored));
    read.map_err(|error| error.to_string())
}

struct Parser<'a> {
    lua: &'a Lua,
    source: &'a str,
    at: usize,
    state: State,
    /// Number of open elements.
    depth: usize,
    /// The depth at which each open `{each}` began.
    open: Vec<usize>,
    /// The source with blanks in its places, so that positions stay the same.
    sample: String,
}

/// The markup that the next byte belongs to.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Content,
    /// A tag, and whether it is an end tag.
    Tag(bool),
    /// An attribute value in these quotes.
    Value(u8),
    /// Markup without places, up to its end. The content begins at `begin`.
    Until {
        end: &'static str,
        begin: usize,
    },
}

impl Parser<'_> {
    /// Reads pieces up to the end of the source, or after `{end}`.
    fn pieces(&mut self) -> Result<Vec<Piece>, String> {
        let (mut pieces, mut markup) = (Vec::new(), Vec::new());
        while let Some(&byte) = self.source.as_bytes().get(self.at) {
            let is_place = byte == b'{' && !matches!(self.state, State::Until { .. });
            if !is_place || self.source[self.at..].starts_with("{{") {
                self.markup(byte, is_place, &mut markup)?;
                continue;
            }
            if !markup.is_empty() {
                pieces.push(Piece::Markup(std::mem::take(&mut markup)));
            }
            match self.place()? {
                Some(piece) => pieces.push(piece),
                None => return Ok(pieces),
            }
        }
        if !markup.is_empty() {
            pieces.push(Piece::Markup(markup));
        }
        Ok(pieces)
    }

    /// Takes a byte of markup, or a doubled brace.
    fn markup(&mut self, byte: u8, is_brace: bool, markup: &mut Vec<u8>) -> Result<(), String> {
        if is_brace && matches!(self.state, State::Tag(_)) {
            return Err(self.fault("a brace in a tag: allowed are texts and attribute values"));
        }
        markup.push(byte);
        if is_brace {
            self.blank(2);
            return Ok(());
        }
        self.follow(byte)?;
        let end = self.source.ceil_char_boundary(self.at + 1);
        markup.extend_from_slice(&self.source.as_bytes()[self.at + 1..end]);
        self.sample.push_str(&self.source[self.at..end]);
        self.at = end;
        Ok(())
    }

    /// Follows the markup.
    fn follow(&mut self, byte: u8) -> Result<(), String> {
        let rest = &self.source[self.at..];
        self.state = match (self.state, byte) {
            (State::Content, b'<') => match () {
                () if rest.starts_with("<!--") => State::Until { end: "-->", begin: self.at + 4 },
                () if rest.starts_with("<![CDATA[") => State::Until { end: "]]>", begin: self.at + 9 },
                () if rest.starts_with("<?") => State::Until { end: "?>", begin: self.at + 2 },
                () => State::Tag(rest.starts_with("</")),
            },
            (State::Tag(_), quote @ (b'"' | b'\'')) => State::Value(quote),
            (State::Value(quote), _) if byte == quote => State::Tag(false),
            (State::Tag(is_end), b'>') => {
                self.end_tag(is_end)?;
                State::Content
            }
            (State::Until { end, begin }, _) if self.ends(end, begin) => State::Content,
            (state, _) => state,
        };
        Ok(())
    }

    /// Returns whether the byte is the last of `end`, which begins at `begin` or later.
    fn ends(&self, end: &str, begin: usize) -> bool {
        let content = self.source.as_bytes().get(begin..=self.at);
        content.is_some_and(|content| content.ends_with(end.as_bytes()))
    }

    /// Counts the open elements after a tag.
    fn end_tag(&mut self, is_end: bool) -> Result<(), String> {
        if self.source[..self.at].ends_with('/') {
            return Ok(());
        }
        if !is_end {
            self.depth += 1;
            return Ok(());
        }
        if self.open.last().is_some_and(|&depth| self.depth <= depth) {
            return Err(self.fault("an end tag in {each} whose start tag is outside of it"));
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(())
    }

    /// Reads a place. `None` for `{end}`.
    fn place(&mut self) -> Result<Option<Piece>, String> {
        let start = self.at;
        let Some(length) = self.source[start..].find('}') else { return Err(self.fault("a { without }")) };
        let inner = self.source[start + 1..start + length].trim();
        let place = match self.state {
            State::Content => Place::Content,
            State::Value(_) => Place::Value,
            _ => return Err(self.fault("a brace in a tag: allowed are texts and attribute values")),
        };
        if inner == "end" {
            return match self.open.pop() {
                Some(depth) if depth != self.depth => Err(self.fault("{end} within an element of {each}")),
                Some(_) => {
                    self.blank(length + 1);
                    Ok(None)
                }
                None => Err(self.fault("{end} without {each}")),
            };
        }
        if place == Place::Content && self.depth == 0 {
            return Err(self.fault("a place outside of the root element"));
        }
        let Some(list) = inner.strip_prefix("each ") else {
            let path = self.path(inner)?;
            self.blank(length + 1);
            return Ok(Some(Piece::Value { path, place }));
        };
        if place == Place::Value {
            return Err(self.fault("{each} in an attribute value: allowed is {each} in an element"));
        }
        if self.open.len() == EACH_DEPTH_MAX {
            return Err(self.fault("more than 8 {each} within each other"));
        }
        let path = self.path(list.trim())?;
        self.blank(length + 1);
        self.open.push(self.depth);
        let count = self.open.len();
        let body = self.pieces()?;
        if self.open.len() == count {
            return Err(format!("{{each}} without {{end}} at byte {}", start + 1));
        }
        Ok(Some(Piece::Each { path, body }))
    }

    fn path(&self, text: &str) -> Result<ValuePath, String> {
        let (names, is_optional) = text.strip_suffix('?').map_or((text, false), |names| (names, true));
        let (names, is_from_root) = names.strip_prefix("$.").map_or((names, false), |names| (names, true));
        let mut fields = Vec::new();
        if names != "." {
            for name in names.split('.') {
                if !is_ncname(name) {
                    return Err(self.fault(&format!("{{{text}}}: allowed are names with . between them")));
                }
                fields.push(FieldName::new(self.lua, name).map_err(|error| error.to_string())?);
            }
        }
        if fields.len() > FIELDS_MAX {
            return Err(self.fault(&format!("{{{text}}}: a path has at most {FIELDS_MAX} names")));
        }
        Ok(ValuePath { is_from_root, fields, is_optional, text: text.to_owned() })
    }

    /// Moves on, with blanks in the sample.
    fn blank(&mut self, bytes: usize) {
        self.sample.extend(std::iter::repeat_n(' ', bytes));
        self.at += bytes;
    }

    fn fault(&self, reason: &str) -> String {
        format!("{reason} at byte {}", self.at + 1)
    }
}

/// Greatest number of `{each}` within each other. Each one, and each name of a path, takes slots of the stack
/// of the VM.
const EACH_DEPTH_MAX: usize = 8;
const FIELDS_MAX: usize = 8;
