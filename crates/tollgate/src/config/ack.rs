//! The key `ack` of a stream: a level of the log, or the sink that its replies wait for.
//!
//! Two facts decide whether a reply can wait for a sink: the configured sinks, and the process that loads
//! them. `ack` is therefore checked after both are read.

use std::time::Duration;

use tollgate_load::SinkKind;
use tollgate_log::{Level, SinkPlace};
use tollgate_server::{Ack, StreamSpec};

use super::fault::{Location, did_you_mean};
use super::key::{Facts, OwnValue, inline, keys};
use super::quoted::quoted;
use super::section::{Section, TextOrTable, Written};
use super::sink::{LoadedBy, SinkConfig};
use super::value::Value;

/// The keys of a stream for the acknowledgement.
pub(super) struct AckKeys {
    pub(super) ack: &'static Facts,
    pub(super) timeout: &'static Facts,
}

keys! {
    /// The table `ack`.
    pub(super) KEYS of ();
    /// The sink that replies wait for.
    loaded [LOADED] = other("needed", "the name of a `[sink.NAME]`");
}

/// The sink that the replies of a stream wait for, as the configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AwaitedSink {
    /// The name of the stream.
    pub(super) stream: String,
    /// The name of the sink. `None`: the file names no sink, so the configuration must have only one sink.
    sink: Option<String>,
    pub(super) place: Location,
}

/// Reads `ack` and `ack_timeout`. The sink is found later.
pub(super) fn read(stream: &str, section: &mut Section<'_>, keys: &AckKeys) -> (Ack, Option<AwaitedSink>) {
    let (ack, awaited) = written(stream, section, keys.ack.name);
    let timeout = Duration::from_millis(section.number_or_default(keys.timeout));
    match ack {
        Some(Ack::Log(level)) if section.has(keys.timeout.name) => {
            let text = format!(
                "ack_timeout in [stream.{stream}] needs ack = \"loaded\", found ack = {:?}",
                level.name()
            );
            section.fault_of(keys.timeout.name, text);
        }
        _ => {}
    }
    match awaited {
        Some(awaited) => (Ack::Loaded { sink: SinkPlace(0), timeout }, Some(awaited)),
        None => (ack.unwrap_or(Ack::Log(Level::Synced)), None),
    }
}

/// Reads `ack`. `None`: the value is faulty.
fn written(stream: &str, section: &mut Section<'_>, key: &'static str) -> (Option<Ack>, Option<AwaitedSink>) {
    let is_there = section.has(key);
    let awaited = |section: &Section<'_>, at: &std::ops::Range<usize>, sink| {
        Some(AwaitedSink { stream: stream.to_owned(), sink, place: section.spot(at) })
    };
    match section.text_or_table(key, "a string, or { loaded = \"SINK\" }") {
        None => ((!is_there).then_some(Ack::Log(Level::Synced)), None),
        Some(TextOrTable::Text(text)) if text.value == Ack::LOADED => {
            (None, awaited(section, &text.span, None))
        }
        Some(TextOrTable::Text(text)) => (level(stream, section, &text), None),
        Some(TextOrTable::Table(mut table)) => {
            let sink = table.needed_text(LOADED.name);
            table.finish();
            (None, sink.and_then(|sink| awaited(section, &sink.span, Some(sink.value))))
        }
    }
}

fn level(stream: &str, section: &Section<'_>, text: &Written<String>) -> Option<Ack> {
    let found = Level::ALL.into_iter().find(|level| level.name() == text.value);
    if found.is_none() {
        let names = Level::ALL.into_iter().map(Level::name).chain([Ack::LOADED]);
        let hint = did_you_mean(&text.value, names);
        section.fault_at(&text.span, format!("ack in [stream.{stream}] is {:?}{hint}", text.value));
    }
    found.map(Ack::Log)
}

impl AwaitedSink {
    /// Returns the same requirement for a stream with another name.
    pub(super) fn of(self, stream: &str) -> Self {
        Self { stream: stream.to_owned(), ..self }
    }

    /// Finds the sink that the replies wait for.
    ///
    /// # Errors
    /// The fault as a text, with the value found and the allowed values.
    pub(super) fn find(&self, sinks: &[SinkConfig], by: LoadedBy) -> Result<SinkPlace, String> {
        let is_taking =
            |sink: &&SinkConfig| sink.options.taken.takes(&self.stream) && commits_rows(&sink.options.kind);
        let loader = match by {
            LoadedBy::Server => None,
            LoadedBy::Others => Some("[load] in_server is false, set it to true"),
            LoadedBy::Nobody => Some("the server is started with --no-load, start it without"),
        };
        if let Some(found) = loader {
            return Err(format!(
                "ack of [stream.{}] is \"loaded\", which needs the loader of the server: {found}",
                self.stream
            ));
        }
        match &self.sink {
            Some(name) => self.find_named(name, sinks, is_taking),
            None => {
                let takers: Vec<_> = sinks.iter().filter(is_taking).map(SinkConfig::name).collect();
                match takers.as_slice() {
                    [one] => Ok(place_of(one, sinks)),
                    [] => Err(format!(
                        "ack of [stream.{}] is \"loaded\", but no sink takes the stream: add it to streams \
                         of a sink",
                        self.stream
                    )),
                    several => Err(format!(
                        "ack of [stream.{}] is \"loaded\", but {} sinks take the stream: write {{ loaded = \
                         \"SINK\" }} with one of {}",
                        self.stream,
                        several.len(),
                        several.join(", ")
                    )),
                }
            }
        }
    }

    fn find_named(
        &self,
        name: &str,
        sinks: &[SinkConfig],
        is_taking: impl Fn(&&SinkConfig) -> bool,
    ) -> Result<SinkPlace, String> {
        let Some(sink) = sinks.iter().find(|sink| sink.name() == name) else {
            let hint = did_you_mean(name, sinks.iter().map(SinkConfig::name));
            return Err(format!("ack of [stream.{}] names the unknown sink {name:?}{hint}", self.stream));
        };
        if !is_taking(&sink) {
            return Err(format!(
                "ack of [stream.{}] names sink {name:?}, which does not take the stream: add it to streams \
                 of the sink",
                self.stream
            ));
        }
        Ok(place_of(name, sinks))
    }
}

fn place_of(name: &str, sinks: &[SinkConfig]) -> SinkPlace {
    SinkPlace(sinks.iter().position(|sink| sink.name() == name).unwrap_or_default())
}

/// Returns whether a sink of this kind reports the commit of each record.
const fn commits_rows(kind: &SinkKind) -> bool {
    match kind {
        SinkKind::Sqlite { .. } | SinkKind::Postgres(_) => true,
    }
}

/// Shows `ack` and its timeout.
pub(super) fn show(stream: &StreamSpec, awaited: &[AwaitedSink], keys: &AckKeys) -> [OwnValue; 2] {
    let Ack::Loaded { timeout, .. } = stream.ack else {
        return [(keys.ack.name, Some(format!("\"{}\"", stream.ack.name()))), (keys.timeout.name, None)];
    };
    let awaited = awaited.iter().find(|awaited| awaited.stream == stream.name);
    let ack = match awaited.and_then(|awaited| awaited.sink.as_ref()) {
        Some(sink) => inline(KEYS, &(), &[(LOADED.name, Some(quoted(sink)))]),
        None => format!("\"{}\"", Ack::LOADED),
    };
    [(keys.ack.name, Some(ack)), (keys.timeout.name, Some(keys.timeout.show(timeout.number())))]
}
