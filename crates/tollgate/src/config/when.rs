//! `when` of a route: rules that choose its handler. The printed rules read back to the same rules.

use tollgate_server::{
    BackendOptions, ChosenHandler, ConditionSpec, FieldPath, ProxySpec, RuleSpec, ValueTest, WhenSpec,
    XmlPaths,
};

use super::cors::header_problem;
use super::fixed_reply::{self, fixed_reply};
use super::key::{Facts, OwnValue, inline, keys};
use super::proxy;
use super::quoted::{quoted, quoted_list};
use super::section::{Section, Written};

const HANDLER_ALLOWED: &str = "one of proxy, status";
const HEADER_ALLOWED: &str = "`NAME`, `NAME = 'text'`, `NAME != 'text'`, or a list";
const XML_ALLOWED: &str = "a path like `/p:a/b`, `/a/@b = 'text'`, or a list";
const JSON_ALLOWED: &str = "`/a/b`, `/a/b = 'text'`, `/a/b != 'text'`, or a list";

keys! {
    /// The keys of a rule. `otherwise` has those of the handler.
    pub(super) KEYS of ();
    /// A condition about a header field of the request.
    header [HEADER] = other("none", HEADER_ALLOWED);
    /// A condition about a field of the JSON object in the look-ahead.
    json [JSON] = other("none", JSON_ALLOWED);
    /// A condition about the XML document in the look-ahead: a path that finds something.
    xml [XML] = other("none", XML_ALLOWED);
    /// The backend that the request is sent to.
    proxy [PROXY] = other("none", "as `proxy` of a route");
    /// The status of a fixed reply. `content_type` and `body` belong to it.
    status [STATUS] = other("none", "200 to 599");
    /// The media type of `body`.
    content_type = other("`text/plain; charset=utf-8`", "a media type");
    /// The content of the reply.
    body = other("none", "a text").hidden();
}

/// The keys of a route that belong to `when`.
pub(super) struct WhenKeys {
    pub(super) when: &'static Facts,
    pub(super) otherwise: &'static Facts,
    pub(super) look_ahead: &'static Facts,
    pub(super) namespaces: &'static Facts,
}

/// Takes the handler of a route, if `when` is set.
pub(super) fn when(
    section: &mut Section<'_>,
    keys: &WhenKeys,
    backends: &[BackendOptions],
) -> Option<WhenSpec> {
    if !section.has(keys.when.name) {
        for key in [keys.otherwise, keys.look_ahead, keys.namespaces]
            .map(|key| key.name)
            .into_iter()
            .filter(|key| section.has(key))
        {
            section.fault_of(key, format!("{key} in [[route]] has no effect without when: remove it"));
        }
        section.skip(keys.otherwise.name);
        section.skip(keys.look_ahead.name);
        section.skip(keys.namespaces.name);
        return None;
    }
    let look_ahead = section.number_or_default(keys.look_ahead);
    let tables = section.tables(keys.when.name, "when of [[route]]", "a list of tables").unwrap_or_default();
    if tables.is_empty() {
        section.fault_of(keys.when.name, "when in [[route]] has no rules: add one, or use another handler");
    }
    let namespaces = section.take_table(keys.namespaces.name, "namespaces of [[route]]".to_owned());
    let namespaces = namespaces.map(Section::named_texts).unwrap_or_default();
    let namespaces = namespaces.into_iter().map(|(prefix, uri)| (prefix, uri.value)).collect();
    let mut reader = RuleReader { backends, namespaces, xml_paths: Vec::new() };
    let rules: Vec<_> = tables.into_iter().filter_map(|table| reader.rule(table)).collect();
    let Some(otherwise) = section.take_table(keys.otherwise.name, "otherwise of [[route]]".to_owned()) else {
        if !section.has(keys.otherwise.name) {
            section.fault(
                "missing key \"otherwise\" in [[route]]: when needs the handler of all other requests",
            );
        }
        return None;
    };
    let otherwise = alone(otherwise, backends)?;
    let RuleReader { namespaces, xml_paths, .. } = reader;
    let xml_paths = XmlPaths::compile(&xml_paths, &namespaces).ok()?;
    let look_ahead_bytes = usize::try_from(look_ahead).ok()?;
    let spec = WhenSpec { look_ahead_bytes, xml_paths, namespaces, rules, otherwise };
    check_proxies(section, keys.when.name, &spec);
    Some(spec)
}

/// Checks that all backends take the same requests. The head is checked before a rule has decided.
fn check_proxies(section: &Section<'_>, key: &'static str, spec: &WhenSpec) {
    let taken = |proxy: &ProxySpec| (proxy.extension_methods.clone(), proxy.encoded_slashes);
    let mut proxies = spec.proxies().map(taken);
    let first = proxies.next();
    if proxies.any(|other| Some(other) != first) {
        section.fault_of(
            key,
            "when in [[route]] has proxies that differ in extension_methods or encoded_slashes: both are \
             checked before a rule decides, so they have to be the same",
        );
    }
}

/// Reads rules, and gathers their paths of XML.
struct RuleReader<'a> {
    backends: &'a [BackendOptions],
    /// The namespaces of prefixes.
    namespaces: Vec<(String, String)>,
    xml_paths: Vec<String>,
}

