//! The `collect` handler: writes the fields of JSON items into the columns of a stream. Each item is one
//! record.

use std::borrow::Cow;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use tollgate_http::StatusCode;
use tollgate_log::{Transaction, Value, ValueError};
use tollgate_script::BodyError;

use super::collected::BODY_BYTES_MAX;
use super::exchange::Exchange;
use super::gated_reply::GatedReply;
use super::items::{Item, SplitError, split};
use super::records::{refused, reported_level};
use crate::item_summary::item_summary;
use crate::options::stream::UnknownFields;
use crate::recorder::Recorder;
use crate::reply::Reply;
use crate::row::halves::{text_of, text_with_halves};
use crate::row::{ColumnWriter, Facts, Given, StreamPlan, Target, TransactionEnd, fit, key};

/// Records all items of a body in one transaction.
pub(super) fn answer(stream: &StreamPlan, exchange: &Exchange, recorder: &Recorder) -> GatedReply<'static> {
    let request = &exchange.request;
    let body = match request.body.read_within(BODY_BYTES_MAX as usize) {
        Ok(body) => body,
        Err(error) => return unreadable(&error).into(),
    };
    let body = utf8(&body);
    let items = match split(&body) {
        Ok(items) => items,
        Err(SplitError::Malformed(text)) => return Reply::text(StatusCode::BAD_REQUEST, text).into(),
        Err(SplitError::TooMany) => {
            return Reply::text(StatusCode::CONTENT_TOO_LARGE, "too many items: nothing was recorded").into();
        }
    };
    let ending = TransactionEnd::Complete { status: StatusCode::OK.as_u16(), reply_bytes: None };
    let facts = Facts { request, took_us: exchange.took_us(), ending };
    let append = |log: &mut Transaction<'_>| {
        let mut rejected = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if log.is_too_large() {
                break;
            }
            rejected.extend(append_item(log, stream, &facts, (index, item)).map(|reason| (index, reason)));
        }
        rejected
    };
    match recorder.append(stream.ack, &request.id, append) {
        Ok((gate, rejected)) => {
            gate.iter().for_each(|gate| gate.note_rejected(&rejected));
            let told = rejected.iter().map(|(index, reason)| (*index, reason.as_str()));
            let reply = Reply::new(StatusCode::OK, "application/json", item_summary(items.len(), told));
            let level = reported_level(&reply, stream.ack);
            GatedReply { reply: Cow::Owned(reply), gate, level, streamed: None }
        }
        Err(error) => refused(&error, &exchange.request.id, recorder).into(),
    }
}

/// Returns a body as UTF-8. U+FFFD replaces each sequence that is not UTF-8, so that such bytes spoil neither
/// their own text nor another item.
fn utf8(body: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(body) {
        Ok(_) => Cow::Borrowed(body),
        Err(_) => Cow::Owned(String::from_utf8_lossy(body).into_owned().into_bytes()),
    }
}

fn unreadable(error: &BodyError) -> Reply {
    tracing::error!("request refused: {error}");
    match error {
        BodyError::TooLarge { .. } => Reply::text(StatusCode::CONTENT_TOO_LARGE, "content too large"),
        BodyError::Disk(_) => {
            let text = "the server could not read the content back: nothing was recorded";
            Reply::refused(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

/// Appends an item as a row, or as a reject. Returns the reason of a reject.
fn append_item(
    log: &mut Transaction<'_>,
    stream: &StreamPlan,
    facts: &Facts<'_>,
    (place, item): (usize, &Item<'_>),
) -> Option<String> {
    let row = CollectedItem::new(item, place, stream).and_then(|given| {
        log.row(stream.id, |row| stream.fill(row, facts, &given)).map_err(|error| error.to_string())
    });
    let reason = row.err()?;
    stream.reject(log, &reason, item.text());
    Some(reason)
}

/// The fields of an item, in the order of [`StreamPlan::fields`].
pub(super) struct CollectedItem<'a> {
    whole: &'a RawValue,
    fields: Vec<Option<&'a RawValue>>,
    place: usize,
}

impl<'a> CollectedItem<'a> {
    pub(super) fn new(item: &Item<'a>, place: usize, plan: &StreamPlan) -> Result<Self, String> {
        let whole = item.value()?;
        if !whole.get().starts_with('{') {
            return Err("item is not a JSON object".to_owned());
        }
        let mut fields = vec![None; plan.fields.names.len()];
        let mut unknown = Vec::new();
        let reader = FieldReader { plan, fields: &mut fields, unknown: &mut unknown };
        let mut json = serde_json::Deserializer::from_str(whole.get());
        reader.deserialize(&mut json).map_err(|error| format!("item: {error}"))?;
        if unknown.is_empty() {
            return Ok(Self { whole, fields, place });
        }
        Err(ValueError::UnknownFields { names: unknown.join(", ") }.to_string())
    }

    pub(super) fn field(&self, field: usize) -> Option<&'a RawValue> {
        self.fields.get(field).copied().flatten()
    }

    pub(super) fn whole(&self) -> &'a RawValue {
        self.whole
    }
}

impl Given for CollectedItem<'_> {
    fn push_field(
        &self,
        field: usize,
        target: &Target,
        cell: &mut impl ColumnWriter,
    ) -> Result<(), ValueError> {
        match self.field(field) {
            Some(value) => fit::push_json_value(value, target, cell),
            None => cell.push(Value::Null),
        }
    }

    fn key(&self, field: usize) -> Result<Option<Cow<'_, [u8]>>, ValueError> {
        let Some(value) = self.field(field) else { return Ok(None) };
        match serde_json::from_str(value.get()) {
            Ok(serde_json::Value::Null) => Ok(None),
            Ok(serde_json::Value::String(text)) => Ok(Some(text.into_bytes().into())),
            Err(_) if value.get().starts_with('"') => {
                Ok(Some(text_with_halves(value.get()).into_bytes().into()))
            }
            Ok(serde_json::Value::Number(number)) => {
                number.as_i64().map(key::of_int).map(Some).ok_or_else(key::unfit)
            }
            _ => Err(key::unfit()),
        }
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

/// Maximum number of unknown fields that a reason names.
const UNKNOWN_MAX: usize = 8;

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
