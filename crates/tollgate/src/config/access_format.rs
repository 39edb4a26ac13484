//! The formats of the access log: names, and templates such as `$remote_addr $status`. The fields of a
//! template have the names of nginx, where nginx has the field.
//!
//! [`access_log`](crate::access_log) makes lines in these formats.

use super::fault::did_you_mean;

/// The template of the combined format, as nginx defines it.
const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
                        \"$http_referer\" \"$http_user_agent\"";
/// Names of formats that are no templates.
const NAMES: [&str; 3] = ["combined", "json", "short"];

/// A format, with the text that defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessFormat {
    text: String,
    pub(crate) form: AccessForm,
}

/// The form of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessForm {
    Template(Vec<TemplatePart>),
    Json,
    /// One line for a person: method, target, status, bytes, time, ack level, outcome.
    Short,
}

impl AccessFormat {
    /// The name of the default format.
    pub(super) const COMBINED: &str = NAMES[0];

    /// Reads a format: a name, or a template.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let form = match text {
            "combined" => AccessForm::Template(parse(COMBINED)?),
            "json" => AccessForm::Json,
            "short" => AccessForm::Short,
            _ if !text.contains('$') => {
                let [combined, json, short] = NAMES;
                return Err(format!(
                    "allowed is \"{combined}\", \"{json}\", \"{short}\", or a text with fields like $status"
                ));
            }
            _ => AccessForm::Template(parse(text)?),
        };
        Ok(Self { text: text.to_owned(), form })
    }

    /// Returns the format for a person at a terminal.
    pub(super) fn short() -> Self {
        Self { text: NAMES[2].to_owned(), form: AccessForm::Short }
    }

    /// Returns the text that defines the format.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// A field of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessField {
    RemoteAddr,
    RemoteUser,
    TimeLocal,
    TimeIso,
    Seconds,
    Request,
    Method,
    Target,
    Protocol,
    Status,
    ReplyBytes,
    TookSeconds,
    TookUs,
    Referer,
    UserAgent,
    Id,
    Route,
    Ack,
    Outcome,
}

/// The names of the fields.
pub(crate) const ACCESS_FIELDS: [(&str, AccessField); 19] = [
    ("remote_addr", AccessField::RemoteAddr),
    ("remote_user", AccessField::RemoteUser),
    ("time_local", AccessField::TimeLocal),
    ("time_iso8601", AccessField::TimeIso),
    ("msec", AccessField::Seconds),
    ("request", AccessField::Request),
    ("request_method", AccessField::Method),
    ("request_uri", AccessField::Target),
    ("server_protocol", AccessField::Protocol),
    ("status", AccessField::Status),
    ("body_bytes_sent", AccessField::ReplyBytes),
    ("request_time", AccessField::TookSeconds),
    ("took_us", AccessField::TookUs),
    ("http_referer", AccessField::Referer),
    ("http_user_agent", AccessField::UserAgent),
    ("request_id", AccessField::Id),
    ("route", AccessField::Route),
    ("ack", AccessField::Ack),
    ("outcome", AccessField::Outcome),
];

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TemplatePart {
    Text(String),
    Field {
        field: AccessField,
        /// Whether the field is between double quotes. A blank of its value then needs no escape.
        is_quoted: bool,
    },
}

/// Reads a template.
///
/// # Errors
/// A text that says what is wrong.
fn parse(text: &str) -> Result<Vec<TemplatePart>, String> {
    if text.contains(char::is_control) {
        return Err("has a control character, allowed is a text on one line".to_owned());
    }
    let (mut parts, mut plain, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        plain.push_str(before);
        is_quoted ^= before.matches('"').count() % 2 == 1;
        if let Some(after) = after.strip_prefix('$') {
            plain.push('$');
            rest = after;
            continue;
        }
        let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let name_bytes = after.find(|character| !is_part(character)).unwrap_or(after.len());
        let (name, after) = after.split_at(name_bytes);
        let field = field(name)?;
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
        }
        parts.push(TemplatePart::Field { field, is_quoted });
        rest = after;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        parts.push(TemplatePart::Text(plain));
    }
    Ok(parts)
}

fn field(name: &str) -> Result<AccessField, String> {
    let found = ACCESS_FIELDS.iter().find(|(known, _)| *known == name);
    found.map(|(_, field)| *field).ok_or_else(|| {
        let hint = did_you_mean(name, ACCESS_FIELDS.iter().map(|(name, _)| *name));
        format!("has the unknown field \"${name}\"{hint}. $$ stands for $ itself")
    })
}
