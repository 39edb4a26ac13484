//! `[stream.NAME]`: the values that are recorded of each transaction.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tollgate_log::ColumnType;
use tollgate_server::{
    ColumnSpec, FieldPath, HandlerSpec, KEY_COLUMN, KeySpec, RouteSpec, Source, StreamSpec, UnknownFields,
    WhenAway, WhenSpec, XML_FIELD, XmlPaths,
};

use super::ack::{self, AckKeys, AwaitedSink};
use super::fault::{Location, Span, did_you_mean};
use super::key::{inline, keys, write};
use super::quoted::quoted;
use super::route::is_name;
use super::rules::{self, FROM, NAME, TYPE};
use super::section::{Section, Written};
use super::units::{HOUR_MS, SECOND_MS};
use super::value::{Named, Value, names};

/// Maximum bytes of the name of a stream or column. The log has the same bound.
const NAME_BYTES_MAX: usize = 63;
/// Maximum number of columns of a stream. The log has the same bound.
const COLUMNS_MAX: usize = 1000;
/// Maximum number of streams. One batch of the log may have records of all of them. A batch has at most
/// [`tollgate_log::BATCH_SCHEMAS_MAX`] schemas. A reload can change streams, so a batch may need the old and
/// the new schema of each stream.
const STREAMS_MAX: usize = 512;
/// Forbidden beginnings of a stream's name. Tables of the server and of SQLite begin with them.
const RESERVED: [&str; 2] = ["tollgate_", "sqlite_"];

keys! {
    pub(super) KEYS of StreamSpec;
    /// The level that a record must reach before its reply leaves.
    ack [ACK] = text("synced", ACK_ALLOWED);
    /// How long a reply may wait at `loaded` or `queued`, to a quarter of a second. Longer: 503 `unknown`.
    ack_timeout [ACK_TIMEOUT] = duration(10 * SECOND_MS, 100..=HOUR_MS);
    /// With `ack = "queued"`: what happens to requests while the queue is away.
    when_away [WHEN_AWAY] = one_of("refused", names::<WhenAway>);
    /// The treatment of record fields that have no column.
    unknown = one_of("reject", names::<UnknownFields>) => unknown;
    /// The value that marks a retry as the same request.
    key [KEY] = other("none", KEY_ALLOWED);
    /// How long a key is remembered, counted while the loader runs.
    key_window [KEY_WINDOW] = duration(24 * HOUR_MS, SECOND_MS..=365 * 24 * HOUR_MS);
    /// The columns, in order.
    columns [COLUMNS] = other("needed", "1 to 1000 columns");
}

const KEY_ALLOWED: &str = "`request.header.NAME` `request.query.NAME` `request.cookie.NAME` \
    `request.param.NAME` `request.id` `record.NAME` `envelope.NAME` `xml:PATH`";
const ACKS: AckKeys = AckKeys { ack: &ACK, timeout: &ACK_TIMEOUT, when_away: &WHEN_AWAY };
const ACK_ALLOWED: &str =
    r#"`received` `written` `synced` `loaded` `queued`, `{ loaded = "SINK" }` or `{ queued = "SINK" }`"#;

impl Named for UnknownFields {
    fn all() -> Vec<(&'static str, Self)> {
        vec![("reject", Self::Reject), ("ignore", Self::Ignore)]
    }
}

/// All streams of a file, in its order.
#[derive(Default)]
pub(super) struct Streams {
    pub(super) specs: Vec<StreamSpec>,
    /// The place of each stream in the file.
    pub(super) origins: Vec<Origin>,
    /// The streams whose replies wait for a database.
    pub(super) awaited: Vec<AwaitedSink>,
}

/// The place of a stream's name.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) place: Location,
    pub(super) span: Span,
}

impl Streams {
    /// Reads all streams. A faulty stream is included with the keys that could be read, so that routes may
    /// name it.
    pub(super) fn read(root: &mut Section<'_>) -> Self {
        let mut streams = Self::default();
        for (name, section) in root.named_tables("stream") {
            check_name(&name, &section);
            check_single(&name, &section, &streams.specs);
            streams.origins.push(Origin { place: section.spot(&name.span), span: name.span.clone() });
            let (stream, awaited) = stream(name.value, section);
            streams.specs.push(stream);
            streams.awaited.extend(awaited);
        }
        streams
    }
}

