//! The keys of a Parquet sink in `[sink.NAME]`.

use std::fmt;
use std::path::{Path, PathBuf};

use tollgate_load::{LakePlace, ParquetOptions};
use tollgate_ship::PutChecksum;

use super::duplicates;
use super::key::{keys, write};
use super::path::{PathTo, check_path};
use super::quoted::quoted_path;
use super::section::{Section, Written};
use super::ship_store::service_at;
use super::units::{HOUR_MS, KIB, MIB, MINUTE_MS};
use super::value::names;

/// The allowed places of Parquet files.
pub(super) const PLACE_ALLOWED: &str =
    "a path, `s3://BUCKET/PREFIX` `gs://BUCKET/PREFIX` `az://CONTAINER/PREFIX`";
/// The key of the place.
const PARQUET: &str = "parquet";
/// Folder below the folder of the log, in which files for a store are made.
const PARTS: &str = "parquet-parts";

keys! {
    /// The keys of a Parquet sink.
    pub(super) PARQUET_KEYS of ParquetOptions;
    /// Bytes of segments after which a load ends, at the end of a segment. A load gives a file for each
    /// stream and day.
    file_bytes = size(256 * MIB, 4 * KIB..=4 << 30) => file_bytes;
    /// How long a sealed segment waits for more segments before it is loaded.
    file_age = duration(5 * MINUTE_MS, 0..=24 * HOUR_MS) => file_age;
    /// Bytes of rows in memory, over all files of a load. Half of them gather while the others are written.
    row_group_bytes = size(64 * MIB, MIB..=4 << 30) => row_group_bytes;
    /// Folder of this machine in which files for a store are made.
    parts_dir [PARTS_DIR] = other("`parquet-parts` in `[log] dir`", "a path, only for a store");
    /// The address of the service of the store.
    endpoint = other("the address of the cloud", "a URL; `http://` to loopback only");
    /// The region of an `s3://` place.
    region = other("`AWS_REGION`, else `us-east-1`", "a name");
    /// The checksum that an `s3://` store verifies at each write.
    checksum = one_of("sha256", names::<PutChecksum>);
    /// The public part of the credentials: the access key of S3, the account of Azure.
    access_key = other("the environment, then the machine", "a text");
    /// The secret part of the credentials. It is never printed, and its file is never served.
    secret_key = other("the environment, then the machine", "`${NAME}` or `file:PATH`");
    /// The token of temporary credentials. It is never printed, and its file is never served.
    session_token = other("none", "`${NAME}` or `file:PATH`");
    /// A PEM file with the authorities that the certificate of the service may come from.
    ca_file = other("the authorities of the system", "a path");
    /// The proxy that connections to the service go through.
    proxy = other("none", "`http://HOST:PORT`");
}

/// Keys that only a store has.
const STORE_ONLY: [&str; 9] = [
    "parts_dir",
    "endpoint",
    "region",
    "checksum",
    "access_key",
    "secret_key",
    "session_token",
    "ca_file",
    "proxy",
];

/// The configuration of the files of a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lake {
    pub(super) options: ParquetOptions,
    /// The key of the kind of the sink.
    pub(super) kind: &'static str,
    /// The keys of a store as the file has them, before variables are replaced. So no secret is among them.
    written: Vec<(&'static str, String)>,
    /// The files of secrets, by their keys.
    secret_files: Vec<(&'static str, PathBuf)>,
}

impl Lake {
    /// Returns the folder and the files of secrets, by their keys.
    pub(super) fn files(&self) -> Vec<(&'static str, &Path)> {
        let secrets = self.secret_files.iter().map(|(key, path)| (*key, path.as_path()));
        let mut files: Vec<_> = secrets.collect();
        match &self.options.place {
            LakePlace::Folder(folder) => files.push((self.kind, folder)),
            LakePlace::Objects(_) => files.push((PARTS_DIR.name, &self.options.parts_dir)),
        }
        files
    }

    /// Returns the place, as TOML.
    pub(super) fn printed_place(&self) -> String {
        match &self.options.place {
            LakePlace::Folder(folder) => quoted_path(folder),
            LakePlace::Objects(_) => toml::Value::String(self.options.place.to_string()).to_string(),
        }
    }

    /// Writes the keys.
    pub(super) fn write_keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |key: &'static str| {
            let written = self.written.iter().find(|(name, _)| *name == key);
            written.map(|(_, text)| toml::Value::String(text.clone()).to_string())
        };
        let own: Vec<_> = STORE_ONLY
            .iter()
            .map(|key| match (*key, &self.options.place) {
                ("parts_dir", LakePlace::Objects(_)) => (*key, Some(quoted_path(&self.options.parts_dir))),
                ("checksum", LakePlace::Folder(_)) => (*key, None),
                (key, _) => (key, value(key)),
            })
            .collect();
        write(PARQUET_KEYS, &self.options, &own, f)?;
        duplicates::write_key(self.options.duplicates, f)
    }
}

/// Reads the keys of a sink with this place. Paths are relative to the first folder.
pub(super) fn read(section: &mut Section<'_>, folders: (&Path, &Path)) -> Lake {
    let place = section.text(PARQUET);
    read_at(section, PARQUET, place, folders)
}

/// Reads the keys of files at a place, which the value of `kind` names.
pub(super) fn read_at(
    section: &mut Section<'_>,
    kind: &'static str,
    at: Option<Written<String>>,
    (folder, log_dir): (&Path, &Path),
) -> Lake {
    let name = section.name().to_owned();
    if !is_built_in() {
        section.fault_of(kind, without_writer(kind, &name));
    }
    let is_store = at.as_ref().is_some_and(|text| text.value.contains("://"));
    let kept = STORE_ONLY.iter().filter_map(|key| Some((*key, section.as_written(key)?.to_owned())));
    let written = kept.collect();
    let (mut options, secret_files) = if is_store {
        let (objects, secret_files) = service_at(section, (kind, at), folder);
        let parts = section.text(PARTS_DIR.name).map(|parts| folder.join(parts.value));
        let parts = parts.unwrap_or_else(|| log_dir.join(PARTS));
        (ParquetOptions::new(LakePlace::Objects(Box::new(objects)), parts), secret_files)
    } else {
        for key in STORE_ONLY {
            if section.has(key) {
                section.fault_of(key, format!("{key} in {name} needs a store, found a folder"));
                section.text(key);
            }
        }
        let place = format!("{kind} in {name}");
        let dir = at.filter(|dir: &Written<String>| check_path(section, &place, dir, PathTo::Folder));
        (ParquetOptions::in_folder(dir.map_or_else(PathBuf::new, |dir| folder.join(dir.value))), Vec::new())
    };
    section.read(PARQUET_KEYS, &mut options);
    options.duplicates = duplicates::read(section);
    Lake { options, kind, written, secret_files }
}

/// Whether the program has the writer of Parquet. Tests of the configuration need none.
const fn is_built_in() -> bool {
    cfg!(any(test, feature = "lake"))
}

fn without_writer(kind: &str, section: &str) -> String {
    format!(
        "{kind} in {section} needs a program with the feature lake: use a release, or build with \
         `cargo build --features lake`"
    )
}
