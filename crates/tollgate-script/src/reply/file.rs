//! `file` of a reply: a file, or a slice of a file, that the server opens and sends. This module opens no
//! files.

use tollgate_http::is_field_value;

use super::headers::HeaderLine;
use super::reader::{Result, key_text, reply};
use crate::error::shown;
use crate::nearest::hint;
use crate::sys::raw::RawValue;

/// A file as the content of a reply. Validators, conditions and ranges work as for static files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplyFile {
    /// Path below the folder that the route names. A leading slash is ignored. An empty path names the
    /// folder, so no file is found.
    pub path: String,
    /// Media type. `None` derives it from the name of the file.
    pub content_type: Option<String>,
    /// Offset of the content in the file, in bytes.
    pub offset: u64,
    /// Length of the content in bytes. `None` means up to the end of the file. The content never extends
    /// beyond that end.
    pub length: Option<u64>,
    /// Name under which a browser saves the file. `None` shows the file in the browser.
    pub download_name: Option<String>,
}

impl ReplyFile {
    /// Returns whether the content is less than the whole file.
    pub fn is_slice(&self) -> bool {
        self.offset > 0 || self.length.is_some()
    }

    /// Moves the content type from the headers to this value, and refuses headers that the file itself
    /// determines.
    pub(super) fn take_type(&mut self, headers: &mut Vec<HeaderLine>) -> Result<()> {
        let is = |name: &str, known: &[&str]| known.iter().any(|known| name.eq_ignore_ascii_case(known));
        if let Some((name, _)) = headers.iter().find(|(name, _)| is(name, &OWN_FIELDS)) {
            return Err(reply(format!("reply.headers has \"{name}\", which the server sets from the file")));
        }
        if let Some(at) = headers.iter().position(|(name, _)| is(name, &["content-type"])) {
            let (_, value) = headers.remove(at);
            let value = String::from_utf8_lossy(&value).into_owned();
            self.content_type.get_or_insert(value);
        }
        if self.download_name.is_some() && headers.iter().any(|(name, _)| is(name, &["content-disposition"]))
        {
            return Err(reply("reply has both file.download_name and a header content-disposition"));
        }
        Ok(())
    }
}

/// Reads a path, or a table that has a path.
pub(super) fn sent_file(value: RawValue<'_>) -> Result<ReplyFile> {
    let mut file = ReplyFile::default();
    match value {
        RawValue::Text(path) => file.path = path_of("reply.file", path)?,
        RawValue::Table(table) => {
            let mut has_path = false;
            table.each(|key, value| {
                has_path |= matches!(key, RawValue::Text(b"path"));
                put(&mut file, &key, value)
            })?;
            if !has_path {
                return Err(reply("reply.file has no path: allowed is a path in the folder of file_dir"));
            }
        }
        other => {
            return Err(reply(format!("reply.file is a {}: allowed are a string, a table", other.kind())));
        }
    }
    Ok(file)
}

fn put(file: &mut ReplyFile, key: &RawValue<'_>, value: RawValue<'_>) -> Result<()> {
    let name = key_text(key);
    let what = format!("reply.file.{name}");
    match name.as_str() {
        "path" => file.path = path_of(&what, text(&what, value)?)?,
        "type" => file.content_type = Some(field_text(&what, value)?),
        "offset" => file.offset = count(&what, value)?,
        "length" => file.length = Some(count(&what, value)?),
        "download_name" => file.download_name = Some(field_text(&what, value)?),
        _ => {
            let hint = hint(&name, FIELDS);
            let allowed = FIELDS.join(", ");
            return Err(reply(format!(
                "reply.file has an unknown field \"{name}\"{hint}: allowed are {allowed}"
            )));
        }
    }
    Ok(())
}

fn path_of(what: &str, path: &[u8]) -> Result<String> {
    match std::str::from_utf8(path) {
        Ok(path) => Ok(path.to_owned()),
        Err(_) => Err(reply(format!("{what} is \"{}\": allowed is UTF-8", shown(path)))),
    }
}

fn text<'a>(what: &str, value: RawValue<'a>) -> Result<&'a [u8]> {
    match value {
        RawValue::Text(text) => Ok(text),
        other => Err(reply(format!("{what} is a {}: allowed is a string", other.kind()))),
    }
}

fn field_text(what: &str, value: RawValue<'_>) -> Result<String> {
    let bytes = text(what, value)?;
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && is_field_value(bytes) => Ok(text.to_owned()),
        _ => Err(reply(format!(
            "{what} is \"{}\": allowed is UTF-8 without line breaks and NUL",
            shown(bytes)
        ))),
    }
}

fn count(what: &str, value: RawValue<'_>) -> Result<u64> {
    let found = match value {
        RawValue::Integer(number) => match u64::try_from(number) {
            Ok(number) => return Ok(number),
            Err(_) => number.to_string(),
        },
        RawValue::Number(number) => number.to_string(),
        other => format!("a {}", other.kind()),
    };
    Err(reply(format!("{what} is {found}: allowed is a whole number of bytes from 0")))
}

const FIELDS: [&str; 5] = ["path", "type", "offset", "length", "download_name"];
/// Header fields that the sent file determines.
const OWN_FIELDS: [&str; 4] = ["accept-ranges", "content-range", "etag", "last-modified"];
