//! Converts the result of a script call to a reply and records.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use tollgate_http::StatusCode;
use tollgate_log::{Transaction, Value, ValueError};
use tollgate_script::{CallError, Emitted, FieldValue, Outcome, RecordValues, Request};

use super::endpoint::Endpoint;
use super::exchange::Exchange;
use super::rehearsed::{RehearsedReject, RehearsedRow};
use crate::dev::script_failure;
use crate::observe::ScriptFailure;
use crate::options::stream::UnknownFields;
use crate::reply::Reply;
use crate::row::{
    ColumnWriter, Facts, FieldPlace, Given, NOT_KEPT, StreamPlan, Target, UnknownPaths, fit, key,
};

/// Text that a client gets if a script fails.
pub(super) const FAILED: &str = "the script failed";

/// The records of a call.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Record for the stream of the route.
    pub(super) own: RecordValues,
    /// Records for other streams.
    pub(super) emitted: Vec<Emitted>,
}

impl Records {
    pub(super) fn memory_bytes(&self) -> usize {
        let emitted = self.emitted.iter().map(|emitted| emitted.record.memory_bytes());
        self.own.memory_bytes() + emitted.sum::<usize>()
    }

    pub(super) fn take(outcome: &mut Outcome) -> Self {
        Self { own: std::mem::take(&mut outcome.record), emitted: std::mem::take(&mut outcome.emitted) }
    }
}

/// Returns the reply and the records of a call. After a failed call, the reply has status 500, and the reason
/// is logged.
pub(super) fn reply(result: Result<(Reply, Records), CallError>, exchange: &Exchange) -> (Reply, Records) {
    match result {
        Ok(told) => told,
        Err(CallError::Refused { status, reason }) => {
            tracing::debug!(id = %exchange.request.id, status, "request refused: {reason}");
            let status = StatusCode::new(status).unwrap_or(StatusCode::BAD_REQUEST);
            (Reply::text(status, reason), Records::default())
        }
        Err(error) => {
            exchange.endpoint.note_failure(&error, &exchange.request, "script failed");
            let endpoint = &exchange.endpoint;
            let reply = match &endpoint.dev_root {
                Some(root) => {
                    script_failure(&error, root, &exchange.request, &endpoint.path, endpoint.version)
                }
                None => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, FAILED),
            };
            (reply, Records::default())
        }
    }
}

impl Endpoint {
    /// Counts a failed call and logs it. If many calls fail, the number of log lines is limited.
    pub(super) fn note_failure(&self, error: &CallError, request: &Request, what: &str) {
        self.cells.count_failure(ScriptFailure::from(error));
        let Some(left_out) = self.failures.note(Instant::now()) else { return };
        let Self { path: route, version, .. } = self;
        let (method, path, id) = (request.head.method_name(), request.path(), &request.id);
        let trace = request.trace_text();
        tracing::error!(route, method, path, %id, trace, version, left_out, "{what}: {error}");
    }
}

/// The `record` that a script returned, for one stream.
pub(super) struct ScriptRecord<'a> {
    record: &'a RecordValues,
    plan: &'a StreamPlan,
    nested: Nested,
}

/// The nested fields of a record.
#[derive(Default)]
struct Nested {
    /// The values, in the order of [`StreamPlan::nested`].
    values: Vec<Option<Box<RawValue>>>,
    /// Pointers to values that the stream does not keep, in quotes.
    unknown: Vec<String>,
}

impl Nested {
    fn of(record: &RecordValues, plan: &StreamPlan) -> Self {
        let text = |top: usize| match record.values.get(top)? {
            // Such a value is the reason of a reject by itself.
            FieldValue::Nil | FieldValue::Unfit(_) => None,
            value => RawValue::from_string(in_json(value)).ok().map(|json| (top, json)),
        };
        let texts: Vec<_> = plan.nested.all_tops().filter_map(text).collect();
        let field = |wanted| texts.iter().find(|(top, _)| *top == wanted).map(|(_, json)| &**json);
        // The JSON of a table has no repeated fields, so that all fields are found.
        let found = plan.nested.find(field, plan.refuses_unknown());
        found.map_or_else(
            |_| Self::default(),
            |found| Self {
                values: found.values.into_iter().map(|value| value.map(ToOwned::to_owned)).collect(),
                unknown: found.unknown.into_iter().flat_map(UnknownPaths::quoted).collect(),
            },
        )
    }
}

impl<'a> ScriptRecord<'a> {
    #[inline]
    pub(super) fn new(record: &'a RecordValues, plan: &'a StreamPlan) -> Self {
        let nested = if plan.nested.is_empty() { Nested::default() } else { Nested::of(record, plan) };
        Self { record, plan, nested }
    }
}

