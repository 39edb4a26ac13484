//! `collect` of a route: `true`, or a table. The printed table reads back to the same value.

use tollgate_server::{
    CollectContent, CollectReply, CollectSpec, FieldPath, MediaRange, MediaTypes, XmlItems,
};

use super::key::{Facts, inline, keys};
use super::quoted::{quoted, quoted_list};
use super::section::{Section, SwitchOrTable, Written};
use super::value::{Named, names};

const ALLOWED: &str = "true or a table { ... }";
const TYPES_ALLOWED: &str = "a list of media types, `type/*`, `*/*`, `default`, `xml`, `none`";
const EACH_ALLOWED: &str = "a path of elements";
const NAMESPACES_ALLOWED: &str = "a table of namespaces by prefixes";
const PATH_ALLOWED: &str = "the name of a field, or a JSON Pointer like `/data/batch`";

keys! {
    pub(super) KEYS of CollectReply;
    /// The media types that the route accepts. `default`: all types of JSON, text, forms, and no type. With
    /// `each` the default is `["xml", "none"]`.
    types [TYPES] = other(r#"`["default"]`"#, TYPES_ALLOWED);
    /// The path of the items in each document of a body. Without it, each document is an item.
    items [ITEMS] = other("none", PATH_ALLOWED);
    /// The path of the items in an XML body, like `/events/event`. Without it, a body is JSON.
    each [EACH] = other("none", EACH_ALLOWED);
    /// The namespaces of the prefixes that paths of XML use.
    namespaces [NAMESPACES] = other("none", NAMESPACES_ALLOWED);
    /// The path of a base64 text in each item. The text contains the item itself.
    base64 [BASE64] = other("none", PATH_ALLOWED);
    /// The content of the reply.
    reply [REPLY] = one_of("summary", names::<ReplyKind>).or("`body` or `echo` if that key is set");
    /// The status of the reply.
    status [STATUS] = integer(200, 200..=299).or("204 with an empty reply").by_hand();
    /// The text of the reply.
    body [BODY] = other("none", "a text").hidden();
    /// The media type of `body`.
    content_type [CONTENT_TYPE] = text("application/json", "a media type");
    /// The fields of the first document that the reply repeats as a JSON object.
    echo [ECHO] = other("none", "a list of names and JSON Pointers");
}

/// The value of `reply`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyKind {
    Summary,
    Empty,
    Gif,
    Body,
    Echo,
}

impl Named for ReplyKind {
    fn all() -> Vec<(&'static str, Self)> {
        vec![
            ("summary", Self::Summary),
            ("empty", Self::Empty),
            ("gif", Self::Gif),
            ("body", Self::Body),
            ("echo", Self::Echo),
        ]
    }
}

/// The status of a reply without content (RFC 9110 section 15.3.5).
const NO_CONTENT: u16 = 204;

/// Takes the handler of a route, if `collect` is set.
pub(super) fn collect(section: &mut Section<'_>, key: &Facts) -> Option<CollectSpec> {
    match section.switch_or_table(key.name, ALLOWED)? {
        SwitchOrTable::Switch(collect) => {
            if !collect.value {
                section.fault_at(
                    &collect.span,
                    "collect in [[route]] is false, allowed is true: remove the key instead",
                );
            }
            collect.value.then(CollectSpec::default)
        }
        SwitchOrTable::Table(table) => Some(detailed(table)),
    }
}

fn detailed(mut section: Section<'_>) -> CollectSpec {
    let xml = xml(&mut section);
    let has_types = section.has(TYPES.name);
    let types = section.texts(TYPES.name).map(|texts| types(&section, &texts)).unwrap_or_default();
    let items = path(&mut section, ITEMS.name);
    let types = if xml.is_some() && !has_types { MediaTypes::xml() } else { types };
    let base64 = path(&mut section, BASE64.name);
    let reply = reply(&mut section);
    section.finish();
    CollectSpec { types, items, xml, base64, reply }
}

/// Takes the items of an XML body.
fn xml(section: &mut Section<'_>) -> Option<XmlItems> {
    let each = section.text(EACH.name);
    let table = section.take_table(NAMESPACES.name, "namespaces in collect".to_owned());
    let namespaces: Vec<_> = table
        .map(|table| table.named_texts().into_iter().map(|(prefix, uri)| (prefix, uri.value)).collect())
        .unwrap_or_default();
    let Some(each) = each else {
        if !namespaces.is_empty() {
            section.fault_of(NAMESPACES.name, "namespaces in collect has no effect without each: remove it");
        }
        return None;
    };
    for key in [ITEMS.name, BASE64.name].into_iter().filter(|key| section.has(key)) {
        section
            .fault_of(key, format!("{key} in collect is a path of JSON, and each a path of XML: remove one"));
    }
    let items = XmlItems { each: each.value, namespaces };
    if let Err(reason) = items.compile([]) {
        section.fault_at(&each.span, format!("each in collect is {reason}"));
        return None;
    }
    Some(items)
}

fn types(section: &Section<'_>, texts: &[Written<String>]) -> MediaTypes {
    let range = |text: &Written<String>| {
        let range = MediaRange::parse(&text.value);
        if range.is_none() {
            let found = format!("types in collect has {:?}, allowed is {TYPES_ALLOWED}", text.value);
            section.fault_at(&text.span, found.replace('`', "\""));
        }
        range
    };
    let ranges: Vec<_> = texts.iter().filter_map(range).collect();
    if texts.is_empty() {
        section.fault_of(TYPES.name, "types in collect is empty: no request would be accepted");
    }
    MediaTypes::new(ranges)
}

