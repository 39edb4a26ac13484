//! The items of an XML body, as JSON objects that follow each other.
//!
//! One pass over the body finds the items and the values in them. An object has the values that columns keep,
//! under the names of their fields. From there on, an item is like each other item.

use tollgate_xml::{Attributes, Doctype, Events, Found, Limits, Name, PathMatcher, PathSet, Reader, Stop};

use crate::options::XmlItems;
use crate::options::stream::XML_FIELD;

/// The paths of a route that collects items of XML.
pub(in crate::handler) struct XmlPlan {
    set: PathSet,
    /// The names of the fields as JSON. The set has the path of the items first, then one path for each name.
    names: Vec<String>,
    doctype: Doctype,
}

impl XmlPlan {
    /// Plans the items with the values of some fields. The configuration was checked with the same paths.
    pub(super) fn new(items: &XmlItems, fields: &[String], doctype: Doctype) -> Option<Self> {
        let named = || fields.iter().filter(|name| name.starts_with(XML_FIELD));
        let set = items.compile(named().map(|name| &name[XML_FIELD.len()..])).ok()?;
        let names = named().map(|name| serde_json::Value::from(name.as_str()).to_string()).collect();
        Some(Self { set, names, doctype })
    }

    /// Returns the items of a body as JSON, one in each line.
    ///
    /// # Errors
    /// The body is not XML, or it has no item.
    pub(in crate::handler) fn items(&self, body: &[u8]) -> Result<Vec<u8>, String> {
        let mut items = Items {
            plan: self,
            matcher: PathMatcher::new(&self.set),
            values: vec![None; self.names.len()],
            open: Vec::new(),
            depth: None,
            text: String::new(),
            out: Vec::new(),
        };
        let limits = Limits { tag_bytes_max: usize::MAX, doctype: self.doctype, ..Limits::default() };
        let mut reader = Reader::new(limits);
        let read = reader.feed(body, &mut items).and_then(|()| reader.finish(&mut items));
        read.map_err(|error| format!("the content is not XML: {error}"))?;
        if items.out.is_empty() { Err("the content has no item".to_owned()) } else { Ok(items.out) }
    }
}

/// The items so far, and the values of the open one.
struct Items<'p> {
    plan: &'p XmlPlan,
    matcher: PathMatcher,
    values: Vec<Option<String>>,
    open: Vec<OpenValue>,
    /// The depth of the open item. An item within an item is a part of the outer one.
    depth: Option<usize>,
    /// The text since the outermost open value began.
    text: String,
    out: Vec<u8>,
}

/// An element that is a value, while it is open.
struct OpenValue {
    field: usize,
    depth: usize,
    /// Length of the text at its start.
    start: usize,
}

impl Events for Items<'_> {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        let Self { plan, matcher, values, open, depth: item, text, .. } = self;
        let depth = matcher.depth() + 1;
        matcher.start(&plan.set, name, attributes, |rule, found| {
            let Some(field) = rule.checked_sub(1) else {
                item.get_or_insert(depth);
                return;
            };
            let is_open = open.iter().any(|value| value.field == field);
            match found {
                _ if values[field].is_some() || is_open => {}
                Found::Attribute(value) => values[field] = Some(value.to_owned()),
                Found::True => values[field] = Some("true".to_owned()),
                Found::Element => open.push(OpenValue { field, depth, start: text.len() }),
                Found::End => {}
            }
        });
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        self.matcher.text(&self.plan.set, text);
        if !self.open.is_empty() {
            self.text.push_str(text);
        }
        Ok(())
    }

    fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
        let Self { plan, matcher, values, open, text, .. } = self;
        let depth = matcher.depth();
        matcher.end(&plan.set, |rule, found| {
            let Some(field) = rule.checked_sub(1) else { return };
            if found == Found::True {
                values[field].get_or_insert_with(|| "true".to_owned());
            } else if let Some(place) =
                open.iter().position(|value| value.field == field && value.depth == depth)
            {
                values[field] = Some(text[open.remove(place).start..].to_owned());
            }
        });
        if self.open.is_empty() {
            self.text.clear();
        }
        if self.depth == Some(depth) {
            self.depth = None;
            self.write_item();
        }
        Ok(())
    }
}

impl Items<'_> {
    fn write_item(&mut self) {
        self.out.push(b'{');
        let mut separator = &b""[..];
        for (name, value) in self.plan.names.iter().zip(&mut self.values) {
            let Some(value) = value.take() else { continue };
            self.out.extend_from_slice(separator);
            self.out.extend_from_slice(name.as_bytes());
            self.out.push(b':');
            // A text has a form in JSON, and a vector takes all bytes.
            let _ = serde_json::to_writer(&mut self.out, &value);
            separator = b",";
        }
        self.out.extend_from_slice(b"}\n");
    }
}
