//! The rules for the values of a column: `unit`, `zone`, `coerce`, `default`, `required`, `max`, `over` and
//! `redact`.

use tollgate_log::ColumnType;
use tollgate_server::{
    Absent, BytesMax, ColumnRules, DefaultValue, HashKey, Overlong, Redaction, Source, TimeRules,
};
use tollgate_value::{TimeUnit, Zone};

use super::fault::did_you_mean;
use super::key::{OwnValue, inline, keys};
use super::quoted::quoted;
use super::section::{Section, TextOrTable, Written};
use super::value::{Named, Value, named, names};

/// Maximum bytes of a value, because a transaction of the log cannot be larger.
const BYTES_MAX: u64 = 8 << 20;
/// Minimum bytes of a key. A shorter key can be guessed by trial.
const SECRET_BYTES_MIN: usize = 16;
const REDACT_ALLOWED: &str = "\"drop\", \"truncate\" or { hash = \"${NAME}\" }";

named!(TimeUnit);

impl Named for Overlong {
    fn all() -> Vec<(&'static str, Self)> {
        vec![("reject", Self::Reject), ("truncate", Self::Truncate)]
    }
}

keys! {
    /// A column of a stream.
    pub(super) KEYS of ();
    /// The name of the column.
    name [NAME] = other("needed", "1 to 63 bytes without control characters");
    /// The type of the column.
    type [TYPE] = other("needed", "a type");
    /// The source of the values.
    from [FROM] = other("`record.NAME`", "a source");
    /// The unit of times that are numbers since 1970, such as `1795775959.445`.
    unit [UNIT] = one_of("us", names::<TimeUnit>).inherits("none");
    /// The zone of times without an offset.
    zone [ZONE] = other("none", ZONE_ALLOWED);
    /// Whether `"12.34"`, `"true"` and `3.0` fit where they are exactly a value of the column.
    coerce [COERCE] = switch(false);
    /// The value if the record has none.
    default [DEFAULT] = other("null", "a value of the column's type, JSON and arrays as a string");
    /// Whether a record without this value becomes a reject.
    required [REQUIRED] = switch(false);
    /// The longest text, bytes or JSON that fits.
    max [MAX] = size(0, 1..=BYTES_MAX).inherits("none");
    /// The treatment of longer values. JSON is never cut.
    over [OVER] = one_of("reject", names::<Overlong>);
    /// How the value is hidden before it is written to the log.
    redact [REDACT] = other("none", r#"`"drop"`, `"truncate"`, `{ hash = "${NAME}" }`"#);
}

keys! {
    /// The table `redact`.
    pub(super) REDACT_KEYS of ();
    /// The key of the hash, at least 16 bytes.
    hash [HASH] = secret("needed");
}

const ZONE_ALLOWED: &str = "`UTC`, an offset such as `+02:00`, or a name such as `Europe/Berlin`";

/// Reads how a column of type timestamp reads times.
pub(super) fn read_times(
    section: &mut Section<'_>,
    kind: Option<ColumnType>,
    source: Option<&Source>,
) -> TimeRules {
    let unit = section.number(&UNIT).map(|number| {
        let mut unit = TimeUnit::Second;
        unit.set(number);
        unit
    });
    let rules = TimeRules { unit, zone: zone(section) };
    let is_converted = source.is_none_or(|source| source.column_types().len() > 1);
    let is_allowed = kind.is_none_or(|kind| kind.scalar() == ColumnType::Timestamp) && is_converted;
    for key in [UNIT.name, ZONE.name].into_iter().filter(|key| section.has(key) && !is_allowed) {
        section.fault_of(
            key,
            format!(
                "{key} is allowed for type timestamp, with a source that clients or scripts fill: remove \
                 {key}"
            ),
        );
    }
    rules
}

/// Reads whether the column accepts exact values of other types.
pub(super) fn read_coerce(section: &mut Section<'_>, kind: Option<ColumnType>) -> bool {
    let Some(written) = section.switch(COERCE.name) else { return false };
    if written.value && !kind.is_none_or(may_coerce) {
        section.fault_at(
            &written.span,
            "coerce is allowed for int, float, bool, decimal and arrays of them: remove coerce",
        );
    }
    written.value
}

/// Returns whether a column of this type may take exact values of other types.
pub(super) fn may_coerce(kind: ColumnType) -> bool {
    let scalar = kind.scalar();
    matches!(scalar, ColumnType::Int | ColumnType::Float | ColumnType::Bool | ColumnType::Decimal(_))
}

fn zone(section: &mut Section<'_>) -> Option<Zone> {
    let written = section.text(ZONE.name)?;
    let zone = Zone::new(&written.value);
    if let Err(error) = &zone {
        section.fault_at(&written.span, format!("zone is {:?}, {error}", written.value));
    }
    zone.ok()
}

/// Reads the rules of a column. If the type or source is missing, fewer rules are checked, and the caller
/// reports the missing key.
pub(super) fn read(
    section: &mut Section<'_>,
    kind: Option<ColumnType>,
    times: &TimeRules,
    source: Option<&Source>,
) -> ColumnRules {
    let rules = ColumnRules {
        absent: absent(section, kind, times),
        bytes_max: bytes_max(section, kind),
        redaction: redaction(section, kind, source),
    };
    if rules != ColumnRules::default() && source.is_some_and(Source::is_of_log) {
        section.fault(
            "default, required, max and redact are not allowed for columns that the log fills: remove them",
        );
    }
    if rules.redaction == Some(Redaction::Drop) && (rules.absent != Absent::Null || rules.bytes_max.is_some())
    {
        section.fault("redact = \"drop\" keeps no value: remove default, required and max");
    }
    rules
}

fn absent(section: &mut Section<'_>, kind: Option<ColumnType>, times: &TimeRules) -> Absent {
    let required = section.switch(REQUIRED.name);
    let default = section.json(DEFAULT.name);
    match (required, default) {
        (Some(required), Some(_)) if required.value => {
            section
                .fault_at(&required.span, "required = true has no effect with default: remove one of them");
            Absent::Null
        }
        (Some(required), None) if required.value => Absent::Reject,
        (_, Some(written)) => {
            kind.map_or(Absent::Null, |kind| default_value(section, (kind, times), &written))
        }
        (_, None) => Absent::Null,
    }
}

fn default_value(
    section: &Section<'_>,
    (kind, times): (ColumnType, &TimeRules),
    written: &Written<String>,
) -> Absent {
    // The file writes JSON and arrays as a string.
    let json = match kind {
        ColumnType::Json | ColumnType::Array(_) => {
            serde_json::from_str(&written.value).unwrap_or_else(|_| written.value.clone())
        }
        _ => written.value.clone(),
    };
    match DefaultValue::new(kind, times, &json) {
        Ok(value) => Absent::Default(value),
        Err(problem) => {
            section.fault_at(&written.span, format!("default: {problem}"));
            Absent::Null
        }
    }
}

fn bytes_max(section: &mut Section<'_>, kind: Option<ColumnType>) -> Option<BytesMax> {
    let bytes = section.number(&MAX);
    let mut overlong = Overlong::default();
    overlong.set(section.number_or_default(&OVER));
    if section.has(OVER.name) && !section.has(MAX.name) {
        section.fault("over has no effect without max: set max, or remove over");
    }
    let bytes = bytes?.try_into().ok()?;
    match kind {
        Some(ColumnType::Json) if overlong == Overlong::Truncate => {
            section.fault(
                "over = \"truncate\" is not allowed for type json, because cut JSON is invalid: \
                           allowed is \"reject\"",
            );
        }
        Some(ColumnType::Text | ColumnType::Bytes | ColumnType::Json) | None => {}
        Some(kind) => {
            section.fault(format!(
                "max is allowed for text, bytes and json, the type is {:?}: remove max",
                kind.name()
            ));
        }
    }
    Some(BytesMax { bytes, overlong })
}

fn redaction(
    section: &mut Section<'_>,
    kind: Option<ColumnType>,
    source: Option<&Source>,
) -> Option<Redaction> {
    let redaction = match section.text_or_table(REDACT.name, REDACT_ALLOWED)? {
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
            Some(("redact = \"truncate\" is allowed for type inet, or text from request.remote_addr", kind))
        }
        (Redaction::Hash(_), kind) => Some(("a hash is allowed for type text", kind)),
    };
    if let Some((problem, kind)) = problem {
        section.fault(format!("{problem}, the type is {:?}", kind.name()));
    }
    Some(redaction)
}