fn path(section: &mut Section<'_>, key: &'static str) -> Option<FieldPath> {
    let text = section.text(key)?;
    parsed(section, key, &text)
}

fn parsed(section: &Section<'_>, key: &str, text: &Written<String>) -> Option<FieldPath> {
    let path = FieldPath::parse(&text.value);
    path.map_err(|problem| {
        section.fault_at(&text.span, format!("{key} in collect is {:?}: {problem}", text.value));
    })
    .ok()
}

fn reply(section: &mut Section<'_>) -> CollectReply {
    let kind = kind(section);
    let status = section.number(&STATUS).and_then(|status| status.try_into().ok());
    let default = if kind == ReplyKind::Empty { NO_CONTENT } else { CollectReply::default().status };
    let status = status.unwrap_or(default);
    if matches!(status, NO_CONTENT | 205) && kind != ReplyKind::Empty {
        section.fault_of(
            STATUS.name,
            format!("status in collect is {status}, allowed with content are others: set reply = \"empty\""),
        );
    }
    let body = section.text(BODY.name).map(|body| body.value).unwrap_or_default();
    let content_type = section.text(CONTENT_TYPE.name).map(|text| text.value);
    let content_type = content_type.unwrap_or_else(|| CONTENT_TYPE.default_text().to_owned());
    let echo = section.texts(ECHO.name).unwrap_or_default();
    let content = match kind {
        ReplyKind::Summary => CollectContent::Summary,
        ReplyKind::Empty => CollectContent::Empty,
        ReplyKind::Gif => CollectContent::Gif,
        ReplyKind::Body => CollectContent::Body { content_type, body: body.into() },
        ReplyKind::Echo => {
            let paths = echo.iter().filter_map(|text| parsed(section, ECHO.name, text));
            CollectContent::Echo(paths.collect())
        }
    };
    CollectReply { status, content }
}

/// Takes the kind of the reply. A key that has no effect with this kind is a fault.
fn kind(section: &mut Section<'_>) -> ReplyKind {
    let is_written = section.has(REPLY.name);
    let written = section.number(&REPLY).and_then(|place| usize::try_from(place).ok());
    let written = written.and_then(|place| ReplyKind::all().get(place).map(|(_, kind)| *kind));
    let implied = [(BODY.name, ReplyKind::Body), (ECHO.name, ReplyKind::Echo)];
    let implied = implied.into_iter().find(|(key, _)| section.has(key)).map(|(_, kind)| kind);
    let kind = written.or(implied).unwrap_or(ReplyKind::Summary);
    let needs =
        [(BODY.name, ReplyKind::Body), (CONTENT_TYPE.name, ReplyKind::Body), (ECHO.name, ReplyKind::Echo)];
    for (key, wanted) in needs {
        if section.has(key) && kind != wanted && (written.is_some() || !is_written) {
            section.fault_of(key, format!("{key} in collect has no effect with this reply: remove it"));
        }
    }
    for (key, wanted) in [(BODY.name, ReplyKind::Body), (ECHO.name, ReplyKind::Echo)] {
        if kind == wanted && !section.has(key) {
            section.fault(format!("missing key \"{key}\" in collect"));
        }
    }
    kind
}

/// Shows the options as the file writes them, with every key.
pub(super) fn show(spec: &CollectSpec) -> String {
    let CollectSpec { types, items, xml, base64, reply } = spec;
    let ranges = types.ranges().iter().map(ToString::to_string);
    let path = |path: &Option<FieldPath>| path.as_ref().map(|path| quoted(&path.to_string()));
    let (kind, body, content_type, echo) = match &reply.content {
        CollectContent::Summary => (ReplyKind::Summary, None, None, None),
        CollectContent::Empty => (ReplyKind::Empty, None, None, None),
        CollectContent::Gif => (ReplyKind::Gif, None, None, None),
        CollectContent::Body { content_type, body } => {
            let body = quoted(&String::from_utf8_lossy(body));
            (ReplyKind::Body, Some(body), Some(quoted(content_type)), None)
        }
        CollectContent::Echo(paths) => {
            let paths = paths.iter().map(ToString::to_string);
            (ReplyKind::Echo, None, None, Some(quoted_list(paths)))
        }
    };
    let name = ReplyKind::all().into_iter().find(|(_, known)| *known == kind).map_or("", |(name, _)| name);
    let own = [
        (TYPES.name, Some(quoted_list(ranges))),
        (ITEMS.name, path(items)),
        (EACH.name, xml.as_ref().map(|xml| quoted(&xml.each))),
        (NAMESPACES.name, xml.as_ref().and_then(shown_namespaces)),
        (BASE64.name, path(base64)),
        (REPLY.name, Some(quoted(name))),
        (STATUS.name, Some(reply.status.to_string())),
        (BODY.name, body),
        (CONTENT_TYPE.name, content_type),
        (ECHO.name, echo),
    ];
    inline(KEYS, reply, &own)
}

fn shown_namespaces(xml: &XmlItems) -> Option<String> {
    let entries = xml.namespaces.iter().map(|(prefix, uri)| format!("{} = {}", quoted(prefix), quoted(uri)));
    let entries: Vec<_> = entries.collect();
    (!entries.is_empty()).then(|| format!("{{ {} }}", entries.join(", ")))
}
