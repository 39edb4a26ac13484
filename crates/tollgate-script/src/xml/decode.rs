//! Decodes XML text as Luau values. `quick-xml` finds the markup, and this file checks the rules that
//! `quick-xml` does not enforce.

use mlua::{Lua, Table, Value};
use quick_xml::Reader;
use quick_xml::events::{BytesDecl, BytesStart, Event};

use super::characters::{is_character, is_name};
use crate::budget::Budget;
use crate::conversion::{self, DEPTH_MAX, DecodeError};
use crate::memory::check_memory;

type Result<T> = std::result::Result<T, DecodeError>;

/// Decodes a text for a script, and returns the element, or nil and the reason.
///
/// # Errors
/// A budget of the call is used up. A malformed text is a result, not an error.
pub(crate) fn answer(
    lua: &Lua,
    text: &[u8],
    budget: &Budget,
    memory_max: usize,
) -> mlua::Result<(Value, Value)> {
    conversion::answer(lua, decode(lua, text, budget, memory_max).map(Value::Table))
}

/// Decodes the whole of `text`. Call this without a memory limit, because it checks growth against
/// `memory_max`.
///
/// # Errors
/// `Text` names the position of the faulty byte, counted from 1.
fn decode(lua: &Lua, text: &[u8], budget: &Budget, memory_max: usize) -> Result<Table> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let text = std::str::from_utf8(text).map_err(|error| fault("text is not UTF-8", error.valid_up_to()))?;
    if let Some((at, character)) = text.char_indices().find(|(_, character)| !is_character(*character)) {
        return Err(fault(
            &format!("U+{:04X}, a character that XML does not allow,", u32::from(character)),
            at,
        ));
    }
    let mut decoder = Decoder {
        lua,
        budget,
        memory_max,
        open: Vec::new(),
        root: None,
        text: String::new(),
        at: 0,
        events: 0,
    };
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_comments = true;
    loop {
        decoder.at = position(reader.buffer_position());
        match reader.read_event() {
            Ok(Event::Eof) => return decoder.end(),
            Ok(event) => decoder.take(event)?,
            Err(error) => {
                return Err(fault(&error.to_string(), position(reader.error_position())));
            }
        }
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    budget: &'a Budget,
    memory_max: usize,
    /// Open elements, the innermost last.
    open: Vec<Open>,
    /// The root element, after its end tag.
    root: Option<Table>,
    /// Text since the last tag.
    text: String,
    /// Offset at which the current event begins.
    at: usize,
    events: usize,
}

/// An open element.
struct Open {
    table: Table,
    count: usize,
    /// Number of children that are elements.
    elements: usize,
    /// Whether a text of the element has characters other than white space.
    has_text: bool,
}

