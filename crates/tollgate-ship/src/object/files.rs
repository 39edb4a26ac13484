//! Objects outside the layout of segments: files and short texts of other crates, under any name.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use futures_util::TryStreamExt;
use object_store::path::Path as Key;
use object_store::{
    Attribute, AttributeValue, Attributes, Error, GetOptions, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};
use tollgate_log::FILE_MODE;

use super::{ObjectStore, ServiceError, StoreService, failed, found, pieces, read_file};
use crate::store::{Created, StoreError};

/// The content of a new object.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// A file of this machine.
    File(&'a Path),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// The text that is stored with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectText {
    /// There is no such object.
    Missing,
    /// The object has no text.
    None,
    /// The text.
    Some(String),
}

impl ObjectStore {
    pub(super) fn free_key(&self, name: &str) -> Result<Key, StoreError> {
        let key = Key::parse(self.options.place.below(name)).map_err(|error| error.to_string());
        key.map_err(|reason| StoreError::call("name", name)(ServiceError(reason)))
    }

    fn text_key(&self) -> Attribute {
        Attribute::Metadata(match self.options.place.service {
            // On Azure, names of metadata must be identifiers of C#.
            StoreService::Azure => "tollgate_stamp".into(),
            StoreService::S3 | StoreService::Gcs => "tollgate-stamp".into(),
        })
    }

    /// Stores an object under a new name, with a short text of its own.
    ///
    /// # Errors
    /// It is unknown whether the object is stored.
    pub fn create_object(
        &self,
        name: &str,
        content: Content<'_>,
        text: Option<&str>,
    ) -> Result<Created, StoreError> {
        let key = self.free_key(name)?;
        let payload = match content {
            Content::File(file) => read_file(file)?,
            Content::Text(text) => PutPayload::from(text.as_bytes().to_vec()),
            Content::Bytes(bytes) => PutPayload::from(bytes.to_vec()),
        };
        let mut attributes = Attributes::new();
        if let Some(text) = text {
            attributes.insert(self.text_key(), AttributeValue::from(text.to_owned()));
        }
        let bytes = payload.content_length() as u64;
        let options = PutOptions { mode: PutMode::Create, attributes, ..PutOptions::default() };
        self.run("create", name, bytes, async {
            match self.service.put_opts(&key, payload, options).await {
                Ok(_) => Ok(Created::Stored),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Created::Exists),
                Err(error) => Err(failed("create", name)(error)),
            }
        })
    }

    /// Stores a text under a name that may have an object.
    ///
    /// # Errors
    /// It is unknown whether the text is stored.
    pub fn replace_object(&self, name: &str, text: &str) -> Result<(), StoreError> {
        let key = self.free_key(name)?;
        let payload = PutPayload::from(text.as_bytes().to_vec());
        self.run("replace", name, text.len() as u64, async {
            self.service.put(&key, payload).await.map(drop).map_err(failed("replace", name))
        })
    }

    /// Reads an object that is a text of at most `bytes_max` bytes. `None`: there is no such object.
    ///
    /// # Errors
    /// The store does not answer, or the object has more bytes.
    pub fn object(&self, name: &str, bytes_max: u64) -> Result<Option<String>, StoreError> {
        let bytes = self.object_bytes(name, bytes_max)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Writes an object to a new file. Returns false if there is no such object, and no file is created.
    ///
    /// # Errors
    /// The store does not answer, or the file cannot be written.
    pub fn fetch_object(&self, name: &str, file: &Path, bytes_max: u64) -> Result<bool, StoreError> {
        let key = self.free_key(name)?;
        self.run("fetch", name, bytes_max, async {
            let result = found(self.service.get(&key).await).map_err(failed("fetch", name))?;
            let Some(result) = result else { return Ok(false) };
            let mut pieces = pieces(result, "fetch", name, bytes_max)?;
            let mut options = OpenOptions::new();
            let target = options.write(true).create_new(true).mode(FILE_MODE).open(file);
            let mut target = target.map_err(StoreError::file("create", file))?;
            while let Some(piece) = pieces.next().await? {
                target.write_all(&piece).map_err(StoreError::file("write", file))?;
            }
            Ok(true)
        })
    }

    /// Returns the text that was stored with an object.
    ///
    /// # Errors
    /// The store does not answer.
    pub fn text_of_object(&self, name: &str) -> Result<ObjectText, StoreError> {
        let key = self.free_key(name)?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let result = self.run("look at", name, 0, async {
            found(self.service.get_opts(&key, options).await).map_err(failed("look at", name))
        })?;
        let Some(found) = result else { return Ok(ObjectText::Missing) };
        let text = found.attributes.get(&self.text_key()).map(|text| text.as_ref().to_owned());
        Ok(text.map_or(ObjectText::None, ObjectText::Some))
    }

    /// Returns the names of objects directly below a prefix that ends in `/`, in the order of their bytes,
    /// after the name `after_name`.
    ///
    /// # Errors
    /// The store does not answer.
    pub fn objects(&self, prefix: &str, after_name: Option<&str>) -> Result<Vec<String>, StoreError> {
        let folder = self.prefix(prefix)?;
        let after = after_name.map(|after| self.free_key(after)).transpose()?;
        let is_direct = |name: &str| name.strip_prefix(prefix).is_some_and(|rest| !rest.contains('/'));
        let names = self.names(&folder, after.as_ref().zip(after_name), is_direct);
        let mut names: Vec<String> =
            self.run("list", prefix, 0, async { names.try_collect().await.map_err(failed("list", prefix)) })?;
        names.sort_unstable();
        Ok(names)
    }
}
