//! A password file: `NAME:HASH` in each line, as htpasswd writes it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::identity::is_name;
use crate::lines::{LineFault, named_lines};
use crate::stored_hash::{StoredHash, new_hash};

/// The names and hashes of a password file.
#[derive(Clone)]
pub struct Passwords {
    stored: HashMap<String, Stored>,
    /// The hash that an unknown name is compared with.
    decoy: StoredHash,
}

#[derive(Clone)]
struct Stored {
    hash: StoredHash,
    /// The hash as the file has it. It names the entry in [`Remembered`](crate::Remembered).
    text: String,
}

impl std::fmt::Debug for Passwords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Passwords({})", self.stored.len())
    }
}

impl Passwords {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The first line that is malformed, has a hash of another kind, or repeats a name. A file without a name
    /// is refused too.
    pub fn parse(text: &str) -> Result<Self, LineFault> {
        let mut stored = HashMap::new();
        let mut decoy = None;
        for named in named_lines(text) {
            let named = named?;
            let hash = StoredHash::parse(named.rest).map_err(|text| named.fault(text))?;
            decoy.get_or_insert_with(|| hash.clone());
            match stored.entry(named.name.to_owned()) {
                Entry::Occupied(_) => return Err(named.fault(format!("{:?} is there twice", named.name))),
                Entry::Vacant(place) => place.insert(Stored { hash, text: named.rest.to_owned() }),
            };
        }
        let empty = "the file has no name: write a line with \"tollgate auth password NAME\"";
        let decoy = decoy.ok_or_else(|| LineFault { line: 1, text: empty.to_owned() })?;
        Ok(Self { stored, decoy })
    }

    /// Returns the hash of a name, as the file has it.
    pub(crate) fn stored_text(&self, name: &str) -> Option<&str> {
        self.stored.get(name).map(|stored| stored.text.as_str())
    }

    /// Returns whether the password belongs to the name. The call needs tens of milliseconds and some MiB of
    /// memory, so a worker must not make it.
    ///
    /// For an unknown name, the password is compared with the first hash of the file. The time therefore does
    /// not show whether a name exists, if the hashes of the file have the same costs.
    pub fn is_right(&self, name: &str, password: &str) -> bool {
        let stored = self.stored.get(name);
        let is_right = stored.map_or(&self.decoy, |stored| &stored.hash).is_of(password);
        is_right && stored.is_some()
    }
}

/// Returns a line for a password file. Returns `None` if the name is not allowed.
///
/// # Errors
/// The system gives no random bytes.
pub fn password_line(name: &str, password: &str) -> Result<Option<String>, getrandom::Error> {
    if !is_name(name) || name.contains(':') || name.starts_with('#') {
        return Ok(None);
    }
    new_hash(password).map(|hash| Some(format!("{name}:{hash}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of "U*U". The cost is the lowest of bcrypt that the vectors of crypt_blowfish have.
    const U: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

    #[test]
    fn a_name_has_its_own_password() {
        let line = password_line("anna", "secret").unwrap().unwrap();
        let passwords = Passwords::parse(&format!("# staff\n\n{line}\r\n  bert:{U}\n")).unwrap();
        for (name, password, expected) in [
            ("anna", "secret", true),
            ("anna", "U*U", false),
            ("bert", "U*U", true),
            ("bert", "secret", false),
            // The first hash of the file is the decoy: its password must not open an unknown name.
            ("carl", "secret", false),
            ("", "secret", false),
        ] {
            assert_eq!(passwords.is_right(name, password), expected, "{name} {password}");
        }
    }

    #[test]
    fn a_fault_names_its_line() {
        let check = |text: String, line, expected: &str| {
            let fault = Passwords::parse(&text).unwrap_err();
            assert_eq!(fault.line, line, "{text:?}: {fault}");
            assert!(fault.text.contains(expected), "{fault}");
        };
        check(format!("a:{U}\nb"), 2, "no \":\"");
        check(format!("a:{U}\n\n# x\nb:plain"), 4, "tollgate auth password");
        check(format!("a:{U}\na:{U}"), 2, "\"a\" is there twice");
        check(format!(":{U}"), 1, "name");
        check("# empty\n".to_owned(), 1, "no name");
    }

    #[test]
    fn a_name_that_would_break_the_line_is_refused() {
        for name in ["", "a:b", "#a", "a\nb"] {
            assert_eq!(password_line(name, "x").unwrap(), None, "{name:?}");
        }
    }
}
