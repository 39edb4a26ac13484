//! One stored hash of a password: argon2id in its PHC form, or bcrypt.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use subtle::ConstantTimeEq;

/// Bounds on the cost of a hash. A file with a higher cost could stop the threads that check passwords.
const MEMORY_KIB_MAX: u32 = 1 << 18;
const PASSES_MAX: u32 = 16;
const LANES_MAX: u32 = 16;
const BCRYPT_COSTS: std::ops::RangeInclusive<u32> = 4..=14;

/// Bytes of a salt and of an output that are allowed.
const SALT_BYTES: std::ops::RangeInclusive<usize> = 8..=64;
const OUTPUT_BYTES: std::ops::RangeInclusive<usize> = 16..=64;

/// The costs of new hashes: 19 MiB and two passes, the first choice of OWASP's "Password Storage Cheat
/// Sheet".
const NEW_MEMORY_KIB: u32 = 19 << 10;
const NEW_PASSES: u32 = 2;
const NEW_SALT_BYTES: usize = 16;
const NEW_OUTPUT_BYTES: usize = 32;

/// A stored hash.
#[derive(Debug, Clone)]
pub(crate) enum StoredHash {
    Argon2id {
        params: Params,
        salt: Vec<u8>,
        output: Vec<u8>,
    },
    /// The hash in the form that the crate `bcrypt` reads.
    Bcrypt(String),
}

impl StoredHash {
    /// Reads a hash.
    ///
    /// # Errors
    /// The kind of the hash, or one of its parameters, is not allowed. The text has no part of the hash.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("$argon2id$") {
            return argon2id(rest);
        }
        if ["$2a$", "$2b$", "$2y$"].iter().any(|front| text.starts_with(front)) {
            return bcrypt(text);
        }
        Err(format!("{}: allowed are argon2id and bcrypt. {REMEDY}", other_kind(text)))
    }

    /// Returns whether a password has this hash. The call needs the time and memory that the hash says.
    pub(crate) fn is_of(&self, password: &str) -> bool {
        match self {
            Self::Argon2id { params, salt, output } => {
                let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
                let mut found = vec![0; output.len()];
                hasher.hash_password_into(password.as_bytes(), salt, &mut found).is_ok()
                    && bool::from(found.ct_eq(output))
            }
            Self::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
        }
    }
}

const REMEDY: &str = "Write the line anew with \"tollgate auth password NAME\"";

/// Names the kind of a hash that is refused.
fn other_kind(text: &str) -> &'static str {
    match text {
        "" => "the hash is empty",
        _ if text.starts_with("$argon2") => "the hash is argon2i or argon2d",
        _ if text.starts_with("$apr1$") => "the hash is MD5 (apr1)",
        _ if text.starts_with("$1$") => "the hash is MD5 (crypt)",
        _ if text.starts_with("$5$") || text.starts_with("$6$") => "the hash is SHA (crypt)",
        _ if text.starts_with("{SHA}") => "the hash is SHA-1",
        _ => "the password is a plain text or the hash is of an old kind",
    }
}

/// Reads `v=19$m=19456,t=2,p=1$SALT$OUTPUT`.
fn argon2id(text: &str) -> Result<StoredHash, String> {
    let malformed = || format!("the argon2id hash is malformed or has a version other than 19. {REMEDY}");
    let parts: Vec<_> = text.split('$').collect();
    let ["v=19", costs, salt, output] = parts[..] else { return Err(malformed()) };
    let [memory, passes, lanes] = costs_of(costs).ok_or_else(malformed)?;
    for (name, found, limit) in
        [("m", memory, MEMORY_KIB_MAX), ("t", passes, PASSES_MAX), ("p", lanes, LANES_MAX)]
    {
        if found > limit {
            return Err(format!("the cost {name} of argon2id exceeds limit: {found}, limit {limit}"));
        }
    }
    let bytes = |text: &str| STANDARD_NO_PAD.decode(text).map_err(|_| malformed());
    let (salt, output) = (bytes(salt)?, bytes(output)?);
    if !SALT_BYTES.contains(&salt.len()) || !OUTPUT_BYTES.contains(&output.len()) {
        return Err(malformed());
    }
    let params = Params::new(memory, passes, lanes, Some(output.len())).map_err(|_| malformed())?;
    Ok(StoredHash::Argon2id { params, salt, output })
}

