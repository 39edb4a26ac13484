//! The text of a line in the formats of the access log. No value of a client can end its field, its line,
//! or the quotes around it.

use std::time::Duration;

use serde_json::Value;
use tollgate_server::{AccessClient, AccessLine};
use tollgate_value::{CivilTime, civil_time};

use crate::common_log::{is_plain, push_escape, push_padded, push_time};
use crate::config::{AccessField, AccessForm, AccessFormat, TemplatePart};
use crate::print::{push_formatted, push_json_string};
use crate::tracing_lines::is_misleading;

/// The text in place of a hidden address.
const HIDDEN: &str = "***";

/// Appends a line, with its end.
pub(super) fn push_line(out: &mut String, format: &AccessFormat, line: &AccessLine<'_>) {
    match &format.form {
        AccessForm::Template(parts) => parts.iter().for_each(|part| push_part(out, line, part)),
        AccessForm::Json => push_json(out, line),
        AccessForm::Short => push_short(out, line),
    }
    out.push('\n');
}

fn push_part(out: &mut String, line: &AccessLine<'_>, part: &TemplatePart) {
    match part {
        TemplatePart::Text(text) => out.push_str(text),
        TemplatePart::Field { field, is_quoted } => push_field(out, line, *field, *is_quoted),
    }
}

fn push_field(out: &mut String, line: &AccessLine<'_>, field: AccessField, is_quoted: bool) {
    match field {
        AccessField::RemoteAddr => push_client(out, line.client),
        AccessField::TimeLocal => push_time(out, line.time_us),
        AccessField::TimeIso => push_iso(out, line.time_us),
        AccessField::Seconds => {
            let (seconds, ms) =
                (line.time_us.div_euclid(1_000_000), line.time_us.rem_euclid(1_000_000) / 1000);
            push_formatted(out, format_args!("{seconds}.{ms:03}"));
        }
        AccessField::Request => push_request(out, line, is_quoted),
        AccessField::Status => push_status(out, line),
        AccessField::ReplyBytes => push_padded(out, line.reply_bytes, 1),
        AccessField::TookSeconds => {
            let (seconds, ms) = (line.took_us / 1_000_000, line.took_us % 1_000_000 / 1000);
            push_padded(out, seconds, 1);
            out.push('.');
            push_padded(out, ms, 3);
        }
        AccessField::TookUs => push_padded(out, line.took_us, 1),
        AccessField::Protocol => out.push_str(line.protocol.unwrap_or("-")),
        AccessField::Ack => out.push_str(line.ack.unwrap_or("-")),
        AccessField::Outcome => out.push_str(line.outcome.name().unwrap_or("-")),
        AccessField::RemoteUser => push_text(out, line.user, is_quoted),
        AccessField::Method => push_text(out, line.method, is_quoted),
        AccessField::Target => push_text(out, line.target, is_quoted),
        AccessField::Referer => push_text(out, line.referer, is_quoted),
        AccessField::UserAgent => push_text(out, line.user_agent, is_quoted),
        AccessField::Id => push_text(out, line.id, is_quoted),
        AccessField::Route => push_text(out, line.route, is_quoted),
    }
}

/// Appends the request line, or `-` if the server could not read it.
fn push_request(out: &mut String, line: &AccessLine<'_>, is_quoted: bool) {
    if line.method.is_none() {
        return out.push('-');
    }
    push_text(out, line.method, is_quoted);
    out.push(' ');
    push_text(out, line.target, is_quoted);
    out.push(' ');
    out.push_str(line.protocol.unwrap_or("-"));
}

/// Appends a text, or `-` if the line does not have it. Outside of quotes a blank is escaped too, because it
/// would end the field.
fn push_text(out: &mut String, text: Option<&[u8]>, is_quoted: bool) {
    match text {
        None | Some([]) => out.push('-'),
        Some(text) => {
            let is_kept = |byte: u8| is_plain(byte) && (is_quoted || byte != b' ');
            let kept_bytes = text.iter().take_while(|byte| is_kept(**byte)).count();
            let (kept, rest) = text.split_at(kept_bytes);
            // Plain bytes are ASCII.
            out.push_str(str::from_utf8(kept).unwrap_or_default());
            for &byte in rest {
                if is_kept(byte) { out.push(char::from(byte)) } else { push_escape(out, byte) }
            }
        }
    }
}

