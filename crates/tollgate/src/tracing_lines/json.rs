//! A log line as a JSON object: `timestamp`, `level`, the fields of the event, `target`.
//!
//! Libraries that use the crate `log` pass on the place of their source as fields `log.file` and `log.line`.
//! These fields name folders of the machine that built the program, so they are left out. Their `log.target`
//! is the target of the line.

use std::fmt::{self, Debug};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::library::{LOG_TARGET, LibraryLimit, Turn};

/// Begins the name of each field that says where the source of a library's line is.
pub(super) const PLACE_PREFIX: &str = "log.";

/// Writes each event as a line of JSON.
#[derive(Default)]
pub(super) struct JsonLines {
    limit: LibraryLimit,
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let target = fields.target.as_deref().unwrap_or(event.metadata().target());
        let left_out = match self.limit.take(target) {
            Turn::Print { left_out } => left_out,
            Turn::LeaveOut => return Ok(()),
        };
        writer.write_str("{\"timestamp\":\"")?;
        SystemTime.format_time(&mut writer)?;
        write!(writer, "\",\"level\":\"{}\"{}", event.metadata().level(), fields.text)?;
        if left_out > 0 {
            write!(writer, ",\"left_out\":{left_out}")?;
        }
        writeln!(writer, ",\"target\":{}}}", Value::from(target))
    }
}

/// The fields of an event, as parts of a JSON object. Each part begins with a comma.
#[derive(Default)]
struct Fields {
    text: String,
    /// The target of a library's line.
    target: Option<String>,
}

impl Fields {
    fn push(&mut self, field: &Field, value: &Value) {
        if field.name() == LOG_TARGET {
            self.target = value.as_str().map(str::to_owned);
        }
        if !field.name().starts_with(PLACE_PREFIX) {
            let name = field.name().strip_prefix("r#").unwrap_or(field.name());
            self.text.push_str(&format!(",{}:{value}", Value::from(name)));
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push(field, &Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, &Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, &Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, &Value::from(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, &Value::from(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.push(field, &Value::from(format!("{value:?}")));
    }
}