impl RuleReader<'_> {
    fn rule(&mut self, mut section: Section<'_>) -> Option<RuleSpec> {
        let [headers, fields, paths] = [HEADER.name, JSON.name, XML.name]
            .map(|key| section.text_or_texts(key, "a text or a list of texts"));
        if headers.is_empty() && fields.is_empty() && paths.is_empty() {
            section.fault("a rule of when has no condition: add header, json or xml");
        }
        let mut conditions: Vec<_> = headers.iter().filter_map(|(_, text)| header(&section, text)).collect();
        conditions.extend(fields.iter().filter_map(|(_, text)| json(&section, text)));
        conditions.extend(paths.iter().filter_map(|(_, text)| self.xml(&section, text)));
        let handler = handler_of(&mut section, self.backends)?;
        section.finish();
        Some(RuleSpec { conditions, handler })
    }

    fn xml(&mut self, section: &Section<'_>, text: &Written<String>) -> Option<ConditionSpec> {
        if let Err((_, problem)) = XmlPaths::compile(std::slice::from_ref(&text.value), &self.namespaces) {
            section.fault_at(&text.span, format!("xml in when is {:?}: {problem}", text.value));
            return None;
        }
        self.xml_paths.push(text.value.clone());
        Some(ConditionSpec::Xml { path: self.xml_paths.len() - 1, text: text.value.clone() })
    }
}

fn alone(mut section: Section<'_>, backends: &[BackendOptions]) -> Option<ChosenHandler> {
    let handler = handler_of(&mut section, backends)?;
    section.finish();
    Some(handler)
}

/// Takes a backend or a fixed reply.
fn handler_of(section: &mut Section<'_>, backends: &[BackendOptions]) -> Option<ChosenHandler> {
    let has = [PROXY.name, STATUS.name].map(|key| section.has(key));
    [PROXY.name, STATUS.name]
        .into_iter()
        .zip(has)
        .filter(|(_, has)| !has)
        .for_each(|(key, _)| section.skip(key));
    match has.into() {
        (true, false) => {
            proxy::proxy(section, &PROXY, backends).map(|spec| ChosenHandler::Proxy(spec.into()))
        }
        (false, true) => Some(fixed_reply(section)),
        (both, _) => {
            let found = if both { "proxy and status" } else { "none" };
            section.fault(format!(
                "{} needs one handler, found {found}, allowed is {HANDLER_ALLOWED}",
                section.name()
            ));
            None
        }
    }
}

fn header(section: &Section<'_>, text: &Written<String>) -> Option<ConditionSpec> {
    let (name, test) = split(section, HEADER.name, text)?;
    if header_problem(name).is_some() {
        section.fault_at(
            &text.span,
            format!("header in when is {:?}, allowed is the name of a header", text.value),
        );
    }
    Some(ConditionSpec::Header { name: name.to_owned(), test })
}

fn json(section: &Section<'_>, text: &Written<String>) -> Option<ConditionSpec> {
    let (path, test) = split(section, JSON.name, text)?;
    match FieldPath::parse(path) {
        Ok(path) => Some(ConditionSpec::Json { path, test }),
        Err(problem) => {
            section.fault_at(&text.span, format!("json in when is {:?}: {problem}", text.value));
            None
        }
    }
}

fn split<'t>(section: &Section<'_>, key: &str, text: &'t Written<String>) -> Option<(&'t str, ValueTest)> {
    match ValueTest::split(&text.value) {
        Ok(split) => Some(split),
        Err(problem) => {
            section.fault_at(&text.span, format!("{key} in when is {:?}: {problem}", text.value));
            None
        }
    }
}

/// Shows the rules as the file writes them.
pub(super) fn show(spec: &WhenSpec, backends: &[BackendOptions]) -> String {
    let rules = spec.rules.iter().map(|rule| {
        let mut conditions = [HEADER.name, JSON.name, XML.name].map(|key| (key, Vec::new()));
        for condition in &rule.conditions {
            let (at, text) = match condition {
                ConditionSpec::Header { name, test } => (0, format!("{name}{test}")),
                ConditionSpec::Json { path, test } => (1, format!("{path}{test}")),
                ConditionSpec::Xml { text, .. } => (2, text.clone()),
            };
            conditions[at].1.push(text);
        }
        show_handler(&rule.handler, backends, conditions)
    });
    format!("[{}]", rules.collect::<Vec<_>>().join(", "))
}

/// Shows the handler of `otherwise`.
pub(super) fn show_otherwise(spec: &WhenSpec, backends: &[BackendOptions]) -> String {
    show_handler(&spec.otherwise, backends, [])
}

/// Shows the namespaces of prefixes, if there are any.
pub(super) fn show_namespaces(spec: &WhenSpec) -> Option<String> {
    let pairs = spec.namespaces.iter().map(|(prefix, uri)| format!("{} = {}", quoted(prefix), quoted(uri)));
    let pairs: Vec<_> = pairs.collect();
    (!pairs.is_empty()).then(|| format!("{{ {} }}", pairs.join(", ")))
}

fn show_handler<const N: usize>(
    handler: &ChosenHandler,
    backends: &[BackendOptions],
    conditions: [(&'static str, Vec<String>); N],
) -> String {
    let shown = |texts: Vec<String>| (!texts.is_empty()).then(|| quoted_list(texts));
    let mut own: Vec<OwnValue> = conditions.into_iter().map(|(key, texts)| (key, shown(texts))).collect();
    match handler {
        ChosenHandler::Proxy(spec) => own.push((PROXY.name, Some(proxy::show(spec, backends)))),
        ChosenHandler::Reply { status, content_type, body } => {
            own.extend(fixed_reply::show(*status, content_type, body));
        }
    }
    inline(KEYS, &(), &own)
}
