//! The text of a configuration file, and the TOML in it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

use super::denied::DENIED;
use super::fault::{ConfigError, Fault, Faults};

/// Reads `file`. `what` is its name in faults.
///
/// # Errors
/// The file cannot be read, or is not UTF-8 (TOML 1.0).
pub(super) fn read(file: &Path, what: &str) -> Result<String, ConfigError> {
    let bytes = fs::read(file).map_err(|error| {
        let text = match error.kind() {
            ErrorKind::PermissionDenied => DENIED.to_owned(),
            _ => format!("cannot read {what}: {error}"),
        };
        Fault::of_file(file, text)
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let (bytes, good) = (error.as_bytes(), error.utf8_error().valid_up_to());
        let before = String::from_utf8_lossy(&bytes[..good]);
        let faults = Faults::new(file, &before);
        faults.add(&(good..good), format!("byte {:#04x} is not UTF-8: {what} must be UTF-8", bytes[good]));
        faults.into_error()
    })
}

/// Parses a text as TOML. If it is not TOML, adds a fault with the reason and returns `None`.
pub(super) fn parse<'t>(text: &'t str, faults: &Faults<'_>) -> Option<Spanned<DeTable<'t>>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        faults.add(&error.span().unwrap_or_default(), error.message());
    }
    errors.iter().all(|error| error.message() == "duplicate key").then_some(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_no_utf8_is_told_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tollgate.toml");
        let read_text = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            read(&file, "the app").map_err(|error| error.to_string())
        };
        let fault = |place, byte| {
            let name = file.display();
            Err(format!("{name}:{place}: byte {byte} is not UTF-8: the app must be UTF-8"))
        };
        assert_eq!(read_text("a = 'ü'".as_bytes()), Ok("a = 'ü'".to_owned()));
        assert_eq!(read_text(b"a = 1\n'\xc3\xbc' \xe9"), fault("2:5", "0xe9"));
        assert_eq!(read_text(b"a = '\xe2\x82"), fault("1:6", "0xe2"));
    }
}
