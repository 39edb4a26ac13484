//! Reads the elements of a schema in the XML syntax. `quick-xml` finds the markup.

use std::rc::Rc;

use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::super::{At, File, SchemaFault, path};
use super::element::{Prefixes, STRUCTURE, WrittenElement};
use crate::name::{XML, is_blank, is_ncname};

/// Reads the root element of a file.
pub(super) fn read(file: File<'_>) -> Result<WrittenElement, SchemaFault> {
    let mut tree = Tree { file, at: 0, lines: Lines::default(), open: Vec::new(), foreign: 0, root: None };
    let mut reader = Reader::from_str(file.text);
    reader.config_mut().check_comments = true;
    loop {
        tree.at = offset(reader.buffer_position());
        match reader.read_event() {
            Ok(Event::Eof) => return tree.end(),
            Ok(event) => tree.take(event)?,
            Err(error) => {
                tree.at = offset(reader.error_position());
                return Err(tree.fault(error.to_string()));
            }
        }
    }
}

fn offset(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

struct Tree<'a> {
    file: File<'a>,
    /// The offset at which the current event begins.
    at: usize,
    lines: Lines,
    open: Vec<WrittenElement>,
    /// The number of open elements that are annotations.
    foreign: usize,
    root: Option<WrittenElement>,
}

/// The place of the last event, from which the next place is counted.
#[derive(Default)]
struct Lines {
    offset: usize,
    line: u32,
    line_start: usize,
}

