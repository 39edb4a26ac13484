//! The key `ack` of a stream: a level of the log, or the database or queue that its replies wait for.
//!
//! Two facts decide whether a reply can wait for a sink: the configured sinks, and the process that loads
//! them. `ack` is therefore checked after both are read.

use std::time::Duration;

use tollgate_load::SinkKind;
use tollgate_log::{Level, SinkPlace};
use tollgate_server::{Ack, StreamSpec, WhenAway};

use super::fault::{Location, did_you_mean};
use super::key::{Facts, OwnValue, inline, keys};
use super::load::LoadedBy;
use super::quoted::quoted;
use super::section::{Section, TextOrTable, Written};
use super::sink::SinkConfig;
use super::value::{Value, named};

/// The keys of a stream for the acknowledgement.
pub(super) struct AckKeys {
    pub(super) ack: &'static Facts,
    pub(super) timeout: &'static Facts,
    pub(super) when_away: &'static Facts,
}

keys! {
    /// The table `ack`.
    pub(super) KEYS of ();
    /// The database that replies wait for.
    loaded [LOADED] = other("needed, or `queued`", "the name of a `[sink.NAME]`");
    /// The queue that replies wait for.
    queued [QUEUED] = other("needed, or `loaded`", "the name of a `[sink.NAME]`");
}

named!(WhenAway);

/// The kind of sink that replies wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Database,
    Queue,
}

impl Awaited {
    const ALL: [Self; 2] = [Self::Database, Self::Queue];

    const fn name(self) -> &'static str {
        match self {
            Self::Database => Ack::LOADED,
            Self::Queue => Ack::QUEUED,
        }
    }

    /// Returns whether a sink of this kind is meant.
    const fn is_of(self, kind: &SinkKind) -> bool {
        match kind {
            SinkKind::Sqlite { .. } | SinkKind::Postgres(_) => matches!(self, Self::Database),
            SinkKind::Kafka(_) => matches!(self, Self::Queue),
            SinkKind::Parquet(_) | SinkKind::Iceberg(_) => false,
        }
    }

    /// Returns the kind of sink, in words.
    const fn sink(self) -> &'static str {
        match self {
            Self::Database => "a sink with a database",
            Self::Queue => "a Kafka sink",
        }
    }
}

/// The sink that the replies of a stream wait for, as the configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AwaitedSink {
    /// The name of the stream.
    pub(super) stream: String,
    kind: Awaited,
    /// The name of the sink. `None`: the file names no sink, so only one sink of the kind may take the
    /// stream.
    sink: Option<String>,
    pub(super) place: Location,
}

/// Reads `ack` and its keys. The sink is found later.
pub(super) fn read(stream: &str, section: &mut Section<'_>, keys: &AckKeys) -> (Ack, Option<AwaitedSink>) {
    let (ack, awaited) = written(stream, section, keys.ack.name);
    let timeout = Duration::from_millis(section.number_or_default(keys.timeout));
    let when_away = when_away(section.number_or_default(keys.when_away));
    let kind = awaited.as_ref().map(|awaited| awaited.kind);
    let is_faulty = ack.is_none() && kind.is_none();
    let found = ack.map_or_else(|| kind.map_or("", Awaited::name), Ack::name);
    if section.has(keys.timeout.name) && kind.is_none() && !is_faulty {
        let text = format!(
            "ack_timeout in [stream.{stream}] needs ack = \"loaded\" or \"queued\", found ack = {found:?}"
        );
        section.fault_of(keys.timeout.name, text);
    }
    if section.has(keys.when_away.name) && kind != Some(Awaited::Queue) && !is_faulty {
        let text = format!("when_away in [stream.{stream}] needs ack = \"queued\", found ack = {found:?}");
        section.fault_of(keys.when_away.name, text);
    }
    let sink = SinkPlace(0);
    match kind {
        Some(Awaited::Database) => (Ack::Loaded { sink, timeout }, awaited),
        Some(Awaited::Queue) => (Ack::Queued { sink, timeout, when_away }, awaited),
        None => (ack.unwrap_or(Ack::Log(Level::Synced)), None),
    }
}