impl ScriptRecord<'_> {
    /// Appends a row, or a reject with the reason.
    pub(super) fn append(&self, log: &mut Transaction<'_>, facts: &Facts<'_>) {
        let row =
            self.check_unknown().and_then(|()| log.row(self.plan.id, |row| self.plan.fill(row, facts, self)));
        if let Err(error) = row {
            self.plan.reject(log, &error.to_string(), self.item().as_bytes());
        }
    }

    /// Returns the name of its stream.
    pub(super) fn stream(&self) -> &str {
        &self.plan.name
    }

    /// Returns the row or the reject that the record becomes.
    pub(super) fn rehearse(&self, facts: &Facts<'_>) -> Result<RehearsedRow, RehearsedReject> {
        let row = self.check_unknown().and_then(|()| self.plan.row(facts, self));
        row.map(|row| RehearsedRow { record: self.without_nulls(), row }).map_err(|error| RehearsedReject {
            reason: error.to_string(),
            item: self.plan.kept_of(self.item().as_bytes()).into_owned(),
        })
    }

    /// Returns the content of the record without nulls, as JSON.
    fn without_nulls(&self) -> String {
        if let Some(whole) = &self.record.whole {
            return whole.clone();
        }
        let fields = self.plan.fields.names.iter().zip(&self.record.values);
        let fields = fields.filter(|(_, value)| **value != FieldValue::Nil);
        object(fields.map(|(name, value)| (name.as_str(), in_json(value))).collect())
    }

    /// Returns the record as JSON, for a reject.
    fn item(&self) -> Cow<'_, str> {
        let names = &self.plan.fields.names;
        let has_bytes = (0..names.len()).any(|field| self.plan.is_bytes(field));
        if let Some(whole) = self.record.whole.as_ref().filter(|_| !has_bytes) {
            return whole.into();
        }
        let known = self.record.values.iter().enumerate().map(|(field, value)| match value {
            FieldValue::Text(bytes) if self.plan.is_bytes(field) => quoted(&STANDARD.encode(bytes)),
            value => in_json(value),
        });
        let unknown = self.record.unknown.iter().map(|name| (name.as_str(), not_kept("an unknown field")));
        object(names.iter().map(String::as_str).zip(known).chain(unknown).collect()).into()
    }

    /// Returns the field around a nested field, if it cannot be recorded.
    fn unfit_around(&self, nested: usize) -> Option<&FieldValue> {
        let around = self.plan.nested.top(nested).and_then(|top| self.record.values.get(top));
        around.filter(|value| matches!(value, FieldValue::Unfit(_)))
    }

    fn check_unknown(&self) -> Result<(), ValueError> {
        let is_known = self.record.unknown.is_empty() && self.nested.unknown.is_empty();
        if is_known || self.plan.unknown == UnknownFields::Ignore {
            return Ok(());
        }
        let names = self.record.unknown.iter().map(|name| format!("{name:?}"));
        let names: Vec<_> = names.chain(self.nested.unknown.iter().cloned()).collect();
        Err(ValueError::UnknownFields { names: names.join(", ") })
    }
}

impl Given for ScriptRecord<'_> {
    fn push_field(
        &self,
        field: FieldPlace,
        target: &Target,
        cell: &mut impl ColumnWriter,
    ) -> Result<(), ValueError> {
        let value = match field {
            FieldPlace::Top(field) => self.record.values.get(field),
            FieldPlace::Nested(field) => match self.nested.values.get(field).and_then(Option::as_deref) {
                Some(value) => return fit::push_json_value(value, target, cell),
                None => self.unfit_around(field),
            },
        };
        match value {
            Some(value) => fit::push_script_value(value, target, cell),
            None => cell.push(Value::Null),
        }
    }

    fn key(&self, field: FieldPlace) -> Result<Option<Cow<'_, [u8]>>, ValueError> {
        let value = match field {
            FieldPlace::Top(field) => self.record.values.get(field),
            FieldPlace::Nested(field) => match self.nested.values.get(field).and_then(Option::as_deref) {
                Some(value) => return key::of_json(Some(value)),
                None => self.unfit_around(field),
            },
        };
        match value {
            None | Some(FieldValue::Nil) => Ok(None),
            Some(FieldValue::Text(bytes)) => Ok(Some(bytes.into())),
            Some(FieldValue::Int(value)) => Ok(Some(key::of_int(*value))),
            Some(_) => Err(key::unfit()),
        }
    }

    fn envelope(&self, _: usize) -> Option<&RawValue> {
        None
    }

    fn place(&self) -> usize {
        0
    }

    fn push_whole(&self, target: &Target, cell: &mut impl ColumnWriter) -> Result<(), ValueError> {
        fit::push_json(self.record.whole.as_deref(), target, cell)
    }
}

/// Formats a JSON object.
fn object(fields: BTreeMap<&str, String>) -> String {
    let fields = fields.into_iter().map(|(name, json)| format!("{}:{json}", serde_json::Value::from(name)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// Formats a value as JSON. A value without a JSON form becomes a marker with the reason.
fn in_json(value: &FieldValue) -> String {
    match value {
        FieldValue::Nil => "null".to_owned(),
        FieldValue::Bool(value) => value.to_string(),
        FieldValue::Int(value) => value.to_string(),
        FieldValue::Float(value) if value.is_finite() => format!("{value:?}"),
        FieldValue::Float(value) => not_kept(&value.to_string()),
        FieldValue::Text(bytes) => quoted(&String::from_utf8_lossy(bytes)),
        FieldValue::Json(json) => json.clone(),
        FieldValue::Unfit(reason) => not_kept(reason),
    }
}

fn not_kept(reason: &str) -> String {
    quoted(&format!("{NOT_KEPT}{reason})"))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
