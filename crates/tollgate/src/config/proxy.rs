//! `proxy` of a route: the name of a backend, or a table. The printed table reads back to the same value.

use tollgate_server::{AnyOr, BackendOptions, EncodedSlashes, HostSent, Method, ProxySpec, is_framing_field};

use super::cors::{header_problem, is_own_field, show_list};
use super::fault::did_you_mean;
use super::key::{Facts, inline, keys, set_defaults};
use super::quoted::{quoted, quoted_list};
use super::section::{Section, TextOrTable, Written};
use super::value::{named, names};

const ALLOWED: &str = "the name of a backend or a table { backend = \"NAME\", ... }";

named!(EncodedSlashes, HostSent);

keys! {
    pub(super) KEYS of ProxySpec;
    /// The name of the backend.
    backend [BACKEND] = other("needed", "the name of a `[backend.NAME]`");
    /// Whether the part before `*` in the route's path is removed.
    strip_prefix = switch(false) => strip_prefix;
    /// A path that is added in front of the request's path.
    prefix [PREFIX] = other("none", r#"a path like `"/v2"`"#);
    /// Methods that the server does not know and the backend gets, such as `PROPFIND`. `["*"]`: all of them.
    extension_methods [EXTENSION_METHODS] = other("`[]`", r#"a list of names, or `["*"]`"#);
    /// Whether a path may have an encoded slash: `%2F` or `%5C`. `pass`: the backend gets it unchanged.
    encoded_slashes = one_of("refuse", names::<EncodedSlashes>) => encoded_slashes;
    /// Whether paths and hosts in replies are changed so that they lead back through the route.
    rewrite_paths = switch(true) => rewrite_paths;
    /// The value of `Host`. `pass`: as the client sent it. `backend`: the first of `urls`.
    host = one_of("pass", names::<HostSent>) => host;
    /// Header fields that the backend gets. They replace the client's fields and the server's additions.
    set_headers [SET_HEADERS] = other("none", "a table of texts").hidden();
    /// Header fields that the backend does not get.
    remove_headers [REMOVE_HEADERS] = other("none", "a list of names");
    /// Header fields that the client gets. They replace the backend's.
    set_reply_headers [SET_REPLY_HEADERS] = other("none", "a table of texts").hidden();
    /// Header fields that the client does not get.
    remove_reply_headers [REMOVE_REPLY_HEADERS] = other("none", "a list of names");
}

/// Takes the handler of a route, if `proxy` is set.
pub(super) fn proxy(
    section: &mut Section<'_>,
    key: &Facts,
    backends: &[BackendOptions],
) -> Option<ProxySpec> {
    match section.text_or_table(key.name, ALLOWED)? {
        TextOrTable::Text(name) => {
            let mut spec = ProxySpec::new(place(section, &name, backends));
            set_defaults(KEYS, &mut spec);
            Some(spec)
        }
        TextOrTable::Table(table) => Some(detailed(table, backends)),
    }
}

fn detailed(mut section: Section<'_>, backends: &[BackendOptions]) -> ProxySpec {
    let name = section.needed_text(BACKEND.name);
    let mut spec = ProxySpec::new(name.map_or(0, |name| place(&section, &name, backends)));
    section.read(KEYS, &mut spec);
    if let Some(prefix) = section.text(PREFIX.name) {
        if !is_prefix(&prefix.value) {
            let text = format!(
                "prefix in proxy is {:?}, allowed is a path like \"/v2\", without escapes and without a \
                 slash at the end",
                prefix.value
            );
            section.fault_at(&prefix.span, text);
        }
        spec.prefix = prefix.value;
    }
    spec.extension_methods = extension_methods(&mut section);
    spec.set_headers = set(&mut section, SET_HEADERS.name, to_backend_problem);
    spec.remove_headers = removed(&mut section, REMOVE_HEADERS.name);
    spec.set_reply_headers = set(&mut section, SET_REPLY_HEADERS.name, to_client_problem);
    spec.remove_reply_headers = removed(&mut section, REMOVE_REPLY_HEADERS.name);
    section.finish();
    spec
}

fn place(section: &Section<'_>, name: &Written<String>, backends: &[BackendOptions]) -> usize {
    let found = backends.iter().position(|backend| backend.name == name.value);
    found.unwrap_or_else(|| {
        let hint = match backends {
            [] => ": the file has no [backend.NAME]".to_owned(),
            _ => did_you_mean(&name.value, backends.iter().map(|backend| backend.name.as_str())),
        };
        section.fault_at(&name.span, format!("unknown backend {:?}{hint}", name.value));
        0
    })
}

fn extension_methods(section: &mut Section<'_>) -> AnyOr<String> {
    let names = section.texts(EXTENSION_METHODS.name).unwrap_or_default();
    if let [name] = names.as_slice()
        && name.value == "*"
    {
        return AnyOr::Any;
    }
    for name in &names {
        if !is_extension_method(&name.value) {
            let text = format!(
                "extension_methods in proxy has {:?}, allowed is the name of a method that the server does not \
                 know, except CONNECT and TRACE, or \"*\" alone",
                name.value
            );
            section.fault_at(&name.span, text);
        }
    }
    AnyOr::Listed(names.into_iter().map(|name| name.value).collect())
}

fn is_extension_method(name: &str) -> bool {
    // The name of a method and of a header are both tokens.
    name != "*" && header_problem(name).is_none() && Method::is_extension(name.as_bytes())
}

fn is_prefix(text: &str) -> bool {
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte);
    text.starts_with('/') && !text.ends_with('/') && text.bytes().all(is_sound)
}

fn set(
    section: &mut Section<'_>,
    key: &'static str,
    problem: fn(&str) -> Option<&'static str>,
) -> Vec<(String, String)> {
    let Some(table) = section.take_table(key, key.to_owned()) else { return Vec::new() };
    let span = table.span().clone();
    let mut fields: Vec<(String, String)> = Vec::new();
    for (name, value) in table.named_texts() {
        check(section, key, &name, &value.span);
        if let Some(problem) = problem(&name) {
            section.fault_at(&value.span, format!("{key} has {name:?}{problem}"));
        }
        let is_value = value.value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
        if !is_value || value.value.trim_matches([' ', '\t']) != value.value {
            let text = format!(
                "{key} has {name:?} with a value that is not allowed: a control character, or a blank at its \
                 begin or end"
            );
            section.fault_at(&value.span, text);
        }
        if fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            section.fault_at(&span, format!("{key} has {name:?} twice"));
        }
        fields.push((name, value.value));
    }
    fields
}

