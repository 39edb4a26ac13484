//! Finds the values of some paths in a JSON document, which may be cut off.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::prefix::Prefix;
use crate::options::stream::FieldPath;

/// The values of the paths, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonValues(Vec<Option<String>>);

/// Reason why no value is read: the document is malformed, or has a field of a path twice.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct JsonError(String);

impl JsonValues {
    /// Finds the values of `paths`. A value that the prefix does not contain completely is absent. An object
    /// or a list has the empty text as its value.
    ///
    /// # Errors
    /// The prefix is malformed, or has the field of a path twice. A backend might then read another value.
    pub(super) fn find(paths: &[FieldPath], prefix: &Prefix<'_>) -> Result<Self, JsonError> {
        let found = RefCell::new(vec![None; paths.len()]);
        let tails: Vec<_> = paths.iter().map(FieldPath::tokens).enumerate().collect();
        let bytes = if prefix.is_whole { prefix.bytes } else { without_open_number(prefix.bytes) };
        let mut document = serde_json::Deserializer::from_slice(bytes);
        let read = Node { tails: &tails, found: &found }.deserialize(&mut document);
        match read.and_then(|()| if prefix.is_whole { document.end() } else { Ok(()) }) {
            Err(error) if error.is_eof() && !prefix.is_whole => {}
            Err(error) => return Err(JsonError(error.to_string())),
            Ok(()) => {}
        }
        Ok(Self(found.into_inner()))
    }

    pub(super) fn get(&self, path: usize) -> Option<&str> {
        self.0.get(path)?.as_deref()
    }
}

/// Removes a number at the end, because its other digits may come after the prefix.
fn without_open_number(bytes: &[u8]) -> &[u8] {
    let is_other = |byte: &u8| !b"0123456789+-.eE".contains(byte);
    &bytes[..bytes.iter().rposition(is_other).map_or(0, |last| last + 1)]
}

/// A value, with the rest of each path that leads through it. An empty rest ends here.
struct Node<'a> {
    tails: &'a [(usize, &'a [String])],
    found: &'a RefCell<Vec<Option<String>>>,
}

impl Node<'_> {
    fn set<E: de::Error>(&self, value: &str) -> Result<(), E> {
        for (path, _) in self.tails.iter().filter(|(_, tail)| tail.is_empty()) {
            if self.found.borrow_mut()[*path].replace(value.to_owned()).is_some() {
                return Err(E::custom("a field that decides about the request occurs twice"));
            }
        }
        Ok(())
    }
}

/// Returns the rest of a path below a field, if the path leads through it.
fn below<'a>((path, tail): (usize, &'a [String]), name: &str) -> Option<(usize, &'a [String])> {
    let (first, rest) = tail.split_first()?;
    (first == name).then_some((path, rest))
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.set(if value { "true" } else { "false" })
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.set(&value.to_string())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.set(&value.to_string())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        self.set(&value.to_string())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.set(value)
    }

    /// A null is no value.
    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.set("")?;
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.set("")?;
        while let Some(name) = fields.next_key::<Cow<'_, str>>()? {
            let tails: Vec<_> = self.tails.iter().filter_map(|tail| below(*tail, &name)).collect();
            if tails.is_empty() {
                fields.next_value::<IgnoredAny>()?;
            } else {
                fields.next_value_seed(Node { tails: &tails, found: self.found })?;
            }
        }
        Ok(())
    }
}