impl Streams {
    /// Checks the number of streams, including the streams of apps.
    pub(super) fn check_count(&self, root: &Section<'_>) {
        let count = self.specs.len();
        if count > STREAMS_MAX {
            root.fault(format_args!("{count} streams are declared, limit {STREAMS_MAX}"));
        }
    }
}

/// Checks the name of a stream by itself.
pub(super) fn check_name(name: &Written<String>, section: &Section<'_>) {
    let found = &name.value;
    if !is_name(found) || found.len() > NAME_BYTES_MAX {
        let allowed = "a letter or _, then letters, digits and _, at most 63 bytes";
        section.fault_at(&name.span, format!("stream is named {found:?}, allowed is {allowed}"));
    }
    let lower = found.to_ascii_lowercase();
    if let Some(prefix) = RESERVED.iter().find(|prefix| lower.starts_with(**prefix)) {
        section.fault_at(
            &name.span,
            format!(
                "stream is named {found:?}: names that begin with {prefix} are reserved, choose another name"
            ),
        );
    }
}

fn check_single(name: &Written<String>, section: &Section<'_>, before: &[StreamSpec]) {
    let found = &name.value;
    if let Some(other) = before.iter().find(|stream| stream.name.eq_ignore_ascii_case(found)) {
        let text =
            format!("stream {found:?} has the same table as {:?}: names of tables ignore case", other.name);
        section.fault_at(&name.span, text);
    }
}

fn stream(name: String, mut section: Section<'_>) -> (StreamSpec, Option<AwaitedSink>) {
    let (ack, awaited) = ack::read(&name, &mut section, &ACKS);
    let columns = columns(&name, &mut section);
    let key = key(&name, &columns, &mut section);
    let columns = columns.into_iter().map(|column| column.value).collect();
    let mut stream = StreamSpec { name, ack, columns, unknown: UnknownFields::default(), key };
    section.read(KEYS, &mut stream);
    section.finish();
    (stream, awaited)
}

fn key(stream: &str, columns: &[Written<ColumnSpec>], section: &mut Section<'_>) -> Option<KeySpec> {
    let written = section.text(KEY.name);
    if written.is_none() && section.has(KEY_WINDOW.name) {
        section.fault_of(
            KEY_WINDOW.name,
            format!(
                "key_window in [stream.{stream}] has no effect without key: set key, or remove key_window"
            ),
        );
    }
    let window = Duration::from_millis(section.number_or_default(&KEY_WINDOW));
    let written = written?;
    let source = Source::from_name(&written.value).filter(Source::is_key);
    let Some(source) = source else {
        let hint = did_you_mean(&written.value, Source::KEY_NAMES);
        section.fault_at(&written.span, format!("key of [stream.{stream}] is {:?}{hint}", written.value));
        return None;
    };
    check_source(section, &source, "key", &written.span);
    if let Some(column) = columns.iter().find(|column| column.value.name == KEY_COLUMN) {
        section.fault_at(
            &column.span,
            format!("column is named {KEY_COLUMN:?}, which is reserved for the key: rename the column"),
        );
    }
    let is_hidden = |column: &&Written<ColumnSpec>| {
        column.value.rules.redaction.is_some() && source.holds(&column.value.source)
    };
    if let Some(column) = columns.iter().find(is_hidden) {
        let text = format!(
            "key is {:?}, which column {:?} redacts: the digest of a key would reveal values that can be \
             guessed",
            written.value, column.value.name
        );
        section.fault_at(&written.span, text);
    }
    Some(KeySpec { source, window })
}