fn push_client(out: &mut String, client: AccessClient) {
    match client {
        AccessClient::Unknown => out.push('-'),
        AccessClient::Hidden => out.push_str(HIDDEN),
        AccessClient::Address(address) => push_formatted(out, format_args!("{address}")),
    }
}

fn push_status(out: &mut String, line: &AccessLine<'_>) {
    match line.status {
        Some(status) => push_padded(out, u64::from(status), 3),
        None => out.push('-'),
    }
}

/// Appends a time by RFC 3339, in UTC. A time out of range is `-`.
fn push_iso(out: &mut String, time_us: i64) {
    match civil_time(time_us) {
        Some(CivilTime { year, month, day, hour, minute, second, .. }) => {
            push_padded(out, year.unsigned_abs(), 4);
            for (separator, number) in [('-', month), ('-', day), ('T', hour), (':', minute), (':', second)] {
                out.push(separator);
                push_padded(out, number.unsigned_abs(), 2);
            }
            out.push('.');
            push_padded(out, time_us.rem_euclid(1_000_000).unsigned_abs(), 6);
            out.push('Z');
        }
        None => out.push('-'),
    }
}

/// Appends a line as a JSON object with all fields.
fn push_json(out: &mut String, line: &AccessLine<'_>) {
    out.push_str("{\"time\":\"");
    push_iso(out, line.time_us);
    out.push_str("\",\"remote_addr\":");
    match line.client {
        AccessClient::Unknown => out.push_str("null"),
        client => {
            out.push('"');
            push_client(out, client);
            out.push('"');
        }
    }
    push_json_text(out, "user", line.user);
    push_json_text(out, "method", line.method);
    push_json_text(out, "target", line.target);
    push_json_text(out, "protocol", line.protocol.map(str::as_bytes));
    push_formatted(out, format_args!(",\"status\":{}", Value::from(line.status)));
    push_formatted(out, format_args!(",\"reply_bytes\":{},\"took_us\":{}", line.reply_bytes, line.took_us));
    push_json_text(out, "route", line.route);
    push_json_text(out, "ack", line.ack.map(str::as_bytes));
    push_json_text(out, "outcome", line.outcome.name().map(str::as_bytes));
    push_json_text(out, "user_agent", line.user_agent);
    push_json_text(out, "referer", line.referer);
    push_json_text(out, "request_id", line.id);
    out.push('}');
}

/// Appends a field of an object. Invalid UTF-8 becomes U+FFFD. Characters that change the direction of the
/// text or look like a line end are escaped.
fn push_json_text(out: &mut String, name: &str, text: Option<&[u8]>) {
    push_formatted(out, format_args!(",\"{name}\":"));
    let Some(text) = text else { return out.push_str("null") };
    let start = out.len();
    push_json_string(out, &String::from_utf8_lossy(text));
    if out[start..].contains(is_misleading) {
        let shown = out.split_off(start);
        for character in shown.chars() {
            if is_misleading(character) {
                push_formatted(out, format_args!("\\u{:04x}", u32::from(character)));
            } else {
                out.push(character);
            }
        }
    }
}

/// Appends a line for a person at a terminal.
fn push_short(out: &mut String, line: &AccessLine<'_>) {
    push_text(out, line.method, false);
    out.push(' ');
    push_text(out, line.target, false);
    out.push(' ');
    push_status(out, line);
    let took_ms = Duration::from_micros(line.took_us).as_secs_f64() * 1e3;
    push_formatted(out, format_args!(" {} B {took_ms:.1} ms", line.reply_bytes));
    for word in [line.ack, line.outcome.name()].into_iter().flatten() {
        out.push(' ');
        out.push_str(word);
    }
}