impl Decoder<'_> {
    fn fail<T>(&self, reason: &str) -> Result<T> {
        Err(fault(reason, self.at))
    }

    fn take(&mut self, event: Event<'_>) -> Result<()> {
        self.check_budgets()?;
        match event {
            Event::Start(start) => self.begin(&start),
            Event::Empty(start) => {
                self.begin(&start)?;
                self.close()
            }
            Event::End(_) => self.close(),
            Event::Text(text) => self.characters(&text),
            Event::CData(_) if self.open.is_empty() => self.fail("text outside the root element"),
            Event::CData(text) => {
                self.push_lines(&text);
                Ok(())
            }
            Event::GeneralRef(reference) => self.reference(&reference),
            Event::Decl(declaration) => self.declaration(&declaration),
            Event::DocType(_) => self.fail("a DOCTYPE, which is not supported,"),
            Event::PI(instruction) => {
                let target = instruction.target();
                let is_allowed = is_name(target) && !target.eq_ignore_ascii_case("xml");
                if is_allowed { Ok(()) } else { self.fail("a processing instruction without a valid name") }
            }
            Event::Comment(_) | Event::Eof => Ok(()),
        }
    }

    /// Checks the budget and the memory only once for several events, because a check for each event costs
    /// too much.
    fn check_budgets(&mut self) -> Result<()> {
        let is_turn = self.events.is_multiple_of(EVENTS_PER_CHECK);
        self.events += 1;
        if !is_turn {
            return Ok(());
        }
        check_memory(self.lua, self.text.len(), self.memory_max)?;
        if self.budget.is_exhausted() {
            return Err(mlua::Error::runtime("cpu budget of the call is used up").into());
        }
        Ok(())
    }

    fn declaration(&self, declaration: &BytesDecl<'_>) -> Result<()> {
        if self.at != 0 {
            return self.fail("an XML declaration after the start");
        }
        let Some((_, attributes)) = tag_of(declaration) else {
            return self.fail("a malformed XML declaration");
        };
        let mut names = [("version", "1.0"), ("encoding", "utf-8"), ("standalone", "")].into_iter();
        for (name, value) in attributes.map_err(|reason| fault(reason, self.at))? {
            let Some((_, allowed)) = names.find(|(known, _)| *known == name) else {
                return self.fail("a malformed XML declaration");
            };
            if !allowed.is_empty() && !value.eq_ignore_ascii_case(allowed) {
                return self
                    .fail(&format!("an XML declaration with {name} {value:?}, allowed is {allowed:?},"));
            }
        }
        Ok(())
    }

    fn begin(&mut self, start: &BytesStart<'_>) -> Result<()> {
        self.end_text()?;
        if self.root.is_some() {
            return self.fail("a second root element");
        }
        if self.open.len() == DEPTH_MAX {
            return self.fail(&format!("elements are nested deeper than {DEPTH_MAX}"));
        }
        let Some((tag, attributes)) = tag_of(start) else {
            return self.fail("a tag without a valid XML name");
        };
        let attr = self.lua.create_table()?;
        for (name, value) in attributes.map_err(|reason| fault(reason, self.at))? {
            let value = attribute_value(value).ok_or_else(|| {
                fault(&format!("the attribute {name} has a reference that is unknown or malformed,"), self.at)
            })?;
            attr.raw_set(name, value)?;
        }
        let table = self.lua.create_table()?;
        table.raw_set("tag", tag)?;
        table.raw_set("attr", attr)?;
        self.open.push(Open { table, count: 0, elements: 0, has_text: false });
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.end_text()?;
        let Some(done) = self.open.pop() else { return self.fail("an end tag without a start tag") };
        if done.elements > 0 && !done.has_text && done.count > done.elements {
            drop_texts(&done)?;
        }
        match self.open.last_mut() {
            Some(parent) => {
                parent.count += 1;
                parent.elements += 1;
                parent.table.raw_set(parent.count, done.table)?;
            }
            None => self.root = Some(done.table),
        }
        Ok(())
    }

    fn characters(&mut self, text: &str) -> Result<()> {
        if self.open.is_empty() && !text.bytes().all(is_space) {
            return self.fail("text outside the root element");
        }
        if text.contains("]]>") {
            return self.fail("]]> in a text");
        }
        if !self.open.is_empty() {
            self.push_lines(text);
        }
        Ok(())
    }

    /// Appends text. Every line end becomes one line feed (section 2.11).
    fn push_lines(&mut self, text: &str) {
        let mut lines = text.split('\r');
        self.text.push_str(lines.next().unwrap_or_default());
        for line in lines {
            self.text.push('\n');
            self.text.push_str(line.strip_prefix('\n').unwrap_or(line));
        }
    }

    fn reference(&mut self, name: &str) -> Result<()> {
        if self.open.is_empty() {
            return self.fail("text outside the root element");
        }
        match referred(name) {
            Some(character) => {
                self.text.push(character);
                Ok(())
            }
            None => self.fail(&format!("the reference &{name}; is unknown,")),
        }
    }

    /// Appends the text since the last tag to the children of the innermost element.
    fn end_text(&mut self) -> Result<()> {
        let Some(parent) = self.open.last_mut().filter(|_| !self.text.is_empty()) else { return Ok(()) };
        check_memory(self.lua, self.text.len(), self.memory_max)?;
        parent.count += 1;
        parent.has_text |= !self.text.bytes().all(is_space);
        parent.table.raw_set(parent.count, self.lua.create_string(&self.text)?)?;
        self.text.clear();
        Ok(())
    }

    fn end(self) -> Result<Table> {
        if !self.open.is_empty() {
            return self.fail("text ends inside an element");
        }
        self.root.ok_or_else(|| fault("text has no root element", self.at))
    }
}

