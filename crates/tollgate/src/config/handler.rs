//! The handler of a route.

use std::path::{Path, PathBuf};

use tollgate_server::{BackendOptions, HandlerSpec, ScriptFile};

use super::collect;
use super::denied::denial;
use super::files;
use super::fixed_reply::{self, fixed_reply};
use super::key::{Facts, OwnValue, inline};
use super::proxy;
use super::quoted::quoted_path;
use super::section::{Section, Written};
use super::when::{self, WhenKeys, when};

/// The keys of a route that name a handler. A route has one of them.
pub(super) struct HandlerKeys {
    pub(super) script: &'static Facts,
    pub(super) files: &'static Facts,
    pub(super) proxy: &'static Facts,
    pub(super) collect: &'static Facts,
    pub(super) reply: &'static Facts,
    pub(super) when: WhenKeys,
}

pub(super) fn handler(
    section: &mut Section<'_>,
    keys: &HandlerKeys,
    folder: &Path,
    backends: &[BackendOptions],
) -> Option<HandlerSpec> {
    let names =
        [keys.script, keys.files, keys.proxy, keys.collect, keys.reply, keys.when.when].map(|key| key.name);
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
    let when = when(section, &keys.when, backends).map(|spec| HandlerSpec::When(Box::new(spec)));
    script.or(files).or(proxy).or(collect).or(reply).or(when)
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
    let reply = fixed_reply(&mut section);
    section.finish();
    HandlerSpec::from(&reply)
}

/// Shows the keys of a handler.
pub(super) fn show(handler: &HandlerSpec, keys: &HandlerKeys, backends: &[BackendOptions]) -> Vec<OwnValue> {
    let (key, value) = match handler {
        HandlerSpec::Script { file, .. } => (keys.script, quoted_path(file)),
        HandlerSpec::Collect(spec) => (keys.collect, collect::show(spec)),
        HandlerSpec::Files(files) => (keys.files, files::show(files)),
        HandlerSpec::Proxy(proxy) => (keys.proxy, proxy::show(proxy, backends)),
        HandlerSpec::Reply { status, content_type, body } => {
            let own = fixed_reply::show(*status, content_type, body);
            (keys.reply, inline(fixed_reply::KEYS, &(), &own))
        }
        HandlerSpec::When(spec) => {
            let keys = &keys.when;
            return vec![
                (keys.when.name, Some(when::show(spec, backends))),
                (keys.otherwise.name, Some(when::show_otherwise(spec, backends))),
                (keys.namespaces.name, when::show_namespaces(spec)),
                (keys.look_ahead.name, Some(keys.look_ahead.show(spec.look_ahead_bytes as u64))),
            ];
        }
    };
    vec![(key.name, Some(value))]
}