fn costs_of(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split(',');
    let mut cost = |front: &str| parts.next()?.strip_prefix(front)?.parse().ok();
    let costs = [cost("m=")?, cost("t=")?, cost("p=")?];
    parts.next().is_none().then_some(costs)
}

fn bcrypt(text: &str) -> Result<StoredHash, String> {
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"./".contains(&byte);
    let parts = text[4..].split_once('$');
    let sound = parts.filter(|(cost, rest)| {
        cost.len() == 2
            && cost.bytes().all(|byte| byte.is_ascii_digit())
            && rest.len() == 53
            && rest.bytes().all(is_sound)
    });
    let Some((cost, _)) = sound else { return Err(format!("the bcrypt hash is malformed. {REMEDY}")) };
    let cost: u32 = cost.parse().unwrap_or(u32::MAX);
    if !BCRYPT_COSTS.contains(&cost) {
        let (least, most) = (BCRYPT_COSTS.start(), BCRYPT_COSTS.end());
        return Err(format!("the cost of bcrypt is {cost}, allowed is {least} to {most}. {REMEDY}"));
    }
    Ok(StoredHash::Bcrypt(text.to_owned()))
}

/// Returns a new argon2id hash of a password, with a random salt.
///
/// # Errors
/// The system gives no random bytes.
pub(crate) fn new_hash(password: &str) -> Result<String, getrandom::Error> {
    let mut salt = [0; NEW_SALT_BYTES];
    getrandom::fill(&mut salt)?;
    let mut output = [0; NEW_OUTPUT_BYTES];
    let params = Params::new(NEW_MEMORY_KIB, NEW_PASSES, 1, Some(NEW_OUTPUT_BYTES));
    let hashed = params.and_then(|params| {
        let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        hasher.hash_password_into(password.as_bytes(), &salt, &mut output)
    });
    // The costs are constants within the bounds of argon2, and a password is far below 4 GiB.
    debug_assert!(hashed.is_ok());
    let [salt, output] = [&salt[..], &output].map(|bytes| STANDARD_NO_PAD.encode(bytes));
    Ok(format!("$argon2id$v=19$m={NEW_MEMORY_KIB},t={NEW_PASSES},p=1${salt}${output}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash of "password" with salt "somesalt", from the test suite of the reference implementation of
    /// argon2 (phc-winner-argon2, `src/test.c`: version 0x13, t = 2, m = 8, p = 1, argon2id with 256 KiB).
    const REFERENCE: &str =
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

    #[test]
    fn hashes_of_other_programs_are_verified() {
        let argon2 = StoredHash::parse(REFERENCE).unwrap();
        assert!(argon2.is_of("password") && !argon2.is_of("Password") && !argon2.is_of(""));
        // A vector of the crypt_blowfish test suite by Solar Designer.
        let bcrypt = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
        let bcrypt = StoredHash::parse(bcrypt).unwrap();
        assert!(bcrypt.is_of("U*U") && !bcrypt.is_of("U*V"));
    }

    #[test]
    fn a_new_hash_is_read_and_has_another_salt_each_time() {
        let (one, other) = (new_hash("open sesame").unwrap(), new_hash("open sesame").unwrap());
        assert_ne!(one, other);
        assert!(StoredHash::parse(&one).unwrap().is_of("open sesame"));
        assert!(!StoredHash::parse(&other).unwrap().is_of("open sesam"));
    }

    #[test]
    fn other_hashes_are_refused_without_showing_them() {
        let check = |text: &str, expected: &str| {
            let found = StoredHash::parse(text).unwrap_err();
            assert!(found.contains(expected), "{text}: {found}");
            assert!(text.len() < 8 || !found.contains(&text[text.len() - 8..]), "{found}");
        };
        check("hunter2secret", "plain text");
        check("$apr1$zO4ql.Vz$Y7WHw6uhDnkNKpQzBTYHz1", "MD5 (apr1)");
        check("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "SHA-1");
        check("$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjlO", "SHA (crypt)");
        check(
            "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$/U3YPXYsSb3q9XxHvc0MLxur+GP960kN9j7emXX8zwY",
            "argon2i",
        );
        check(
            "$argon2id$v=16$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "version",
        );
        check(
            "$argon2id$v=19$m=999999,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR",
            "m of argon2id exceeds limit: 999999",
        );
        check("$argon2id$v=19$m=256,t=2$c29tZXNhbHQ$nf65EOgLrQMR", "malformed");
        check("$2y$31$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "cost of bcrypt is 31");
        check("$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4", "malformed");
        check("", "empty");
    }
}
