//! What answers the requests of a route.

use std::fmt;
use std::path::{Path, PathBuf};

use tollgate_server::{BackendOptions, HandlerSpec, ScriptFile};

use super::files;
use super::proxy;
use super::quoted::{quoted, quoted_path};
use super::section::{Section, Written};

const HANDLERS: [&str; 5] = ["script", "files", "proxy", "collect", "reply"];
/// The media type of a reply that names none.
const CONTENT_TYPE: &str = "text/plain; charset=utf-8";

pub(super) fn handler(
    section: &mut Section<'_>,
    folder: &Path,
    backends: &[BackendOptions],
) -> Option<HandlerSpec> {
    let given: Vec<_> = HANDLERS.into_iter().filter(|key| section.has(key)).collect();
    if given.len() != 1 {
        let found = if given.is_empty() { "none".to_owned() } else { given.join(" and ") };
        section.fault(format!(
            "[[route]] needs one handler, found {found}, allowed is one of {}",
            HANDLERS.join(", ")
        ));
    }
    let script = section.text("script").map(|file| script_handler(section, &file, folder));
    let files = files::files(section, folder).map(|spec| HandlerSpec::Files(Box::new(spec)));
    let proxy = proxy::proxy(section, backends).map(|spec| HandlerSpec::Proxy(Box::new(spec)));
    let collect = section.switch("collect").and_then(|collect| collect_handler(section, &collect));
    let reply = section.take_table("reply", "reply of [[route]]".to_owned()).map(reply_handler);
    script.or(files).or(proxy).or(collect).or(reply)
}

/// Scripts that run before or after a handler.
pub(super) fn scripts_beside(section: &mut Section<'_>, key: &'static str, folder: &Path) -> Vec<ScriptFile> {
    let files = section.texts(key).unwrap_or_default();
    let scripts = files
        .iter()
        .map(|file| ScriptFile { file: script_file(section, key, file, folder), root: folder.to_owned() });
    scripts.collect()
}

fn script_file(section: &Section<'_>, key: &str, file: &Written<String>, folder: &Path) -> PathBuf {
    let path = folder.join(&file.value);
    if !path.is_file() {
        section.fault_at(
            &file.span,
            format!("{key} {:?} is no file: looked for {}", file.value, path.display()),
        );
    }
    path
}

fn script_handler(section: &Section<'_>, file: &Written<String>, folder: &Path) -> HandlerSpec {
    HandlerSpec::Script { file: script_file(section, "script", file, folder), root: folder.to_owned() }
}

fn collect_handler(section: &Section<'_>, collect: &Written<bool>) -> Option<HandlerSpec> {
    if !collect.value {
        section.fault_at(&collect.span, "collect in [[route]] is false, allowed is true, or no such key");
    }
    collect.value.then_some(HandlerSpec::Collect)
}

fn reply_handler(mut section: Section<'_>) -> HandlerSpec {
    let status = section.integer("status", 200..=599, 200);
    let content_type = section.text("content_type");
    if let Some(written) = &content_type
        && !(written.value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && written.value.contains('/'))
    {
        let text =
            format!("content_type is {:?}, allowed is a media type like \"text/plain\"", written.value);
        section.fault_at(&written.span, text);
    }
    let body = section.text("body");
    if let Some(body) = &body
        && matches!(status, 204 | 205 | 304)
        && !body.value.is_empty()
    {
        let text =
            format!("body has {} bytes, allowed is none: a reply {status} has no content", body.value.len());
        section.fault_at(&body.span, text);
    }
    section.finish();
    let content_type = content_type.map_or_else(|| CONTENT_TYPE.to_owned(), |written| written.value);
    HandlerSpec::Reply { status, content_type, body: body.map(|body| body.value).unwrap_or_default().into() }
}

/// Writes the key of a handler.
pub(super) fn write(
    handler: &HandlerSpec,
    backends: &[BackendOptions],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match handler {
        HandlerSpec::Script { file, .. } => writeln!(f, "script = {}", quoted_path(file)),
        HandlerSpec::Collect => writeln!(f, "collect = true"),
        HandlerSpec::Files(files) => writeln!(f, "files = {}", files::show(files)),
        HandlerSpec::Proxy(proxy) => writeln!(f, "proxy = {}", proxy::show(proxy, backends)),
        HandlerSpec::Reply { status, content_type, body } => {
            let (content_type, body) = (quoted(content_type), quoted(&String::from_utf8_lossy(body)));
            writeln!(f, "reply = {{ status = {status}, content_type = {content_type}, body = {body} }}")
        }
    }
}
