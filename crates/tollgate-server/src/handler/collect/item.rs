//! The fields of one collected item.

use std::borrow::Cow;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use tollgate_log::{Value, ValueError};

use crate::handler::items::Item;
use crate::options::stream::UnknownFields;
use crate::row::halves::text_of;
use crate::row::{ColumnWriter, FieldPlace, Given, StreamPlan, Target, UNKNOWN_MAX, UnknownPaths, fit, key};

/// The fields of an item, in the order of [`StreamPlan::fields`].
pub(in crate::handler) struct CollectedItem<'a> {
    whole: &'a RawValue,
    fields: Vec<Option<&'a RawValue>>,
    /// The nested fields, in the order of [`StreamPlan::nested`].
    nested: Vec<Option<&'a RawValue>>,
    /// The values around the item, in the order of [`StreamPlan::envelope`].
    envelope: &'a [Option<&'a RawValue>],
    place: usize,
}

impl<'a> CollectedItem<'a> {
    /// Reads the fields of an item.
    ///
    /// # Errors
    /// The reason why the item is no row.
    pub(in crate::handler) fn new(
        item: Item<'a>,
        place: usize,
        plan: &StreamPlan,
        envelope: &'a [Option<&'a RawValue>],
    ) -> Result<Self, String> {
        let whole = item.value()?;
        if !whole.get().starts_with('{') {
            return Err("item is not a JSON object".to_owned());
        }
        let mut fields = vec![None; plan.fields.names.len()];
        let mut unknown = Vec::new();
        let reader = FieldReader { plan, fields: &mut fields, unknown: &mut unknown };
        let mut json = serde_json::Deserializer::from_str(whole.get());
        reader.deserialize(&mut json).map_err(|error| format!("item: {error}"))?;
        let nested = if plan.nested.is_empty() {
            Vec::new()
        } else {
            let found = plan.nested.find(|top| fields[top], plan.refuses_unknown())?;
            unknown.extend(found.unknown.into_iter().flat_map(UnknownPaths::quoted));
            found.values
        };
        if unknown.is_empty() {
            return Ok(Self { whole, fields, nested, envelope, place });
        }
        Err(ValueError::UnknownFields { names: unknown.join(", ") }.to_string())
    }

    /// Returns the value of a field.
    pub(in crate::handler) fn field(&self, field: FieldPlace) -> Option<&'a RawValue> {
        match field {
            FieldPlace::Top(field) => self.fields.get(field).copied().flatten(),
            FieldPlace::Nested(field) => self.nested.get(field).copied().flatten(),
        }
    }

    /// Returns the whole item.
    pub(in crate::handler) fn whole(&self) -> &'a RawValue {
        self.whole
    }
}

impl Given for CollectedItem<'_> {
    fn push_field(
        &self,
        field: FieldPlace,
        target: &Target,
        cell: &mut impl ColumnWriter,
    ) -> Result<(), ValueError> {
        match self.field(field) {
            Some(value) => fit::push_json_value(value, target, cell),
            None => cell.push(Value::Null),
        }
    }

    fn key(&self, field: FieldPlace) -> Result<Option<Cow<'_, [u8]>>, ValueError> {
        key::of_json(self.field(field))
    }

    fn envelope(&self, field: usize) -> Option<&RawValue> {
        self.envelope.get(field).copied().flatten()
    }

    fn place(&self) -> usize {
        self.place
    }

    fn push_whole(&self, target: &Target, cell: &mut impl ColumnWriter) -> Result<(), ValueError> {
        fit::push_json(Some(self.whole.get()), target, cell)
    }
}

/// Reads the values of an object without a copy, each to the index of its field.
struct FieldReader<'p, 'f, 'de> {
    plan: &'p StreamPlan,
    fields: &'f mut [Option<&'de RawValue>],
    unknown: &'f mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for FieldReader<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldReader<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(KeyReader(self.plan))? {
            let value = map.next_value()?;
            match key {
                Key::Field(field) if self.fields[field].replace(value).is_none() => {}
                Key::Field(field) => {
                    let name = &self.plan.fields.names[field];
                    return Err(A::Error::custom(format!("field {name:?} is repeated")));
                }
                Key::Unknown(name) if self.unknown.len() < UNKNOWN_MAX => self.unknown.push(name),
                Key::Unknown(_) | Key::Ignored => {}
            }
        }
        Ok(())
    }
}

enum Key {
    Field(usize),
    /// An unknown field. The text is its name in quotes.
    Unknown(String),
    Ignored,
}

struct KeyReader<'p>(&'p StreamPlan);

impl<'de> DeserializeSeed<'de> for KeyReader<'_> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        // As bytes, a name may have half surrogates.
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for KeyReader<'_> {
    type Value = Key;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a name")
    }

    fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<Key, E> {
        let plan = self.0;
        Ok(match plan.fields.names.iter().position(|known| known.as_bytes() == name) {
            Some(field) => Key::Field(field),
            None if plan.fields.whole || plan.unknown == UnknownFields::Ignore => Key::Ignored,
            None => Key::Unknown(format!("{:?}", text_of(name))),
        })
    }
}