impl Tree<'_> {
    fn take(&mut self, event: Event<'_>) -> Result<(), SchemaFault> {
        match event {
            Event::Start(start) => self.begin(&start),
            Event::Empty(start) => {
                self.begin(&start)?;
                self.close()
            }
            Event::End(_) => self.close(),
            Event::Text(text) => self.text(&text),
            Event::CData(text) => self.text(&text),
            Event::GeneralRef(reference) => {
                let text = self.resolved(&reference)?;
                self.text(&text)
            }
            Event::DocType(_) => Err(self.fault("a DOCTYPE is not supported; delete it")),
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::Eof => Ok(()),
        }
    }

    fn begin(&mut self, start: &BytesStart<'_>) -> Result<(), SchemaFault> {
        let at = self.place();
        let depth_max = self.file.limits.depth_max;
        if self.open.len() + self.foreign >= depth_max {
            return Err(self.fault(format!("elements are nested too deeply: limit {depth_max} levels")));
        }
        if self.foreign > 0 {
            self.foreign += 1;
            return Ok(());
        }
        if let Some(parent) = self.open.last()
            && parent.has_text()
        {
            let text = format!("an element inside \"{}\"", parent.name);
            return Err(self.fault(text));
        }
        let written = self.attributes(start)?;
        let prefixes = self.declared(&written)?;
        let name = start.name();
        let (prefix, local) = self.split(name.as_ref())?;
        if namespace(&prefixes, prefix) != Some(STRUCTURE) {
            if self.open.is_empty() {
                return Err(self.fault(format!("root element is not in namespace \"{STRUCTURE}\"")));
            }
            if namespace(&prefixes, prefix).is_none() {
                return Err(self.fault(format!("prefix \"{prefix}\" is not declared")));
            }
            self.foreign = 1;
            return Ok(());
        }
        let attributes = self.own_attributes(&written, &prefixes)?;
        let base = self.base(&written)?;
        let (name, children, text) = (local.to_owned(), Vec::new(), String::new());
        self.open.push(WrittenElement { at, name, attributes, prefixes, base, children, text });
        Ok(())
    }

    fn attributes(&mut self, start: &BytesStart<'_>) -> Result<Vec<(String, String)>, SchemaFault> {
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| self.fault(error.to_string()))?;
            let value = attribute.normalized_value(quick_xml::XmlVersion::Explicit1_0);
            let value = value.map_err(|error| self.fault(error.to_string()))?;
            let key: &str = attribute.key.as_ref();
            attributes.push((key.to_owned(), value.into_owned()));
        }
        Ok(attributes)
    }

    /// Returns the prefixes in scope of an element with these attributes.
    fn declared(&mut self, attributes: &[(String, String)]) -> Result<Prefixes, SchemaFault> {
        let xml = || Rc::new(vec![("xml".to_owned(), XML.to_owned())]);
        let mut prefixes = self.open.last().map_or_else(xml, |parent| Rc::clone(&parent.prefixes));
        for (name, uri) in attributes {
            let prefix = match name.strip_prefix("xmlns") {
                Some("") => "",
                Some(rest) => match rest.strip_prefix(':') {
                    Some(prefix) => prefix,
                    None => continue,
                },
                None => continue,
            };
            if !prefix.is_empty() && uri.is_empty() {
                return Err(self.fault(format!("prefix \"{prefix}\" has an empty namespace")));
            }
            let scope = Rc::make_mut(&mut prefixes);
            scope.retain(|(own, _)| own != prefix);
            scope.push((prefix.to_owned(), uri.clone()));
        }
        Ok(prefixes)
    }

    /// Returns the attributes that belong to the syntax: those without a namespace.
    fn own_attributes(
        &mut self,
        written: &[(String, String)],
        prefixes: &Prefixes,
    ) -> Result<Vec<(String, String)>, SchemaFault> {
        let mut attributes = Vec::new();
        for (name, value) in written {
            if name == "xmlns" || name.starts_with("xmlns:") {
                continue;
            }
            let (prefix, local) = self.split(name)?;
            if prefix.is_empty() {
                attributes.push((local.to_owned(), value.clone()));
                continue;
            }
            match namespace(prefixes, prefix) {
                None => return Err(self.fault(format!("prefix \"{prefix}\" is not declared"))),
                Some(STRUCTURE) => return Err(self.fault(format!("attribute \"{name}\" is not known"))),
                Some(_) => {}
            }
        }
        Ok(attributes)
    }

    /// Returns the path from which the paths of an element are resolved.
    fn base(&mut self, attributes: &[(String, String)]) -> Result<Rc<str>, SchemaFault> {
        let outer = self.open.last().map_or_else(|| self.file.path.into(), |parent| Rc::clone(&parent.base));
        match attributes.iter().find(|(name, _)| name == "xml:base") {
            None => Ok(outer),
            Some((_, base)) => match path::resolve_base(&outer, base) {
                Ok(base) => Ok(base.into()),
                Err(text) => Err(self.fault(text)),
            },
        }
    }

    fn split<'n>(&mut self, name: &'n str) -> Result<(&'n str, &'n str), SchemaFault> {
        let (prefix, local) = name.split_once(':').unwrap_or(("", name));
        if is_ncname(local) && (prefix.is_empty() && !name.starts_with(':') || is_ncname(prefix)) {
            return Ok((prefix, local));
        }
        Err(self.fault(format!("\"{name}\" is not a name")))
    }

    fn close(&mut self) -> Result<(), SchemaFault> {
        if self.foreign > 0 {
            self.foreign -= 1;
            return Ok(());
        }
        let Some(done) = self.open.pop() else { return Err(self.fault("an end tag without a start tag")) };
        done.check_content()?;
        match self.open.last_mut() {
            Some(parent) => parent.children.push(done),
            None if self.root.is_some() => return Err(self.fault("a second root element")),
            None => self.root = Some(done),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), SchemaFault> {
        if self.foreign > 0 {
            return Ok(());
        }
        match self.open.last_mut() {
            Some(parent) => {
                parent.text.push_str(&text.replace("\r\n", "\n").replace('\r', "\n"));
                Ok(())
            }
            None if is_blank(text) => Ok(()),
            None => Err(self.fault("text outside the root element")),
        }
    }

    fn resolved(&mut self, reference: &BytesRef<'_>) -> Result<String, SchemaFault> {
        let escaped = format!("&{};", &**reference);
        let text = quick_xml::escape::unescape(&escaped).map(std::borrow::Cow::into_owned);
        text.map_err(|_| self.fault(format!("reference \"{escaped}\" is not known")))
    }

    fn end(mut self) -> Result<WrittenElement, SchemaFault> {
        if let Some(open) = self.open.last() {
            return Err(open.fault(format!("element \"{}\" has no end", open.name)));
        }
        match self.root.take() {
            Some(root) => Ok(root),
            None => Err(self.fault("no element")),
        }
    }

    fn fault(&mut self, text: impl Into<String>) -> SchemaFault {
        SchemaFault::new(self.place(), text)
    }

    /// Returns the place of the current event.
    fn place(&mut self) -> At {
        let text = self.file.text;
        let at = text.floor_char_boundary(self.at.min(text.len()));
        if at < self.lines.offset {
            self.lines = Lines::default();
        }
        for (index, _) in text[self.lines.offset..at].match_indices('\n') {
            self.lines.line += 1;
            self.lines.line_start = self.lines.offset + index + 1;
        }
        self.lines.offset = at;
        let column = text[self.lines.line_start..at].chars().count() + 1;
        At {
            file: self.file.index,
            line: self.lines.line + 1,
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }
}

fn namespace<'p>(prefixes: &'p Prefixes, prefix: &str) -> Option<&'p str> {
    let found = prefixes.iter().find(|(own, _)| own == prefix).map(|(_, uri)| uri.as_str());
    if prefix.is_empty() { Some(found.unwrap_or("")) } else { found }
}
