//! What is done to the values of a column: `default`, `required`, `max`, `over`, `redact`.

use tollgate_log::ColumnType;
use tollgate_server::{Absent, BytesMax, ColumnRules, DefaultValue, HashKey, Overlong, Redaction, Source};

use super::fault::did_you_mean;
use super::section::{Section, TextOrTable, Written};

/// The longest value: no transaction has room for more.
const BYTES_MAX: u64 = 8 << 20;
/// Shorter keys can be tried one by one.
const SECRET_BYTES_MIN: usize = 16;
const OVER: [(&str, Overlong); 2] = [("reject", Overlong::Reject), ("truncate", Overlong::Truncate)];
const REDACT: &str = "\"drop\", \"truncate\" or { hash = \"${NAME}\" }";

/// Reads the rules of a column. Without a type or a source, which are faults already, less is checked.
pub(super) fn read(
    section: &mut Section<'_>,
    kind: Option<ColumnType>,
    source: Option<&Source>,
) -> ColumnRules {
    let rules = ColumnRules {
        absent: absent(section, kind),
        bytes_max: bytes_max(section, kind),
        redaction: redaction(section, kind, source),
    };
    if rules != ColumnRules::default() && source.is_some_and(Source::is_of_log) {
        section.fault("default, required, max and redact are not for what the log fills in");
    }
    if rules.redaction == Some(Redaction::Drop) && (rules.absent != Absent::Null || rules.bytes_max.is_some())
    {
        section.fault("redact = \"drop\" keeps nothing: it goes with none of default, required, max");
    }
    rules
}

fn absent(section: &mut Section<'_>, kind: Option<ColumnType>) -> Absent {
    let required = section.switch("required");
    let default = section.json("default");
    match (required, default) {
        (Some(required), Some(_)) if required.value => {
            section.fault_at(&required.span, "required = true beside default: the value is never missing");
            Absent::Null
        }
        (Some(required), None) if required.value => Absent::Reject,
        (_, Some(written)) => kind.map_or(Absent::Null, |kind| default_value(section, kind, &written)),
        (_, None) => Absent::Null,
    }
}

fn default_value(section: &Section<'_>, kind: ColumnType, written: &Written<String>) -> Absent {
    // JSON comes as a string that holds it.
    let json = match kind {
        ColumnType::Json => serde_json::from_str(&written.value).unwrap_or_else(|_| written.value.clone()),
        _ => written.value.clone(),
    };
    match DefaultValue::new(kind, &json) {
        Ok(value) => Absent::Default(value),
        Err(problem) => {
            section.fault_at(&written.span, format!("default: {problem}"));
            Absent::Null
        }
    }
}

fn bytes_max(section: &mut Section<'_>, kind: Option<ColumnType>) -> Option<BytesMax> {
    let is_there = section.has("max");
    let bytes = section.size("max", 1..=BYTES_MAX, 0_usize);
    let has_over = section.has("over");
    let overlong = section.choice("over", &OVER).unwrap_or_default();
    if has_over && !is_there {
        section.fault("over has no max beside it");
    }
    if bytes == 0 {
        return None;
    }
    match kind {
        Some(ColumnType::Json) if overlong == Overlong::Truncate => {
            section.fault("over = \"truncate\" is not for type json: what is cut is no JSON");
        }
        Some(ColumnType::Text | ColumnType::Bytes | ColumnType::Json) | None => {}
        Some(kind) => {
            section.fault(format!("max is for text, bytes and json, the type is {:?}", kind.name()));
        }
    }
    Some(BytesMax { bytes, overlong })
}

fn redaction(
    section: &mut Section<'_>,
    kind: Option<ColumnType>,
    source: Option<&Source>,
) -> Option<Redaction> {
    let redaction = match section.text_or_table("redact", REDACT)? {
        TextOrTable::Text(text) => match text.value.as_str() {
            "drop" => Redaction::Drop,
            "truncate" => Redaction::Truncate,
            other => {
                let hint = did_you_mean(other, ["drop", "truncate"]);
                section.fault_at(
                    &text.span,
                    format!("redact is {other:?}{hint}; or {{ hash = \"${{NAME}}\" }}"),
                );
                return None;
            }
        },
        TextOrTable::Table(table) => Redaction::Hash(hash_key(table)?),
    };
    let problem = match (&redaction, kind?) {
        (Redaction::Drop, _) | (Redaction::Hash(_), ColumnType::Text) => None,
        (Redaction::Truncate, ColumnType::Inet) => None,
        (Redaction::Truncate, ColumnType::Text) if source == Some(&Source::RequestRemoteAddr) => None,
        (Redaction::Truncate, kind) => {
            Some(("redact = \"truncate\" is for type inet, or text from request.remote_addr", kind))
        }
        (Redaction::Hash(_), kind) => Some(("a hash is for type text", kind)),
    };
    if let Some((problem, kind)) = problem {
        section.fault(format!("{problem}, the type is {:?}", kind.name()));
    }
    Some(redaction)
}

fn hash_key(mut table: Section<'_>) -> Option<HashKey> {
    if !table.has("hash") {
        table.fault("missing key \"hash\" in redact");
    }
    let secret = table.secret("hash");
    if let Some((variable, secret)) = &secret
        && secret.len() < SECRET_BYTES_MIN
    {
        let (name, bytes) = (&variable.value, secret.len());
        let text =
            format!("{name}, the key of a hash, has {bytes} bytes, allowed are {SECRET_BYTES_MIN} or more");
        table.fault_at(&variable.span, text);
    }
    table.finish();
    secret.map(|(variable, secret)| HashKey { variable: variable.value, secret: secret.into_bytes() })
}

/// The rules as they are written in a column, each with a comma before it.
pub(super) fn show(rules: &ColumnRules, kind: ColumnType, quoted: impl Fn(&str) -> String) -> String {
    let mut shown = match &rules.absent {
        Absent::Null => String::new(),
        Absent::Reject => ", required = true".to_owned(),
        Absent::Default(value) => format!(", default = {}", show_default(value.json(), kind, &quoted)),
    };
    if let Some(BytesMax { bytes, overlong }) = rules.bytes_max {
        let over = OVER.iter().find(|(_, known)| *known == overlong).map_or("", |(name, _)| name);
        let max = super::units::show_size(bytes as u64);
        shown.push_str(&format!(", max = \"{max}\", over = \"{over}\""));
    }
    match &rules.redaction {
        None => {}
        Some(Redaction::Drop) => shown.push_str(", redact = \"drop\""),
        Some(Redaction::Truncate) => shown.push_str(", redact = \"truncate\""),
        Some(Redaction::Hash(key)) => {
            shown.push_str(&format!(", redact = {{ hash = \"${{{}}}\" }}", key.variable));
        }
    }
    shown
}

/// TOML writes numbers and truths as JSON does.
fn show_default(json: &str, kind: ColumnType, quoted: impl Fn(&str) -> String) -> String {
    match serde_json::from_str(json) {
        _ if kind == ColumnType::Json => quoted(json),
        Ok(serde_json::Value::String(text)) => quoted(&text),
        _ => json.to_owned(),
    }
}
