//! `[ship.NAME]`: the stores that sealed segments are shipped to.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_log::{LogOptions, SegmentDigestAlgorithm};
use tollgate_server::OwnFile;
use tollgate_ship::{DeleteRule, NodeName};

use super::key::{keys, set_defaults, write};
use super::quoted::{quoted_list, quoted_path};
use super::section::{Section, Written};
use super::ship_store::{STORE_KEYS, StorePlace, store_place};
use super::ship_volumes::Volumes;
use super::sink::{NAME_ALLOWED, is_sink_name};
use super::units::{GIB, MINUTE_MS, SECOND_MS, TIMEOUT_MS, show_size};
use super::value::{Named, names};

/// The largest segment that a ship target takes. A segment is one object, stored by one call.
const SEGMENT_BYTES_MAX: u64 = GIB;
/// The sink of the database machine, if `sinks` names none.
const SINK: &str = "main";

keys! {
    pub(super) KEYS of ShipConfig;
    /// When a segment may be deleted on this machine: after the sinks loaded it, or after the store has it.
    delete [DELETE] = one_of("loaded", names::<DeleteWhen>) => delete;
    /// The sinks that must have loaded a segment before it is deleted here.
    sinks [SINKS] = other("`[\"main\"]`", "a list of names, only with `delete = \"loaded\"`");
    /// Bytes that are sent per second, at most. 0B: any.
    bytes_per_second = size(0, 0..=GIB << 10) => bytes_per_second;
    /// How often the positions of the sinks are read from the store.
    poll = duration(30 * SECOND_MS, TIMEOUT_MS) => poll;
    /// How often this machine reports itself to the store.
    heartbeat = duration(MINUTE_MS, TIMEOUT_MS) => heartbeat;
}

/// A store that segments are shipped to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShipConfig {
    /// The name in log lines, findings and metrics.
    pub(crate) name: String,
    /// The place of the store.
    pub(crate) place: StorePlace,
    delete: DeleteWhen,
    /// The sinks of the database machine. Empty: the positions of sinks do not count.
    sinks: Vec<String>,
    /// Bytes that are sent per second, at most.
    pub(crate) bytes_per_second: Option<u64>,
    /// Interval between two reads of the positions of sinks.
    pub(crate) poll: Duration,
    /// Interval between two reports of this machine to the store.
    pub(crate) heartbeat: Duration,
}

/// When a segment may be deleted on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum DeleteWhen {
    #[default]
    Loaded,
    Shipped,
}

impl Named for DeleteWhen {
    fn all() -> Vec<(&'static str, Self)> {
        vec![("loaded", Self::Loaded), ("shipped", Self::Shipped)]
    }
}

impl ShipConfig {
    fn new(name: String, place: StorePlace) -> Self {
        let mut ship = Self {
            name,
            place,
            delete: DeleteWhen::default(),
            sinks: Vec::new(),
            bytes_per_second: None,
            poll: Duration::ZERO,
            heartbeat: Duration::ZERO,
        };
        set_defaults(KEYS, &mut ship);
        ship
    }

    /// Returns when a segment may be deleted on this machine.
    pub(crate) fn delete_rule(&self) -> DeleteRule {
        match self.delete {
            DeleteWhen::Loaded => DeleteRule::Loaded { sinks: self.sinks.clone() },
            DeleteWhen::Shipped => DeleteRule::Shipped,
        }
    }

    /// Returns the folders of this machine that hold objects of the store.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        self.place.folders()
    }

    /// Returns the volumes that move. `None`: the store is no volume.
    pub(crate) const fn volumes(&self) -> Option<&Volumes> {
        match &self.place {
            StorePlace::Volumes(volumes) => Some(volumes),
            StorePlace::Folder(_) | StorePlace::Objects(_) => None,
        }
    }

    /// Returns the sinks that must have loaded a segment before it is deleted on this machine.
    pub(crate) fn sinks(&self) -> &[String] {
        &self.sinks
    }

    /// Returns the files of its secrets, by their keys.
    pub(super) fn secret_files(&self) -> &[(&'static str, PathBuf)] {
        match &self.place {
            StorePlace::Folder(_) | StorePlace::Volumes(_) => &[],
            StorePlace::Objects(objects) => &objects.secret_files,
        }
    }
}

/// Writes the place of the store, for people.
impl fmt::Display for ShipConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

