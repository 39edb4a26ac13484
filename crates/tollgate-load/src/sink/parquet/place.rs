//! The places of a lake: a folder, or an object store by the client that ships segments.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tollgate_lake::{Created, FileStamp, FolderPlace, LakeError, Ledger, Place};
use tollgate_ship::{Content, ObjectStore, ObjectText, Pacer, Store, StoreError};

use super::options::{LakePlace, ParquetOptions};
use crate::error::SinkError;

/// Maximum bytes of a plan or a commit.
const TEXT_BYTES_MAX: u64 = 256 << 20;
/// Maximum bytes of a file that is read back.
const FILE_BYTES_MAX: u64 = 16 << 30;

/// Opens the plans and commits of a sink.
pub(in crate::sink) fn open_ledger(options: &ParquetOptions, sink: &str) -> Result<Ledger, SinkError> {
    let place: Box<dyn Place> = match &options.place {
        LakePlace::Folder(folder) => Box::new(FolderPlace::new(folder)),
        LakePlace::Objects(objects) => {
            let store = ObjectStore::open((**objects).clone(), Arc::new(Pacer::new(None)));
            let store = store.map_err(|error| LakeError::call("open", "the store")(error));
            Box::new(ObjectPlace(store.map_err(SinkError::lake("open the lake"))?))
        }
    };
    Ok(Ledger::new(place, sink))
}

/// An object store as the place of a lake.
struct ObjectPlace(ObjectStore);

impl Place for ObjectPlace {
    fn create_file(&self, name: &str, file: &Path, stamp: &FileStamp) -> Result<Created, LakeError> {
        let created = self.0.create_object(name, Content::File(file), Some(&stamp.to_string()));
        created.map(created_of).map_err(failed(name))
    }

    fn create_text(&self, name: &str, text: &str) -> Result<Created, LakeError> {
        self.0.create_object(name, Content::Text(text), None).map(created_of).map_err(failed(name))
    }

    fn replace_text(&self, name: &str, text: &str) -> Result<(), LakeError> {
        self.0.replace_object(name, text).map_err(failed(name))
    }

    fn remove_text(&self, name: &str) -> Result<(), LakeError> {
        self.0.remove_object(name).map_err(failed(name))
    }

    fn text(&self, name: &str) -> Result<Option<String>, LakeError> {
        self.0.object(name, TEXT_BYTES_MAX).map_err(failed(name))
    }

    fn stamp(&self, name: &str) -> Result<Option<FileStamp>, LakeError> {
        let unknown = |text: String| FileStamp { rows: 0, digest: text };
        Ok(match self.0.text_of_object(name).map_err(failed(name))? {
            ObjectText::Missing => None,
            ObjectText::None => Some(unknown("without a stamp".to_owned())),
            ObjectText::Some(text) => Some(text.parse().unwrap_or_else(|()| unknown(text))),
        })
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, LakeError> {
        self.0.objects(prefix, after).map_err(failed(prefix))
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, LakeError> {
        Store::folders(&self.0, prefix).map_err(failed(prefix))
    }

    fn fetch(&self, name: &str, file: &Path) -> Result<bool, LakeError> {
        // An incomplete file of an earlier try may be there.
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(LakeError::call("fetch", name)(error));
            }
            Ok(()) | Err(_) => {}
        }
        self.0.fetch_object(name, file, FILE_BYTES_MAX).map_err(failed(name))
    }
}

pub(in crate::sink) const fn created_of(created: tollgate_ship::Created) -> Created {
    match created {
        tollgate_ship::Created::Stored => Created::Stored,
        tollgate_ship::Created::Exists => Created::Exists,
    }
}

fn failed(name: &str) -> impl FnOnce(StoreError) -> LakeError {
    LakeError::call("reach", name)
}