fn when_away(number: u64) -> WhenAway {
    let mut when_away = WhenAway::default();
    Value::set(&mut when_away, number);
    when_away
}

/// Reads `ack`. `None`: the value is faulty.
fn written(stream: &str, section: &mut Section<'_>, key: &'static str) -> (Option<Ack>, Option<AwaitedSink>) {
    let is_there = section.has(key);
    let awaited = |section: &Section<'_>, kind, at: &std::ops::Range<usize>, sink| {
        Some(AwaitedSink { stream: stream.to_owned(), kind, sink, place: section.spot(at) })
    };
    match section.text_or_table(key, "a string, { loaded = \"SINK\" } or { queued = \"SINK\" }") {
        None => ((!is_there).then_some(Ack::Log(Level::Synced)), None),
        Some(TextOrTable::Text(text)) => {
            match Awaited::ALL.into_iter().find(|kind| kind.name() == text.value) {
                Some(kind) => (None, awaited(section, kind, &text.span, None)),
                None => (level(stream, section, &text), None),
            }
        }
        Some(TextOrTable::Table(mut table)) => {
            let (kind, key) = match table.has(QUEUED.name) {
                true => (Awaited::Queue, QUEUED.name),
                false => (Awaited::Database, LOADED.name),
            };
            let sink = table.needed_text(key);
            table.finish();
            (None, sink.and_then(|sink| awaited(section, kind, &sink.span, Some(sink.value))))
        }
    }
}

