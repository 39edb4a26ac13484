//! `tollgate check --sample`: the rows and rejects that a captured request would make.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use tollgate_server::{
    HandlerSpec, SampleRecord, SampleReject, SampleReply, SampleRequest, SampleRow, ServerOptions, sample,
};

use crate::cli::SampleArguments;
use crate::config::Config;
use crate::log::push_value;
use crate::print::{note, printable, push_formatted, push_json_string, to_stdout_marked};

/// Exit code if the request cannot be made.
const UNUSABLE: u8 = 2;

/// Prints the records that the content of a file would make. Exits with 1 if the reply is an error, or if a
/// record is a reject.
pub(crate) fn run(config: &Config, file: &Path, arguments: SampleArguments) -> anyhow::Result<ExitCode> {
    let is_json = arguments.json;
    let request = match request(&config.server, file, arguments)? {
        Ok(request) => request,
        Err(text) => return Ok(unusable(&text)),
    };
    let (method, target) = (request.method.clone(), request.target.clone());
    let reply = match sample(&config.server, request) {
        Ok(reply) => reply,
        Err(error) => return Ok(unusable(&format!("{method} {target}: {error}"))),
    };
    let is_sound = reply.status < 400 && reply.error.is_none();
    let has_rejects = reply.records.iter().any(|record| record.outcome.is_err());
    to_stdout_marked(|out| {
        if is_json {
            writeln!(out, "{}", as_json(&reply))?;
        } else {
            write_text(out, &format!("{method} {target}"), &reply)?;
        }
        Ok(if is_sound && !has_rejects { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn unusable(text: &str) -> ExitCode {
    note(text);
    ExitCode::from(UNUSABLE)
}

/// Returns the request, or the reason why the arguments name none.
fn request(
    server: &ServerOptions,
    file: &Path,
    arguments: SampleArguments,
) -> anyhow::Result<Result<SampleRequest, String>> {
    let SampleArguments { route, method, content_type, header, json: _ } = arguments;
    let target = match route.map_or_else(|| only_collect_path(server), Ok) {
        Ok(target) => target,
        Err(text) => return Ok(Err(text)),
    };
    let mut fields = Vec::new();
    for line in header {
        let Some((name, value)) = line.split_once(':') else {
            return Ok(Err(format!("--header is {line:?}, allowed is \"NAME: VALUE\"")));
        };
        fields.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    let has_type = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !content_type.is_empty() && !has_type {
        fields.push(("Content-Type".to_owned(), content_type));
    }
    let content = read(file)?.into();
    Ok(Ok(SampleRequest { method, target, fields, content }))
}

/// Returns the path of the only route with `collect`.
fn only_collect_path(server: &ServerOptions) -> Result<String, String> {
    let collecting = server.routes.iter().filter(|route| matches!(route.handler, HandlerSpec::Collect(_)));
    let paths: Vec<_> = collecting.map(|route| route.path.as_str()).collect();
    match paths.as_slice() {
        [path] => Ok(escaped(path)),
        [] => Err("no route has collect: name the path of the request by --route".to_owned()),
        paths => Err(format!("several routes have collect: choose one by --route: {}", paths.join(", "))),
    }
}

/// Returns a path pattern as the path of a request. A capture then has its own name as its value.
fn escaped(path: &str) -> String {
    let mut target = String::new();
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => target.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => target.push(char::from(byte)),
            _ => push_formatted(&mut target, format_args!("%{byte:02X}")),
        }
    }
    target
}

/// Reads a file, or stdin if the file is `-`.
fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut content = Vec::new();
        io::stdin().lock().read_to_end(&mut content).context("cannot read stdin")?;
        return Ok(content);
    }
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

fn write_text(out: &mut dyn Write, request: &str, reply: &SampleReply) -> io::Result<()> {
    let SampleReply { route, status, content, records, error } = reply;
    let content = String::from_utf8_lossy(content);
    let route = route.as_ref().map_or("no route".to_owned(), |route| format!("route {route}"));
    writeln!(out, "{} ({route}): {status} {}", printable(request), printable(content.trim_end()))?;
    if let Some(error) = error {
        writeln!(out, "script failed: {}", printable(error))?;
    }
    for record in records {
        writeln!(out, "{}", line(record))?;
    }
    let rejects = records.iter().filter(|record| record.outcome.is_err()).count();
    let rows = records.len() - rejects;
    let plural = |count| if count == 1 { "" } else { "s" };
    writeln!(out, "{rows} row{}, {rejects} reject{}", plural(rows), plural(rejects))
}

/// Returns the line of one record.
fn line(SampleRecord { stream, index, outcome }: &SampleRecord) -> String {
    let place = index.map_or("emitted".to_owned(), |index| index.to_string());
    match outcome {
        Ok(row) => format!("row {place} of {stream}: {}", row_as_json(row)),
        Err(SampleReject { reason, item }) => {
            let item = String::from_utf8_lossy(item);
            format!("reject {place} of {stream}: {}: {}", printable(reason), printable(&item))
        }
    }
}

fn row_as_json(row: &SampleRow) -> String {
    let mut json = String::from("{");
    for (index, (column, value)) in row.values().enumerate() {
        if index > 0 {
            json.push(',');
        }
        push_json_string(&mut json, column);
        json.push(':');
        push_value(&mut json, value);
    }
    json.push('}');
    json
}

fn as_json(SampleReply { route, status, content, records, error }: &SampleReply) -> String {
    let mut json = String::from("{\"route\":");
    push_optional(&mut json, route.as_deref());
    push_formatted(&mut json, format_args!(",\"status\":{status},\"reply\":"));
    push_json_string(&mut json, &String::from_utf8_lossy(content));
    json.push_str(",\"error\":");
    push_optional(&mut json, error.as_deref());
    json.push_str(",\"records\":[");
    for (place, record) in records.iter().enumerate() {
        if place > 0 {
            json.push(',');
        }
        push_record(&mut json, record);
    }
    json.push_str("]}");
    json
}

fn push_record(json: &mut String, SampleRecord { stream, index, outcome }: &SampleRecord) {
    json.push_str("{\"stream\":");
    push_json_string(json, stream);
    let index = index.map_or("null".to_owned(), |index| index.to_string());
    push_formatted(json, format_args!(",\"index\":{index},"));
    match outcome {
        Ok(row) => push_formatted(json, format_args!("\"row\":{}}}", row_as_json(row))),
        Err(SampleReject { reason, item }) => {
            json.push_str("\"reject\":");
            push_json_string(json, reason);
            json.push_str(",\"item\":");
            push_json_string(json, &String::from_utf8_lossy(item));
            json.push('}');
        }
    }
}

fn push_optional(json: &mut String, text: Option<&str>) {
    match text {
        Some(text) => push_json_string(json, text),
        None => json.push_str("null"),
    }
}