fn columns(stream: &str, section: &mut Section<'_>) -> Vec<Written<ColumnSpec>> {
    let is_there = section.has(COLUMNS.name);
    let tables = section.tables(
        COLUMNS.name,
        &format!("a column of [stream.{stream}]"),
        "a list of { name = \"...\", type = \"...\", from = \"...\" }",
    );
    let Some(tables) = tables else {
        if !is_there {
            section.fault(format!("missing key \"columns\" in [stream.{stream}]"));
        }
        return Vec::new();
    };
    if tables.is_empty() || tables.len() > COLUMNS_MAX {
        let count = tables.len();
        let text = format!("[stream.{stream}] has {count} columns, allowed are 1 to {COLUMNS_MAX}");
        section.fault_of(COLUMNS.name, text);
    }
    let mut columns: Vec<Written<ColumnSpec>> = Vec::new();
    for table in tables {
        let span = table.span().clone();
        columns.extend(column(table, &columns).map(|value| Written { value, span }));
    }
    check_redaction(&columns, section);
    columns
}

/// Adds a fault if a column shows a value that another column redacts.
fn check_redaction(columns: &[Written<ColumnSpec>], section: &Section<'_>) {
    let (hidden, shown): (Vec<_>, Vec<_>) =
        columns.iter().partition(|column| column.value.rules.redaction.is_some());
    for column in shown {
        let source = &column.value.source;
        if source.is_secret() {
            let text = format!(
                "column {:?} keeps {}, which has passwords and tokens of clients: add redact, or use \
                 request.auth.name",
                column.value.name,
                source.name()
            );
            section.fault_at(&column.span, text);
        }
        if let Some(hidden) = hidden.iter().find(|hidden| source.holds(&hidden.value.source)) {
            let (name, other) = (&column.value.name, &hidden.value.name);
            let text = format!(
                "column {name:?} keeps {}, which reveals the value that column {other:?} redacts: redact it \
                 too, or remove it",
                source.name()
            );
            section.fault_at(&column.span, text);
        }
    }
}

fn column(mut section: Section<'_>, before: &[Written<ColumnSpec>]) -> Option<ColumnSpec> {
    let name = section.needed_text(NAME.name);
    if let Some(name) = &name {
        check_column_name(name, &section, before);
    }
    let kind_span = section.needed_text(TYPE.name);
    let kind = kind_span.as_ref().and_then(|text| column_type(&section, text));
    let from = section.text(FROM.name);
    let source = match (&from, &name) {
        (Some(from), _) => source(&section, from),
        (None, Some(name)) if !section.has(FROM.name) => {
            Some(Source::RecordField(FieldPath::of_name(&name.value)))
        }
        _ => None,
    };
    if let (Some(kind), Some(source), Some(written)) = (kind, &source, &kind_span) {
        check_type(&section, kind, source, &written.span);
    }
    let times = rules::read_times(&mut section, kind, source.as_ref());
    // Each value in XML is a text.
    let is_text_of_other = source.as_ref().is_some_and(Source::is_xml) && kind.is_some_and(rules::may_coerce);
    let coerce = rules::read_coerce(&mut section, kind) || is_text_of_other;
    let rules = rules::read(&mut section, kind, &times, source.as_ref());
    section.finish();
    Some(ColumnSpec { name: name?.value, kind: kind?, source: source?, times, coerce, rules })
}

fn check_column_name(name: &Written<String>, section: &Section<'_>, before: &[Written<ColumnSpec>]) {
    let found = &name.value;
    if found.is_empty() || found.len() > NAME_BYTES_MAX || found.contains(char::is_control) {
        let allowed = "1 to 63 bytes without control characters";
        section.fault_at(&name.span, format!("column is named {found:?}, allowed are {allowed}"));
    }
    if before.iter().any(|column| column.value.name.eq_ignore_ascii_case(found)) {
        section.fault_at(
            &name.span,
            format!("column {found:?} is declared twice: names of columns ignore case"),
        );
    }
}

fn column_type(section: &Section<'_>, written: &Written<String>) -> Option<ColumnType> {
    let kind = ColumnType::from_name(&written.value);
    if kind.is_none() {
        section.fault_at(
            &written.span,
            format!("unknown type {:?}{}", written.value, type_hint(&written.value)),
        );
    }
    kind
}