fn hash_key(mut table: Section<'_>) -> Option<HashKey> {
    if !table.has(HASH.name) {
        table.fault("missing key \"hash\" in redact");
    }
    let secret = table.secret(HASH.name);
    if let Some((variable, secret)) = &secret
        && secret.len() < SECRET_BYTES_MIN
    {
        let (name, bytes) = (&variable.value, secret.len());
        let text =
            format!("{name}, the key of a hash, has {bytes} bytes, allowed are at least {SECRET_BYTES_MIN}");
        table.fault_at(&variable.span, text);
    }
    table.finish();
    secret.map(|(variable, secret)| HashKey { variable: variable.value, secret: secret.into_bytes() })
}

/// Shows whether a column accepts exact values of other types.
pub(super) fn show_coerce(coerce: bool) -> OwnValue {
    (COERCE.name, coerce.then(|| true.to_string()))
}

/// Shows how a column reads times.
pub(super) fn show_times(times: &TimeRules) -> [OwnValue; 2] {
    [
        (UNIT.name, times.unit.map(|unit| UNIT.show(unit.number()))),
        (ZONE.name, times.zone.as_ref().map(|zone| quoted(zone.name()))),
    ]
}

/// Shows the rules of a column.
pub(super) fn show(rules: &ColumnRules, kind: ColumnType) -> [OwnValue; 5] {
    let (default, required) = match &rules.absent {
        Absent::Null => (None, None),
        Absent::Reject => (None, Some(true.to_string())),
        Absent::Default(value) => (Some(show_default(value.json(), kind)), None),
    };
    let max = rules.bytes_max.map(|max| MAX.show(max.bytes as u64));
    let over = rules.bytes_max.map(|max| OVER.show(max.overlong.number()));
    let redaction = rules.redaction.as_ref().map(|redaction| match redaction {
        Redaction::Drop => "\"drop\"".to_owned(),
        Redaction::Truncate => "\"truncate\"".to_owned(),
        Redaction::Hash(key) => {
            inline(REDACT_KEYS, &(), &[(HASH.name, Some(format!("\"${{{}}}\"", key.variable)))])
        }
    });
    [
        (DEFAULT.name, default),
        (REQUIRED.name, required),
        (MAX.name, max),
        (OVER.name, over),
        (REDACT.name, redaction),
    ]
}

/// Shows a default. Numbers and booleans are the same text in TOML and JSON.
fn show_default(json: &str, kind: ColumnType) -> String {
    match serde_json::from_str(json) {
        _ if matches!(kind, ColumnType::Json | ColumnType::Array(_)) => quoted(json),
        Ok(serde_json::Value::String(text)) => quoted(&text),
        _ => json.to_owned(),
    }
}
