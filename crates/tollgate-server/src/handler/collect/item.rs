//! The fields of one collected item.

use std::borrow::Cow;
use std::marker::PhantomData;

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
        // Only a name with a half surrogate is no text, so most items are read once.
        let read = read_fields::<TextNames>(whole, plan).or_else(|_| read_fields::<AnyNames>(whole, plan));
        let (fields, mut unknown) = read.map_err(|error| format!("item: {error}"))?;
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

/// Values of an item, in the order of [`StreamPlan::fields`], and the unknown names in quotes.
type ReadFields<'a> = (Vec<Option<&'a RawValue>>, Vec<String>);

/// Reads the values of an object without a copy.
fn read_fields<'a, N: NameForm>(
    object: &'a RawValue,
    plan: &StreamPlan,
) -> Result<ReadFields<'a>, serde_json::Error> {
    let mut fields = vec![None; plan.fields.names.len()];
    let mut unknown = Vec::new();
    let reader = FieldReader { plan, fields: &mut fields, unknown: &mut unknown, form: PhantomData::<N> };
    serde_json::Deserializer::from_str(object.get()).deserialize_map(reader)?;
    Ok((fields, unknown))
}

/// The form in which names of fields are read.
trait NameForm {
    fn read<'de, D: Deserializer<'de>, V: Visitor<'de>>(names: D, visitor: V) -> Result<V::Value, D::Error>;
}

/// Names are texts. A name with a half surrogate is an error.
struct TextNames;

impl NameForm for TextNames {
    fn read<'de, D: Deserializer<'de>, V: Visitor<'de>>(names: D, visitor: V) -> Result<V::Value, D::Error> {
        names.deserialize_str(visitor)
    }
}

/// Names are bytes, so that they may have half surrogates. This form takes more time.
struct AnyNames;

impl NameForm for AnyNames {
    fn read<'de, D: Deserializer<'de>, V: Visitor<'de>>(names: D, visitor: V) -> Result<V::Value, D::Error> {
        names.deserialize_bytes(visitor)
    }
}

/// Reads the values of an object, each to the index of its field.
struct FieldReader<'p, 'f, 'de, N> {
    plan: &'p StreamPlan,
    fields: &'f mut [Option<&'de RawValue>],
    unknown: &'f mut Vec<String>,
    form: PhantomData<N>,
}

impl<'de, N: NameForm> Visitor<'de> for FieldReader<'_, '_, 'de, N> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(KeyReader(self.plan, PhantomData::<N>))? {
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

struct KeyReader<'p, N>(&'p StreamPlan, PhantomData<N>);

impl<'de, N: NameForm> DeserializeSeed<'de> for KeyReader<'_, N> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        N::read(deserializer, self)
    }
}

impl<N> Visitor<'_> for KeyReader<'_, N> {
    type Value = Key;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
        self.visit_bytes(name.as_bytes())
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