/// Removes the texts of an element, and keeps its child elements in their order.
fn drop_texts(open: &Open) -> mlua::Result<()> {
    let mut kept = 0;
    for index in 1..=open.count {
        let child: Value = open.table.raw_get(index)?;
        if child.is_table() {
            kept += 1;
            open.table.raw_set(kept, child)?;
        }
    }
    (kept + 1..=open.count).try_for_each(|index| open.table.raw_set(index, Value::Nil))
}

type Attributes<'a> = std::result::Result<Vec<(&'a str, &'a str)>, &'static str>;

/// Returns the name of a tag, and its attributes with raw values. `None` if the name is invalid.
fn tag_of(tag: &str) -> Option<(&str, Attributes<'_>)> {
    let end = tag.bytes().position(is_space).unwrap_or(tag.len());
    let (name, rest) = tag.split_at(end);
    is_name(name).then(|| (name, attributes_of(rest)))
}

/// Parses attributes (productions 10 and 41). White space must precede each attribute, and no name may
/// repeat.
fn attributes_of(mut rest: &str) -> Attributes<'_> {
    let mut attributes: Vec<(&str, &str)> = Vec::new();
    loop {
        let found = rest.trim_start_matches(SPACE);
        if found.is_empty() {
            return Ok(attributes);
        }
        if found.len() == rest.len() {
            return Err("attributes without white space between them");
        }
        let (name, value) = found.split_once('=').ok_or("an attribute without a value")?;
        let (name, value) = (name.trim_end_matches(SPACE), value.trim_start_matches(SPACE));
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let quoted = quote.and_then(|quote| value[1..].split_once(quote));
        let (value, after) = quoted.ok_or("an attribute without quotes")?;
        if !is_name(name) {
            return Err("an attribute without a valid XML name");
        }
        if value.contains('<') {
            return Err("an attribute with a < in it");
        }
        if attributes.len() == ATTRIBUTES_MAX {
            return Err("more than 256 attributes of an element");
        }
        if attributes.iter().any(|(known, _)| *known == name) {
            return Err("a repeated attribute");
        }
        attributes.push((name, value));
        rest = after;
    }
}

/// Returns an attribute value with normalised white space (section 3.3.3). `None` if a reference in it is
/// invalid.
fn attribute_value(written: &str) -> Option<String> {
    let mut value = String::with_capacity(written.len());
    let mut parts = written.split('&');
    push_spaces(&mut value, parts.next()?);
    for part in parts {
        let (name, text) = part.split_once(';')?;
        value.push(referred(name)?);
        push_spaces(&mut value, text);
    }
    Some(value)
}

fn push_spaces(value: &mut String, text: &str) {
    let text = text.replace("\r\n", " ");
    value.extend(text.chars().map(|character| if SPACE.contains(&character) { ' ' } else { character }));
}

/// Returns the character for `&name;`: a predefined entity (XML has five), or a character by its number.
fn referred(name: &str) -> Option<char> {
    let number = match name {
        "amp" => return Some('&'),
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        _ => name.strip_prefix('#')?,
    };
    let (digits, radix) = number.strip_prefix('x').map_or((number, 10), |digits| (digits, 16));
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    let code = u32::from_str_radix(digits, radix).ok().filter(|_| is_number)?;
    char::from_u32(code).filter(|character| is_character(*character))
}

fn fault(reason: &str, at: usize) -> DecodeError {
    DecodeError::Text(format!("{reason} at byte {}", at + 1))
}

fn position(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
const EVENTS_PER_CHECK: usize = 64;
const ATTRIBUTES_MAX: usize = 256;