/// Returns what the author of an unknown type probably meant.
fn type_hint(found: &str) -> String {
    let element = found.strip_suffix("[]").unwrap_or(found);
    if element.starts_with("decimal(") {
        return ", allowed is decimal(PRECISION,SCALE): a precision of 1 to 38, and a scale up to the precision"
            .to_owned();
    }
    if ColumnType::from_name(element).is_some_and(|kind| kind.as_element().is_none()) {
        return ": an array holds no bytes, json and arrays. A column of type \"json\" holds any list"
            .to_owned();
    }
    let is_list = found.ends_with(']');
    let names = ColumnType::ALL.map(ColumnType::name);
    did_you_mean(found, names.iter().map(|name| &**name).filter(|name| name.ends_with(']') == is_list))
}

fn source(section: &Section<'_>, written: &Written<String>) -> Option<Source> {
    let source = Source::from_name(&written.value);
    if source.is_none() {
        let hint = did_you_mean(&written.value, Source::NAMES);
        section.fault_at(&written.span, format!("unknown source {:?}{hint}", written.value));
    }
    if let Some(source) = &source {
        check_source(section, source, "from", &written.span);
    }
    source
}

/// Adds a fault for a source that never has a value. `key` is the key with this source.
pub(super) fn check_source(section: &Section<'_>, source: &Source, key: &str, span: &Span) {
    if let Some(problem) = source.problem() {
        section.fault_at(span, format!("{key} is {:?}: {problem}", source.name()));
    }
}

/// Adds a fault for each column or key whose source is a part of a path that no route has. A configuration
/// without routes is not checked, because it is used only to load.
pub(super) fn check_params(root: &Section<'_>, streams: &Streams, routes: &[RouteSpec]) {
    if routes.is_empty() {
        return;
    }
    let segments = routes.iter().flat_map(|route| route.path.split('/'));
    let params: BTreeSet<_> =
        segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}')).collect();
    for (stream, origin) in streams.specs.iter().zip(&streams.origins) {
        for name in params_of(stream).filter(|name| !params.contains(name)) {
            let hint = did_you_mean(name, params.iter().copied());
            let stream = &stream.name;
            let text =
                format!("[stream.{stream}] keeps request.param.{name}, but no path has {{{name}}}{hint}");
            root.add_faults(vec![origin.place.fault(text)]);
        }
    }
}

fn params_of(stream: &StreamSpec) -> impl Iterator<Item = &str> {
    sources_of(stream).filter_map(|source| match source {
        Source::RequestParam(name) => Some(name.as_str()),
        _ => None,
    })
}

fn sources_of(stream: &StreamSpec) -> impl Iterator<Item = &Source> {
    let columns = stream.columns.iter().map(|column| &column.source);
    columns.chain(stream.key.as_ref().map(|key| &key.source))
}

/// Adds a fault for each stream with values of an envelope if no route collects items in envelopes into it. A
/// configuration without routes is not checked, because it is used only to load.
pub(super) fn check_envelopes(root: &Section<'_>, streams: &Streams, routes: &[RouteSpec]) {
    let has_envelopes = |index: usize| {
        let mut collecting = routes.iter().filter(|route| route.stream == Some(index));
        collecting.any(|route| matches!(&route.handler, HandlerSpec::Collect(spec) if spec.items.is_some()))
    };
    for (index, (stream, origin)) in streams.specs.iter().zip(&streams.origins).enumerate() {
        let kept = sources_of(stream).find(|source| matches!(source, Source::EnvelopeField(_)));
        let Some(kept) = kept.filter(|_| !routes.is_empty() && !has_envelopes(index)) else { continue };
        let (stream, kept) = (&stream.name, kept.name());
        let text = format!(
            "[stream.{stream}] keeps {kept}, but no route of the stream has collect = {{ items = \"...\" }}"
        );
        root.add_faults(vec![origin.place.fault(text)]);
    }
}

