//! The version of the configuration that serves: its number, the time of its load, and a digest of its texts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tollgate_server::{SourceFile, Sources};

use crate::config::{Change, Config, Mount};
use crate::wall;

/// Bytes of a configuration's digest that are shown.
const DIGEST_BYTES: usize = 6;
/// Bytes of a file's digest that are shown.
const FILE_DIGEST_BYTES: usize = 4;

/// A configuration that was loaded.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    /// Counts from 1, which is the version of the start.
    pub(crate) number: u64,
    /// The time when the configuration began to serve.
    pub(crate) loaded_at: Timestamp,
    /// Digest of the texts of the configuration, apps, scripts and modules, by their names below its folder.
    /// Servers with the same texts have the same digest.
    pub(crate) digest: String,
    /// The digests of its scripts and modules, by name.
    scripts: BTreeMap<String, [u8; 32]>,
}

impl Version {
    /// Makes the version of a configuration that serves now.
    pub(crate) fn new(number: u64, config: &Config, sources: &Sources) -> Self {
        let scripts = scripts_of(config, sources);
        let digest = digest_of(&texts_of(config), &scripts);
        Self { number, loaded_at: wall::now(), digest, scripts }
    }

    /// Returns the scripts and modules that differ from an earlier version.
    pub(crate) fn changed_scripts(&self, earlier: &Self) -> Vec<Change> {
        let (present, new) = (&earlier.scripts, &self.scripts);
        let names = present.keys().chain(new.keys().filter(|name| !present.contains_key(*name)));
        let differing = names.filter(|name| present.get(*name) != new.get(*name));
        let shown = |digest: Option<&[u8; 32]>| digest.map(|digest| hex(&digest[..FILE_DIGEST_BYTES]));
        let change = |name: &String| Change {
            key: name.clone(),
            present: shown(present.get(name)),
            new: shown(new.get(name)),
        };
        differing.map(change).collect()
    }

    /// Returns the apps of a configuration, for the status.
    pub(crate) fn apps(config: &Config) -> Value {
        let app = |mount: &Mount| json!({ "path": mount.path, "host": mount.host, "dir": mount.dir.to_string_lossy() });
        config.mounts.iter().map(app).collect()
    }
}

/// Returns the texts of the configuration and of its apps, as digests by name.
fn texts_of(config: &Config) -> Vec<(String, [u8; 32])> {
    let name = |file: &SourceFile| file.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let own = config.text.iter().map(|text| (name(text), text.sha256));
    let apps = config.mounts.iter();
    let apps = apps.map(|mount| (format!("{} {}", mount.name(), name(&mount.text)), mount.text.sha256));
    own.chain(apps).collect()
}

fn scripts_of(config: &Config, sources: &Sources) -> BTreeMap<String, [u8; 32]> {
    let folder = if config.source.is_dir() { Some(&*config.source) } else { config.source.parent() };
    let mut scripts = BTreeMap::new();
    gather("", folder.unwrap_or(Path::new("")), &sources.own, &mut scripts);
    for (mount, sources) in config.mounts.iter().zip(&sources.apps) {
        gather(&format!("{} ", mount.name()), &mount.dir, sources, &mut scripts);
    }
    scripts
}

fn gather(above: &str, folder: &Path, sources: &[SourceFile], scripts: &mut BTreeMap<String, [u8; 32]>) {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| PathBuf::from(folder));
    for SourceFile { file, sha256 } in sources {
        let name = file.strip_prefix(&folder).unwrap_or(file).to_string_lossy();
        scripts.insert(format!("{above}script {name:?}"), *sha256);
    }
}

fn digest_of(texts: &[(String, [u8; 32])], scripts: &BTreeMap<String, [u8; 32]>) -> String {
    let mut whole = Sha256::new();
    for (name, sha256) in texts.iter().map(|(name, sha256)| (name, sha256)).chain(scripts) {
        whole.update((name.len() as u64).to_le_bytes());
        whole.update(name);
        whole.update(sha256);
    }
    hex(&whole.finalize()[..DIGEST_BYTES])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &[(&str, u8)]) -> BTreeMap<String, [u8; 32]> {
        names.iter().map(|(name, digest)| ((*name).to_owned(), [*digest; 32])).collect()
    }

    fn version(names: &[(&str, u8)]) -> Version {
        let scripts = read(names);
        Version { number: 1, loaded_at: wall::now(), digest: digest_of(&[], &scripts), scripts }
    }

    #[test]
    fn versions_of_the_same_sources_have_the_same_digest() {
        let one = version(&[("a", 1), ("b", 2)]);
        assert_eq!(one.digest.len(), 12);
        assert_eq!(one.digest, version(&[("b", 2), ("a", 1)]).digest);
        for other in [&[("a", 1)][..], &[("a", 1), ("b", 3)], &[("a", 1), ("c", 2)]] {
            assert_ne!(one.digest, version(other).digest, "{other:?}");
        }
        assert_ne!(digest_of(&[("t".to_owned(), [1; 32])], &one.scripts), one.digest);
    }

    #[test]
    fn scripts_that_differ_are_named() {
        let (one, other) =
            (version(&[("a", 1), ("b", 2), ("c", 3)]), version(&[("b", 9), ("c", 3), ("d", 4)]));
        let changes: Vec<_> = other.changed_scripts(&one).iter().map(ToString::to_string).collect();
        assert_eq!(changes, ["a: removed", "b: 02020202 -> 09090909", "d: added"]);
        assert!(one.changed_scripts(&one).is_empty());
    }
}
