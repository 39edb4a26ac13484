//! The store of a ship target: a folder, volumes that move, or a place in an object store.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_ship::{
    ObjectStore, ObjectStoreOptions, Pacer, PutChecksum, Secret, StorePlace as Place, StoreService,
};

use super::key::keys;
use super::path::{PathTo, check_path, path};
use super::secret::find_secret;
use super::section::{Section, Written};
use super::ship_volumes::{self, VOLUMES, Volumes};
use super::value::{Value, named, names};

keys! {
    pub(super) STORE_KEYS of StorePlace;
    /// The place of the store: a bucket or a container, and a prefix of all names.
    store [STORE] = other("needed, or `dir` or `volumes`", "`s3://BUCKET/PREFIX` `gs://BUCKET/PREFIX` `az://CONTAINER/PREFIX`");
    /// The folder of the store: on another disk, or shared over the network.
    dir [DIR] = other("needed, or `store` or `volumes`", "a path");
    /// The folders of volumes that move: mounted disks that carry segments to another machine, in turn.
    volumes = other("needed, or `store` or `dir`", "a list of at least two paths");
    /// The address of the service of `store`.
    endpoint [ENDPOINT] = other("the address of the cloud", "a URL; `http://` to loopback only");
    /// The region of an `s3://` store.
    region [REGION] = other("`AWS_REGION`, else `us-east-1`", "a name");
    /// The checksum that an `s3://` store verifies at each write. `crc64nvme` takes less processor time.
    checksum [CHECKSUM] = one_of("sha256", names::<PutChecksum>);
    /// The public part of the credentials: the access key of S3, the account of Azure.
    access_key [ACCESS_KEY] = other("the environment, then the machine", "a text");
    /// The secret part of the credentials. It is never printed, and its file is never served.
    secret_key [SECRET_KEY] = other("the environment, then the machine", "`${NAME}` or `file:PATH`");
    /// The token of temporary credentials. It is never printed, and its file is never served.
    session_token [SESSION_TOKEN] = other("none", "`${NAME}` or `file:PATH`");
    /// A PEM file with the authorities that the certificate of the service may come from.
    ca_file [CA_FILE] = other("the authorities of the system", "a path");
    /// The proxy that connections to the service go through.
    proxy [PROXY] = other("none", "`http://HOST:PORT`");
}

named!(PutChecksum);

/// The place of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StorePlace {
    /// A folder.
    Folder(PathBuf),
    /// Volumes that move.
    Volumes(Volumes),
    /// A place in an object store.
    Objects(Box<Objects>),
}

/// A place in an object store, with its service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Objects {
    /// The place, the service and its credentials.
    pub(crate) options: ObjectStoreOptions,
    /// The keys as the file has them, before variables are replaced. So no secret is among them.
    written: BTreeMap<&'static str, String>,
    /// The files of secrets, by their keys.
    pub(super) secret_files: Vec<(&'static str, PathBuf)>,
}

impl StorePlace {
    /// Returns the folders of this machine that hold objects of the store.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        match self {
            Self::Folder(folder) => std::slice::from_ref(folder),
            Self::Volumes(volumes) => &volumes.folders,
            Self::Objects(_) => &[],
        }
    }

    /// Returns the key that names the place.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::Folder(_) => DIR.name,
            Self::Volumes(_) => VOLUMES,
            Self::Objects(_) => STORE.name,
        }
    }

    /// Returns whether both are the same place of the same service.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Folder(one), Self::Folder(other)) => one == other,
            (Self::Objects(one), Self::Objects(other)) => {
                let place =
                    |objects: &Objects| (objects.options.place.clone(), objects.options.endpoint.clone());
                place(one) == place(other)
            }
            _ => false,
        }
    }

    /// Returns the values of the keys, as TOML.
    pub(super) fn printed(&self, folder: impl Fn(&Path) -> String) -> Vec<(&'static str, Option<String>)> {
        let value = |key: &'static str| match self {
            Self::Folder(path) => (key == DIR.name).then(|| folder(path)),
            Self::Volumes(volumes) => (key == VOLUMES).then(|| {
                let folders: Vec<_> = volumes.folders.iter().map(|path| folder(path)).collect();
                format!("[{}]", folders.join(", "))
            }),
            Self::Objects(objects) => {
                objects.written.get(key).map(|text| toml::Value::String(text.clone()).to_string())
            }
        };
        STORE_KEYS.iter().map(|key| (key.facts.name, value(key.facts.name))).collect()
    }
}

