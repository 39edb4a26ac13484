//! Feeds a document to a validator by `quick-xml`.

use std::cell::RefCell;

use quick_xml::NsReader;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{PrefixDeclaration, ResolveResult};
use tollgate_relaxng::{Attribute, Invalid, Namespaces, Schema, Start, Validator};

/// Why a document is not valid.
#[derive(Debug)]
pub(crate) enum Refused {
    Malformed(String),
    Invalid(Invalid),
}

impl From<Invalid> for Refused {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(reason) => write!(f, "malformed: {reason}"),
            Self::Invalid(invalid) => invalid.fmt(f),
        }
    }
}

struct Scope<'a>(&'a [(String, String)]);

impl Namespaces for Scope<'_> {
    fn namespace(&self, prefix: &str) -> Option<&str> {
        self.0.iter().rev().find(|(own, _)| own == prefix).map(|(_, uri)| uri.as_str())
    }
}

/// Validates a whole document.
pub(crate) fn validate(schema: &Schema, document: &str) -> Result<(), Refused> {
    let mut reader = NsReader::from_str(document);
    let mut validator = Validator::new(schema);
    let scopes: RefCell<Vec<Vec<(String, String)>>> = RefCell::new(vec![Vec::new()]);
    loop {
        let byte = reader.buffer_position();
        let malformed = |text: String| Refused::Malformed(text);
        let (namespace, event) =
            reader.read_resolved_event().map_err(|error| malformed(error.to_string()))?;
        match event {
            Event::Eof => return Ok(()),
            Event::Start(start) => {
                let namespace = uri(&namespace)?;
                begin(&reader, &mut validator, &scopes, &namespace, &start, byte)?;
            }
            Event::Empty(start) => {
                let namespace = uri(&namespace)?;
                begin(&reader, &mut validator, &scopes, &namespace, &start, byte)?;
                let scope = scopes.borrow_mut().pop().unwrap();
                validator.end(&Scope(&scope), byte)?;
            }
            Event::End(_) => {
                let scope = scopes.borrow_mut().pop().unwrap();
                validator.end(&Scope(&scope), byte)?;
            }
            Event::Text(text) if scopes.borrow().len() > 1 => validator.text(&text, byte)?,
            Event::CData(text) => validator.text(&text, byte)?,
            Event::GeneralRef(reference) => {
                let escaped = format!("&{};", &*reference);
                let text = quick_xml::escape::unescape(&escaped);
                validator.text(&text.map_err(|error| malformed(error.to_string()))?, byte)?;
            }
            _ => {}
        }
    }
}

fn uri(namespace: &ResolveResult<'_>) -> Result<String, Refused> {
    match namespace {
        ResolveResult::Bound(namespace) => Ok(namespace.as_ref().to_owned()),
        ResolveResult::Unbound => Ok(String::new()),
        ResolveResult::Unknown(prefix) => Err(Refused::Malformed(format!("unknown prefix {prefix:?}"))),
    }
}

fn begin(
    reader: &NsReader<&[u8]>,
    validator: &mut Validator,
    scopes: &RefCell<Vec<Vec<(String, String)>>>,
    namespace: &str,
    start: &BytesStart<'_>,
    byte: u64,
) -> Result<(), Refused> {
    let mut scope = scopes.borrow().last().unwrap().clone();
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| Refused::Malformed(error.to_string()))?;
        let value = attribute.normalized_value(quick_xml::XmlVersion::Explicit1_0);
        let value = value.map_err(|error| Refused::Malformed(error.to_string()))?.into_owned();
        match attribute.key.as_namespace_binding() {
            Some(PrefixDeclaration::Default) => scope.push((String::new(), value)),
            Some(PrefixDeclaration::Named(prefix)) => scope.push((prefix.to_string(), value)),
            None => {
                let (namespace, local) = reader.resolver().resolve_attribute(attribute.key);
                let local: &str = local.as_ref();
                attributes.push((uri(&namespace)?, local.to_owned(), value));
            }
        }
    }
    let attributes: Vec<Attribute<'_>> =
        attributes.iter().map(|(namespace, local, value)| Attribute { namespace, local, value }).collect();
    let name = start.local_name();
    let local: &str = name.as_ref();
    validator.start(&Start {
        namespace,
        local,
        attributes: &attributes,
        namespaces: &Scope(&scope),
        byte,
    })?;
    scopes.borrow_mut().push(scope);
    Ok(())
}