/// Adds a fault for each stream with values of XML items if no route collects such items into it, and for
/// each path that a route cannot use.
pub(super) fn check_xml(root: &Section<'_>, streams: &Streams, routes: &[RouteSpec]) {
    for (index, (stream, origin)) in streams.specs.iter().zip(&streams.origins).enumerate() {
        let kept: Vec<_> = sources_of(stream).filter(|source| source.is_xml()).map(Source::name).collect();
        let items = |route: &RouteSpec| match &route.handler {
            HandlerSpec::Collect(spec) if route.stream == Some(index) => spec.xml.clone(),
            _ => None,
        };
        let collecting: Vec<_> = routes.iter().filter_map(items).collect();
        let name = &stream.name;
        if let Some(kept) = kept.first().filter(|_| !routes.is_empty() && collecting.is_empty()) {
            let text = format!(
                "[stream.{name}] keeps {kept}, but no route of the stream has collect = {{ each = \"...\" }}"
            );
            root.add_faults(vec![origin.place.fault(text)]);
        }
        for items in collecting {
            if let Err(reason) = items.compile(kept.iter().map(|kept| &kept[XML_FIELD.len()..])) {
                root.add_faults(vec![
                    origin.place.fault(format!("[stream.{name}] keeps values in XML: {reason}")),
                ]);
            }
        }
    }
}

/// Adds a fault for each stream with values in the look-ahead if no route with `when` records into it, and
/// for each path that such a route cannot use.
pub(super) fn check_look_ahead(root: &Section<'_>, streams: &Streams, routes: &[RouteSpec]) {
    for (index, (stream, origin)) in streams.specs.iter().zip(&streams.origins).enumerate() {
        let paths: Vec<_> = sources_of(stream).filter_map(path_of_look_ahead).cloned().collect();
        let choosing: Vec<_> = routes.iter().filter_map(|route| choice_of(route, index)).collect();
        let name = &stream.name;
        let fault = |text: String| root.add_faults(vec![origin.place.fault(text)]);
        if let Some(path) = paths.first().filter(|_| !routes.is_empty() && choosing.is_empty()) {
            fault(format!("[stream.{name}] keeps {XML_FIELD}{path}, but no route of the stream has when"));
        }
        for when in choosing {
            if let Err((at, problem)) = XmlPaths::compile(&paths, &when.namespaces) {
                fault(format!("[stream.{name}] keeps {XML_FIELD}{}: {problem}", paths[at]));
            }
        }
    }
}

fn path_of_look_ahead(source: &Source) -> Option<&String> {
    match source {
        Source::RequestXml(path) => Some(path),
        _ => None,
    }
}

/// Returns the rules of a route that records into a stream.
fn choice_of(route: &RouteSpec, stream: usize) -> Option<&WhenSpec> {
    match &route.handler {
        HandlerSpec::When(when) if route.stream == Some(stream) => Some(when),
        _ => None,
    }
}

fn check_type(section: &Section<'_>, kind: ColumnType, source: &Source, span: &Span) {
    let allowed = source.column_types();
    if !allowed.contains(&kind.without_size()) {
        let names: Vec<_> = allowed.iter().map(|kind| kind.name()).collect();
        let (from, found) = (source.name(), kind.name());
        section.fault_at(span, format!("type is {found:?}, allowed with {from}: {}", names.join(", ")));
    }
}

/// Writes the section.
pub(super) fn write_stream(
    stream: &StreamSpec,
    awaited: &[AwaitedSink],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    writeln!(f, "\n[stream.{}]", stream.name)?;
    let [ack, timeout, when_away] = ack::show(stream, awaited, &ACKS);
    let key = stream.key.as_ref();
    let columns: String = stream.columns.iter().map(show_column).collect();
    let own = [
        ack,
        timeout,
        when_away,
        (KEY.name, key.map(|key| quoted(&key.source.name()))),
        (KEY_WINDOW.name, key.map(|key| KEY_WINDOW.show(key.window.number()))),
        (COLUMNS.name, Some(format!("[\n{columns}]"))),
    ];
    write(KEYS, stream, &own, f)
}

/// Shows a column on one line.
fn show_column(column: &ColumnSpec) -> String {
    let ColumnSpec { name, kind, source, times, coerce, rules } = column;
    let mut own = vec![
        (NAME.name, Some(quoted(name))),
        (TYPE.name, Some(quoted(&kind.name()))),
        (FROM.name, Some(quoted(&source.name()))),
    ];
    own.extend(rules::show_times(times));
    own.push(rules::show_coerce(*coerce));
    own.extend(rules::show(rules, *kind));
    format!("  {},\n", inline(rules::KEYS, &(), &own))
}