fn level(stream: &str, section: &Section<'_>, text: &Written<String>) -> Option<Ack> {
    let found = Level::ALL.into_iter().find(|level| level.name() == text.value);
    if found.is_none() {
        let names = Level::ALL.into_iter().map(Level::name).chain([Ack::LOADED, Ack::QUEUED]);
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
        let is_taking = |sink: &&SinkConfig| {
            sink.options.taken.takes(&self.stream) && self.kind.is_of(&sink.options.kind)
        };
        let word = self.kind.name();
        let loader = match by {
            LoadedBy::Server => None,
            LoadedBy::Others => Some("[load] in_server is false, set it to true"),
            LoadedBy::Nobody => Some("the server is started with --no-load, start it without"),
        };
        if let Some(found) = loader {
            return Err(format!(
                "ack of [stream.{}] is {word:?}, which needs the loader of the server: {found}",
                self.stream
            ));
        }
        match &self.sink {
            Some(name) => self.find_named(name, sinks, is_taking),
            None => {
                let takers: Vec<_> = sinks.iter().filter(is_taking).map(SinkConfig::name).collect();
                let lake = sinks.iter().find(|sink| {
                    sink.options.taken.takes(&self.stream)
                        && matches!(sink.options.kind, SinkKind::Parquet(_) | SinkKind::Iceberg(_))
                });
                match takers.as_slice() {
                    [one] => Ok(place_of(one, sinks)),
                    [] if let Some(lake) = lake => Err(self.of_segments(lake.name())),
                    [] => Err(self.without_taker(sinks)),
                    several => Err(format!(
                        "ack of [stream.{}] is {word:?}, but {} sinks take the stream: write {{ {word} = \
                         \"SINK\" }} with one of {}",
                        self.stream,
                        several.len(),
                        several.join(", ")
                    )),
                }
            }
        }
    }

    /// Returns the fault of a stream that no sink of the needed kind takes.
    fn without_taker(&self, sinks: &[SinkConfig]) -> String {
        let problem = format!("ack of [stream.{}] is {:?}, but", self.stream, self.kind.name());
        if sinks.iter().any(|sink| self.kind.is_of(&sink.options.kind)) {
            let kind = if self.kind == Awaited::Queue { "Kafka " } else { "" };
            return format!("{problem} no {kind}sink takes the stream: add it to streams of a sink");
        }
        match sinks.iter().find(|sink| sink.options.taken.takes(&self.stream)) {
            Some(other) => {
                let (kind, needed) = kind_of(&other.options.kind);
                let name = other.name();
                format!(
                    "{problem} sink {name:?} is {kind}: write ack = {needed:?}, or add {}",
                    self.kind.sink()
                )
            }
            None => format!("{problem} there is no sink of that kind: add {}", self.kind.sink()),
        }
    }

    /// Returns the fault of a sink of another kind than the replies wait for.
    fn of_another_kind(&self, name: &str, kind: &SinkKind) -> String {
        if let SinkKind::Parquet(_) | SinkKind::Iceberg(_) = kind {
            return self.of_segments(name);
        }
        let (other, needed) = kind_of(kind);
        format!(
            "ack of [stream.{}] names sink {name:?}, which is {other}: write {{ {needed} = {name:?} }}",
            self.stream
        )
    }

    /// Returns the fault of a sink that loads whole segments, so no reply can wait for it.
    fn of_segments(&self, sink: &str) -> String {
        format!(
            "ack of [stream.{}] is {:?}, but sink {sink:?} writes Parquet files of whole segments: use {}, \
             or another level",
            self.stream,
            self.kind.name(),
            self.kind.sink()
        )
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
        if !self.kind.is_of(&sink.options.kind) {
            return Err(self.of_another_kind(name, &sink.options.kind));
        }
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

/// Returns a kind of sink in words, with the level of replies that wait for it.
const fn kind_of(kind: &SinkKind) -> (&'static str, &'static str) {
    match kind {
        SinkKind::Kafka(_) => ("a Kafka cluster", Ack::QUEUED),
        SinkKind::Sqlite { .. } | SinkKind::Postgres(_) => ("a database", Ack::LOADED),
        // No reply can wait for whole segments.
        SinkKind::Parquet(_) | SinkKind::Iceberg(_) => ("a place of Parquet files", Level::Synced.name()),
    }
}

fn place_of(name: &str, sinks: &[SinkConfig]) -> SinkPlace {
    SinkPlace(sinks.iter().position(|sink| sink.name() == name).unwrap_or_default())
}

/// Shows `ack` and its keys.
pub(super) fn show(stream: &StreamSpec, awaited: &[AwaitedSink], keys: &AckKeys) -> [OwnValue; 3] {
    let (kind, timeout, when_away) = match stream.ack {
        Ack::Log(level) => {
            let level = Some(format!("\"{}\"", level.name()));
            return [(keys.ack.name, level), (keys.timeout.name, None), (keys.when_away.name, None)];
        }
        Ack::Loaded { timeout, .. } => (Awaited::Database, timeout, None),
        Ack::Queued { timeout, when_away, .. } => (Awaited::Queue, timeout, Some(when_away)),
    };
    let awaited = awaited.iter().find(|awaited| awaited.stream == stream.name);
    let ack = match awaited.and_then(|awaited| awaited.sink.as_ref()) {
        Some(sink) => {
            let own = [(LOADED.name, Awaited::Database), (QUEUED.name, Awaited::Queue)];
            inline(KEYS, &(), &own.map(|(name, of)| (name, (of == kind).then(|| quoted(sink)))))
        }
        None => format!("\"{}\"", kind.name()),
    };
    let when_away = when_away.map(|when_away| quoted(when_away.name()));
    [
        (keys.ack.name, Some(ack)),
        (keys.timeout.name, Some(keys.timeout.show(timeout.number()))),
        (keys.when_away.name, when_away),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of levels in the table of a page, which begins with this header.
    fn levels_of(page: &str, header: &str) -> Vec<String> {
        let rows = page.lines().skip_while(|line| !line.starts_with(header)).skip(2);
        let rows = rows.take_while(|line| line.starts_with("| `"));
        rows.map(|row| row.split('`').nth(1).unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn the_pages_have_every_level_of_acknowledgement_and_no_other() {
        let levels = Level::ALL.into_iter().map(Level::name);
        let levels: Vec<_> = levels.chain(Awaited::ALL.map(Awaited::name)).collect();
        let durability = include_str!("../../../../docs/explanation/durability.md");
        assert_eq!(levels_of(durability, "| `ack` | the reply leaves"), levels);
        let configuration = include_str!("../../../../docs/reference/configuration.md");
        assert_eq!(levels_of(configuration, "| `ack` | where the record is"), levels);
        let number = ["", "one", "two", "three", "four", "five", "six"][levels.len()];
        assert!(durability.contains(&format!("## The {number} levels")), "{number}");
    }
}
