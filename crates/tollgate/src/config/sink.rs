//! `[sink.NAME]`, the databases that rows are loaded into, and `[load]`, who loads them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_load::{LoadFrom, LoadTuning, SinkKind, SinkOptions, Taken};
use tollgate_server::StreamSpec;

use super::Config;
use super::fault::did_you_mean;
use super::resolved::{quoted, quoted_path};
use super::route::is_name;
use super::section::{Section, Written};
use super::units::{HOUR_MS, show_duration};

/// Longest name of a sink in bytes: it goes into the name of a thread, and over the control socket.
const NAME_BYTES_MAX: usize = 63;
/// Relative to the folder of the configuration.
const SQLITE: &str = "data/tollgate.sqlite";

/// Who loads, and how hard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoadRules {
    /// Who does.
    pub(crate) by: LoadedBy,
    /// A loader that was not caught up for so long takes an equal share of the machine.
    pub(crate) lag_max: Duration,
}

impl Default for LoadRules {
    fn default() -> Self {
        Self { by: LoadedBy::Server, lag_max: LoadTuning::default().lag_max }
    }
}

/// Who loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadedBy {
    /// The server itself.
    Server,
    /// Other processes: `tollgate load`.
    Others,
}

impl LoadedBy {
    const fn is_server(self) -> bool {
        matches!(self, Self::Server)
    }
}

/// A database that rows are loaded into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sink {
    /// The name that its positions are kept under.
    pub(crate) name: String,
    /// The SQLite file.
    pub(crate) path: PathBuf,
    /// The streams that it takes.
    pub(crate) taken: Taken,
    /// Where it begins when the database has never seen it.
    pub(crate) from: LoadFrom,
}

impl Sink {
    /// The sink of a configuration that names none.
    pub(super) fn default_in(folder: &Path) -> Self {
        let (taken, from) = (Taken::default(), LoadFrom::default());
        Self { name: "main".to_owned(), path: folder.join(SQLITE), taken, from }
    }

    /// The same for the loader.
    pub(crate) fn options(&self) -> SinkOptions {
        let kind = SinkKind::Sqlite { path: self.path.clone() };
        SinkOptions { name: self.name.clone(), kind, taken: self.taken.clone(), from: self.from }
    }
}

impl Config {
    /// The sink of that name, or all of them.
    ///
    /// # Errors
    /// There is no sink of that name.
    pub(crate) fn chosen(&self, name: Option<&str>) -> Result<&[Sink], UnknownSink> {
        let Some(name) = name else { return Ok(&self.sinks) };
        let known = || self.sinks.iter().map(|sink| sink.name.as_str());
        match self.sinks.iter().position(|sink| sink.name == name) {
            Some(at) => Ok(&self.sinks[at..=at]),
            None => Err(UnknownSink { name: name.to_owned(), hint: did_you_mean(name, known()) }),
        }
    }
}

/// A sink that the configuration has not.
#[derive(Debug, thiserror::Error)]
#[error("unknown sink {name:?}{hint}")]
pub(crate) struct UnknownSink {
    name: String,
    hint: String,
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[sink.{}]", self.name)?;
        writeln!(f, "sqlite = {}", quoted_path(&self.path))?;
        if let Taken::Only(streams) = &self.taken {
            let streams: Vec<_> = streams.iter().map(|stream| quoted(stream)).collect();
            writeln!(f, "streams = [{}]", streams.join(", "))?;
        }
        writeln!(f, "from = \"{}\"", self.from.name())
    }
}

impl fmt::Display for LoadRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[load]")?;
        writeln!(f, "in_server = {}", self.by.is_server())?;
        writeln!(f, "lag_max = \"{}\"", show_duration(self.lag_max))
    }
}

/// Reads `[load]`.
pub(super) fn load_rules(mut section: Section<'_>) -> LoadRules {
    let in_server = section.switch("in_server").is_none_or(|written| written.value);
    let lag_max = section.duration("lag_max", 100..=24 * HOUR_MS, LoadRules::default().lag_max);
    section.finish();
    LoadRules { by: if in_server { LoadedBy::Server } else { LoadedBy::Others }, lag_max }
}

/// Reads all sinks, in the order of the file; one, if it has none.
pub(super) fn sinks(root: &mut Section<'_>, folder: &Path, streams: &[StreamSpec]) -> Vec<Sink> {
    let mut sinks: Vec<Sink> = Vec::new();
    for (name, mut section) in root.named_tables("sink") {
        check_name(&name, &section);
        let written = section.needed_text("sqlite");
        let path = written.as_ref().map(|path| folder.join(&path.value)).unwrap_or_default();
        if let Some(written) = &written
            && let Some(other) = sinks.iter().find(|sink| sink.path == path)
        {
            let text = format!(
                "sqlite in [sink.{}] is that of [sink.{}] again: each needs a file of its own",
                name.value, other.name
            );
            section.fault_at(&written.span, text);
        }
        let taken = taken(&mut section, &name.value, streams);
        let from = section.choice("from", &LoadFrom::ALL).unwrap_or_default();
        section.finish();
        sinks.push(Sink { name: name.value, path, taken, from });
    }
    if sinks.is_empty() { vec![Sink::default_in(folder)] } else { sinks }
}

fn check_name(name: &Written<String>, section: &Section<'_>) {
    if !is_name(&name.value) || name.value.len() > NAME_BYTES_MAX {
        let allowed = "a letter or _, then letters, digits and _, at most 63 bytes";
        section.fault_at(&name.span, format!("sink is named {:?}, allowed is {allowed}", name.value));
    }
}

fn taken(section: &mut Section<'_>, sink: &str, streams: &[StreamSpec]) -> Taken {
    let Some(written) = section.texts("streams") else { return Taken::All };
    if written.is_empty() {
        section.fault(format!(
            "streams in [sink.{sink}] is empty, allowed is a list of streams, or no such key"
        ));
    }
    let mut taken = BTreeSet::new();
    for name in written {
        if !streams.iter().any(|stream| stream.name == name.value) {
            let hint = did_you_mean(&name.value, streams.iter().map(|stream| stream.name.as_str()));
            section.fault_at(&name.span, format!("unknown stream {:?} in [sink.{sink}]{hint}", name.value));
        }
        taken.insert(name.value);
    }
    Taken::Only(taken)
}