/// Reads all ship targets, in the order of the file. Paths are relative to `folder`.
pub(super) fn ships(root: &mut Section<'_>, folder: &Path, log: &LogOptions) -> Vec<ShipConfig> {
    let mut ships: Vec<ShipConfig> = Vec::new();
    for (name, mut section) in root.named_tables("ship") {
        if !is_sink_name(&name.value) {
            let text = format!("ship target is named {:?}, allowed is {NAME_ALLOWED}", name.value);
            section.fault_at(&name.span, text);
        }
        if ships.is_empty() {
            // One fault about the log is enough, because the targets share the log.
            unfit_log(log).into_iter().for_each(|problem| section.fault(problem));
        }
        let store = store_place(&mut section, folder, |section, place, dir| {
            check_dir(dir, place, section, &ships, log);
        });
        if let Some(other) = ships.iter().find(|ship| ship.folders().is_empty() && ship.place.is_same(&store))
        {
            let text = format!(
                "store in {} is the place of [ship.{}]: give it a prefix",
                section.name(),
                other.name
            );
            section.fault(text);
        }
        let mut ship = ShipConfig::new(name.value, store);
        section.read(KEYS, &mut ship);
        if ship.volumes().is_some() && ship.delete == DeleteWhen::Shipped {
            let text = format!(
                "delete in {} is \"shipped\", but a lost volume must lose no record: write \"loaded\"",
                section.name()
            );
            section.fault_of(DELETE.name, text);
        }
        ship.sinks = sinks(&mut section, ship.delete);
        section.finish();
        ships.push(ship);
    }
    ships
}

/// Returns why the segments of this log cannot be shipped. Empty: they can.
pub(crate) fn unfit_log(log: &LogOptions) -> Vec<String> {
    let mut problems = Vec::new();
    if log.segment_bytes_max > SEGMENT_BYTES_MAX {
        let (found, limit) = (show_size(log.segment_bytes_max), show_size(SEGMENT_BYTES_MAX));
        problems.push(format!(
            "segment_bytes_max in [log] is {found}, limit with [ship.NAME] is {limit}: a segment is one file"
        ));
    }
    if log.digest == SegmentDigestAlgorithm::None {
        problems.push(
            "digest in [log] is \"none\", but [ship.NAME] needs a digest to compare segments: write \"sha256\""
                .to_owned(),
        );
    }
    if NodeName::encode(&log.node).is_none() {
        problems.push(
            "node in [log] is \"\", but [ship.NAME] needs the name of this machine: give each machine its own"
                .to_owned(),
        );
    }
    problems
}

fn check_dir(
    dir: &Written<PathBuf>,
    place: &str,
    section: &Section<'_>,
    ships: &[ShipConfig],
    log: &LogOptions,
) {
    if let Some(other) = ships.iter().find(|ship| ship.folders().contains(&dir.value)) {
        let text =
            format!("{place} is the folder of [ship.{}]: each ship target needs its own folder", other.name);
        section.fault_at(&dir.span, text);
    }
    if let Some(problem) = unfit_folder(&dir.value, log) {
        section.fault_at(&dir.span, format!("{place} is {problem}"));
    }
}

/// Returns why a folder cannot be the store of this log. `None`: it can.
pub(crate) fn unfit_folder(dir: &Path, log: &LogOptions) -> Option<String> {
    let own = [OwnFile::new("dir in [log]", &log.dir)];
    let reached = OwnFile::reached_from(&own, dir).pop()?;
    Some(format!("{}, which overlaps {reached}: choose a separate folder", dir.display()))
}

fn sinks(section: &mut Section<'_>, delete: DeleteWhen) -> Vec<String> {
    let place = section.name().to_owned();
    let is_written = section.has(SINKS.name);
    let written = section.texts(SINKS.name);
    if delete == DeleteWhen::Shipped {
        if is_written {
            let text = format!("sinks in {place} needs delete = \"loaded\", found delete = \"shipped\"");
            section.fault_of(SINKS.name, text);
        }
        return Vec::new();
    }
    let Some(written) = written else { return vec![SINK.to_owned()] };
    if written.is_empty() {
        let text = format!("sinks in {place} is empty, allowed is a list of names, or delete = \"shipped\"");
        section.fault_of(SINKS.name, text);
    }
    for name in written.iter().filter(|name| !is_sink_name(&name.value)) {
        let text = format!("sinks in {place} has {:?}, allowed is {NAME_ALLOWED}", name.value);
        section.fault_at(&name.span, text);
    }
    written.into_iter().map(|name| name.value).collect()
}

/// Writes the section.
pub(super) fn write_ship(ship: &ShipConfig, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n[ship.{}]", ship.name)?;
    let sinks = (!ship.sinks.is_empty()).then(|| quoted_list(&ship.sinks));
    write(STORE_KEYS, &ship.place, &ship.place.printed(quoted_path), f)?;
    if let Some(volumes) = ship.volumes() {
        volumes.write(f)?;
    }
    write(KEYS, ship, &[(SINKS.name, sinks)], f)
}
