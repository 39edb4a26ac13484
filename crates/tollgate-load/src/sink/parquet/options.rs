//! Options of a Parquet sink.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_ship::ObjectStoreOptions;
#[cfg(feature = "lake")]
use tollgate_ship::{AwsKeys, StoreService};

use crate::sink::duplicates::Duplicates;

/// Options of a Parquet sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParquetOptions {
    /// Where the files are.
    pub place: LakePlace,
    /// Folder of this machine in which files are made.
    pub parts_dir: PathBuf,
    /// Bytes of segments after which a load ends, at the end of a segment.
    pub file_bytes: u64,
    /// How long a sealed segment waits for more segments before it is loaded.
    pub file_age: Duration,
    /// Bytes of rows in memory, over all files of a load. Half of them gather while the others are written.
    pub row_group_bytes: u64,
    /// What the sink does with rows that have the key of an earlier row.
    pub duplicates: Duplicates,
}

/// Where the files of a Parquet sink are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LakePlace {
    /// A folder.
    Folder(PathBuf),
    /// A place in an object store.
    Objects(Box<ObjectStoreOptions>),
}

impl ParquetOptions {
    /// Returns the default options of a place. Files are made in `parts_dir` of this machine.
    pub fn new(place: LakePlace, parts_dir: impl Into<PathBuf>) -> Self {
        Self {
            place,
            parts_dir: parts_dir.into(),
            file_bytes: 256 << 20,
            file_age: Duration::from_mins(5),
            row_group_bytes: 64 << 20,
            duplicates: Duplicates::default(),
        }
    }

    /// Returns the default options of a folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        // The files get their names by a rename, which needs the same file system.
        let parts_dir = folder.join("_tollgate").join("parts");
        Self::new(LakePlace::Folder(folder), parts_dir)
    }

    /// Returns the option that makes `new` another place for the positions.
    pub(crate) fn moved_by(&self, new: &Self) -> Option<&'static str> {
        (!self.place.is_same(&new.place)).then_some("another place of files")
    }
}

impl LakePlace {
    /// Returns the keys of AWS that the place names.
    #[cfg(feature = "lake")]
    pub(crate) fn aws_keys(&self) -> AwsKeys {
        match self {
            Self::Objects(objects) if objects.place.service == StoreService::S3 => objects.aws_keys(),
            Self::Folder(_) | Self::Objects(_) => AwsKeys::default(),
        }
    }

    /// Returns whether both are the same place of the same service.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Folder(one), Self::Folder(other)) => one == other,
            (Self::Objects(one), Self::Objects(other)) => {
                (&one.place, &one.endpoint) == (&other.place, &other.endpoint)
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for LakePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Objects(objects) => {
                let place = &objects.place;
                let slash = if place.prefix.is_empty() { "" } else { "/" };
                write!(f, "{}://{}{slash}{}", place.service.scheme(), place.bucket, place.prefix)
            }
        }
    }
}
