//! The handler of a route.

use std::path::{Path, PathBuf};

use tollgate_server::{BackendOptions, HandlerSpec, ScriptFile};

use super::collect;
use super::denied::denial;
use super::files;
use super::key::{Facts, OwnValue, inline, keys};
use super::proxy;
use super::quoted::{quoted, quoted_path};
use super::section::{Section, Written};

/// The media type of a reply whose table sets none.
const CONTENT_TYPE_DEFAULT: &str = "text/plain; charset=utf-8";

/// The keys of a route that name a handler. A route has one of them.
pub(super) struct HandlerKeys {
    pub(super) script: &'static Facts,
    pub(super) files: &'static Facts,
    pub(super) proxy: &'static Facts,
    pub(super) collect: &'static Facts,
    pub(super) reply: &'static Facts,
}

keys! {
    /// The table `reply`.
    pub(super) KEYS of ();
    /// The status of the reply.
    status [STATUS] = integer(200, 200..=599);
    /// The media type of `body`.
    content_type [CONTENT_TYPE] = text(CONTENT_TYPE_DEFAULT, "a media type");
    /// The content of the reply.
    body [BODY] = text("", "a text, empty with 204, 205 and 304").hidden();
}

pub(super) fn handler(
    section: &mut Section<'_>,
    keys: &HandlerKeys,
    folder: &Path,
    backends: &[BackendOptions],
) -> Option<HandlerSpec> {
    let names = [keys.script, keys.files, keys.proxy, keys.collect, keys.reply].map(|key| key.name);
    let given: Vec<_> = names.into_iter().filter(|name| section.has(name)).collect();
    if given.len() != 1 {
        let found = if given.is_empty() { "none".to_owned() } else { given.join(" and ") };
        section.fault(format!(
            "[[route]] needs one handler, found {found}, allowed is one of {}",
            names.join(", ")
        ));
    }
    let script = section.text(keys.script.name).map(|file| script_handler(section, &file, folder));
    let files = files::files(section, keys.files, folder).map(|spec| HandlerSpec::Files(Box::new(spec)));
    let proxy = proxy::proxy(section, keys.proxy, backends).map(|spec| HandlerSpec::Proxy(Box::new(spec)));
    let collect = collect::collect(section, keys.collect).map(|spec| HandlerSpec::Collect(Box::new(spec)));
    let reply = section.take_table(keys.reply.name, "reply of [[route]]".to_owned()).map(reply_handler);
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
        let text = denial(&path).unwrap_or_else(|| {
            format!("{key} {:?} is not a file: looked for {}", file.value, path.display())
        });
        section.fault_at(&file.span, text);
    }
    path
}

fn script_handler(section: &Section<'_>, file: &Written<String>, folder: &Path) -> HandlerSpec {
    HandlerSpec::Script { file: script_file(section, "script", file, folder), root: folder.to_owned() }
}

fn reply_handler(mut section: Section<'_>) -> HandlerSpec {
    let status = u16::try_from(section.number_or_default(&STATUS)).unwrap_or_default();
    let content_type = section.text(CONTENT_TYPE.name);
    if let Some(written) = &content_type
        && !(written.value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && written.value.contains('/'))
    {
        let text =
            format!("content_type is {:?}, allowed is a media type like \"text/plain\"", written.value);
        section.fault_at(&written.span, text);
    }
    let body = section.text(BODY.name);
    if let Some(body) = &body
        && matches!(status, 204 | 205 | 304)
        && !body.value.is_empty()
    {
        let text =
            format!("body has {} bytes, allowed is none: a reply {status} has no content", body.value.len());
        section.fault_at(&body.span, text);
    }
    section.finish();
    let content_type =
        content_type.map_or_else(|| CONTENT_TYPE.default_text().to_owned(), |written| written.value);
    HandlerSpec::Reply { status, content_type, body: body.map(|body| body.value).unwrap_or_default().into() }
}

/// Shows the key of a handler.
pub(super) fn show(handler: &HandlerSpec, keys: &HandlerKeys, backends: &[BackendOptions]) -> OwnValue {
    let (key, value) = match handler {
        HandlerSpec::Script { file, .. } => (keys.script, quoted_path(file)),
        HandlerSpec::Collect(spec) => (keys.collect, collect::show(spec)),
        HandlerSpec::Files(files) => (keys.files, files::show(files)),
        HandlerSpec::Proxy(proxy) => (keys.proxy, proxy::show(proxy, backends)),
        HandlerSpec::Reply { status, content_type, body } => {
            let body = quoted(&String::from_utf8_lossy(body));
            let own = [
                (STATUS.name, Some(status.to_string())),
                (CONTENT_TYPE.name, Some(quoted(content_type))),
                (BODY.name, Some(body)),
            ];
            (keys.reply, inline(KEYS, &(), &own))
        }
    };
    (key.name, Some(value))
}