fn to_backend_problem(name: &str) -> Option<&'static str> {
    name.eq_ignore_ascii_case("via").then_some(", to which the server only appends: remove it")
}

fn to_client_problem(name: &str) -> Option<&'static str> {
    is_own_field(name)
        .then_some(", but only the server writes names that begin with Tollgate-: choose another name")
}

fn removed(section: &mut Section<'_>, key: &'static str) -> Vec<String> {
    let names = section.texts(key).unwrap_or_default();
    names.iter().for_each(|name| check(section, key, &name.value, &name.span));
    names.into_iter().map(|name| name.value).collect()
}

/// Refuses the fields that frame or route a message, because the server writes them itself.
fn check(section: &Section<'_>, key: &str, name: &str, span: &super::fault::Span) {
    if header_problem(name).is_some() {
        section.fault_at(span, format!("{key} has {name:?}, allowed is the name of a header"));
    } else if is_framing_field(name) || name.eq_ignore_ascii_case("host") {
        section.fault_at(span, format!("{key} has {name:?}, which only the server writes: remove it"));
    }
}

/// Shows the options as the file writes them, with every key.
pub(super) fn show(spec: &ProxySpec, backends: &[BackendOptions]) -> String {
    let backend = backends.get(spec.backend).map_or("", |backend| backend.name.as_str());
    let own = [
        (BACKEND.name, Some(quoted(backend))),
        (PREFIX.name, Some(quoted(&spec.prefix)).filter(|_| !spec.prefix.is_empty())),
        (EXTENSION_METHODS.name, Some(show_list(&spec.extension_methods))),
        (SET_HEADERS.name, Some(show_set(&spec.set_headers))),
        (REMOVE_HEADERS.name, Some(quoted_list(&spec.remove_headers))),
        (SET_REPLY_HEADERS.name, Some(show_set(&spec.set_reply_headers))),
        (REMOVE_REPLY_HEADERS.name, Some(quoted_list(&spec.remove_reply_headers))),
    ];
    inline(KEYS, spec, &own)
}

fn show_set(fields: &[(String, String)]) -> String {
    let fields = fields.iter().map(|(name, value)| format!("\"{name}\" = {}", quoted(value)));
    format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
}