/// Writes the place, for people.
impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Volumes(volumes) => volumes.fmt(f),
            Self::Objects(objects) => {
                let Place { service, bucket, prefix } = &objects.options.place;
                let slash = if prefix.is_empty() { "" } else { "/" };
                write!(f, "{}://{bucket}{slash}{prefix}", service.scheme())
            }
        }
    }
}

/// Reads the place of a store. Paths are relative to `folder`. `check_dir` finds faults of a folder.
pub(super) fn store_place(
    section: &mut Section<'_>,
    folder: &Path,
    check_dir: impl Fn(&Section<'_>, &str, &Written<PathBuf>),
) -> StorePlace {
    let name = section.name().to_owned();
    let mut places = [STORE.name, DIR.name, VOLUMES].into_iter().filter(|key| section.has(key));
    let (place, others) = (places.next(), places.collect::<Vec<_>>());
    for other in others {
        let place = place.unwrap_or_default();
        section.fault_of(other, format!("{other} and {place} are both in {name}, allowed is one of them"));
        if other == VOLUMES { drop(section.texts(VOLUMES)) } else { drop(section.text(other)) }
    }
    if place != Some(STORE.name) {
        refuse_keys_of_objects(section, place);
    }
    if place != Some(VOLUMES) {
        ship_volumes::refuse_keys(section);
    }
    match place {
        Some(place) if place == STORE.name => objects(section, folder),
        Some(place) if place == VOLUMES => {
            StorePlace::Volumes(ship_volumes::volumes(section, folder, check_dir))
        }
        Some(_) => StorePlace::Folder(dir(section, folder, check_dir)),
        None => {
            section.fault(format!("missing key {:?}, {:?} or {VOLUMES:?} in {name}", STORE.name, DIR.name));
            // Both keys are noted, for the hint on a misspelled key.
            drop((section.text(DIR.name), section.texts(VOLUMES)));
            StorePlace::Folder(PathBuf::new())
        }
    }
}

fn dir(
    section: &mut Section<'_>,
    folder: &Path,
    check_dir: impl Fn(&Section<'_>, &str, &Written<PathBuf>),
) -> PathBuf {
    let dir = section.text(DIR.name);
    let place = format!("{} in {}", DIR.name, section.name());
    let dir = dir.filter(|dir| check_path(section, &place, dir, PathTo::Folder));
    let dir = dir.map(|written| Written { value: folder.join(&written.value), span: written.span });
    if let Some(dir) = &dir {
        check_dir(section, &place, dir);
    }
    dir.map_or_else(PathBuf::new, |dir| dir.value)
}

/// Adds a fault for each key of object stores in a target with another place.
fn refuse_keys_of_objects(section: &mut Section<'_>, place: Option<&str>) {
    let (name, found) = (section.name().to_owned(), place.unwrap_or("none"));
    let is_place = |key: &&str| [STORE.name, DIR.name, VOLUMES].contains(key);
    for key in STORE_KEYS.iter().map(|key| key.facts.name).filter(|key| !is_place(key)) {
        if section.has(key) {
            section.fault_of(key, format!("{key} in {name} needs store, found {found}"));
            section.text(key);
        }
    }
}

fn objects(section: &mut Section<'_>, folder: &Path) -> StorePlace {
    let keys = STORE_KEYS.iter().map(|key| key.facts.name);
    let written = keys.filter_map(|key| Some((key, section.as_written(key)?.to_owned()))).collect();
    let (options, secret_files) = service(section, STORE.name, folder);
    StorePlace::Objects(Box::new(Objects { options, written, secret_files }))
}

/// Reads the place of objects that the key `place_key` has, and the keys of its service. Returns the files of
/// secrets too, by their keys.
pub(super) fn service(
    section: &mut Section<'_>,
    place_key: &'static str,
    folder: &Path,
) -> (ObjectStoreOptions, Vec<(&'static str, PathBuf)>) {
    let place = section.text(place_key);
    service_at(section, (place_key, place), folder)
}

/// Reads the place of objects from a text, which the value of `place_key` has, and the keys of its service.
pub(super) fn service_at(
    section: &mut Section<'_>,
    (place_key, place): (&'static str, Option<Written<String>>),
    folder: &Path,
) -> (ObjectStoreOptions, Vec<(&'static str, PathBuf)>) {
    let name = section.name().to_owned();
    let place = place.and_then(|text| match Place::parse(&text.value) {
        Ok(place) => Some(place),
        Err(error) => {
            section.fault_at(&text.span, format!("{place_key} in {name}: {error}"));
            None
        }
    });
    let place_is_known = place.is_some();
    let checksum = checksum(section, place.as_ref());
    let mut secret_files = Vec::new();
    let mut secret = |section: &mut Section<'_>, key| secret(section, folder, key, &mut secret_files);
    let options = ObjectStoreOptions {
        endpoint: value(section, ENDPOINT.name),
        region: value(section, REGION.name),
        access_key: value(section, ACCESS_KEY.name),
        secret_key: secret(section, SECRET_KEY.name),
        session_token: secret(section, SESSION_TOKEN.name),
        ca: path(section, CA_FILE.name, PathTo::File).map(|written| folder.join(written.value)),
        proxy: value(section, PROXY.name),
        checksum,
        ..ObjectStoreOptions::new(place.unwrap_or_else(nowhere))
    };
    // Opening sends nothing. It finds options that do not go together.
    if place_is_known && let Err(error) = ObjectStore::open(options.clone(), Arc::new(Pacer::new(None))) {
        section.fault_of(place_key, format!("{place_key} in {name} cannot be used: {error}"));
    }
    (options, secret_files)
}

/// Takes the checksum of writes. Only S3 has a choice.
fn checksum(section: &mut Section<'_>, place: Option<&Place>) -> PutChecksum {
    let mut checksum = PutChecksum::default();
    if let Some(number) = section.number(&CHECKSUM) {
        checksum.set(number);
        if let Some(place) = place.filter(|place| place.service != StoreService::S3) {
            let (section_name, scheme) = (section.name(), place.service.scheme());
            let text = format!("checksum in {section_name} needs an s3:// store, found {scheme}://");
            section.fault_of(CHECKSUM.name, text);
        }
    }
    checksum
}

/// Returns a place for options that have a fault already.
fn nowhere() -> Place {
    Place { service: StoreService::S3, bucket: String::new(), prefix: String::new() }
}

fn value(section: &mut Section<'_>, key: &'static str) -> Option<String> {
    section.text(key).map(|written| written.value)
}

/// Reads a secret. The configuration names a variable of the environment or a file, and never holds the
/// secret.
pub(super) fn secret(
    section: &mut Section<'_>,
    folder: &Path,
    key: &'static str,
    files: &mut Vec<(&'static str, PathBuf)>,
) -> Option<Secret> {
    let as_written = section.as_written(key).unwrap_or_default();
    let text = section.text(key)?;
    let place = format!("{key} in {}", section.name());
    let found = find_secret(section, &place, as_written, &text, folder);
    let file = found.as_ref().map_or_else(Clone::clone, |found| found.file.clone());
    files.extend(file.map(|file| (key, file)));
    found.ok().map(|found| Secret::new(found.value))
}
