//! A token file: `NAME:DIGEST` in each line. The digest is the SHA-256 of the token, so the file contains no
//! token.
//!
//! Tokens have 256 random bits. A digest without salt and cost is therefore enough: no list of likely tokens
//! exists.

use std::collections::HashMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tollgate_signature::{decode_hex, encode_hex};

use crate::identity::is_name;
use crate::lines::{LineFault, NamedLine, named_lines};

/// The beginning of new tokens, by which tools find a token in a place where it should not be.
const FRONT: &str = "tollgate_";
/// Random bytes of a new token.
const TOKEN_BYTES: usize = 32;

/// The names and digests of a token file.
#[derive(Clone)]
pub struct Tokens {
    /// The tokens by the first bytes of their digests. A client cannot choose these bytes, so the lookup does
    /// not help to guess a token.
    by_front: HashMap<[u8; 8], Vec<(String, [u8; 32])>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.by_front.len())
    }
}

impl Tokens {
    /// Reads the text of a file. Several lines may have the same name, so that a token can be replaced
    /// without an interruption.
    ///
    /// # Errors
    /// The first line that is malformed or repeats a digest. A file without a token is refused too.
    pub fn parse(text: &str) -> Result<Self, LineFault> {
        let mut by_front: HashMap<_, Vec<(String, [u8; 32])>> = HashMap::new();
        for named in named_lines(text) {
            let named = named?;
            let digest = digest_of(&named)?;
            let same = by_front.entry(front(&digest)).or_default();
            if same.iter().any(|(_, known)| *known == digest) {
                return Err(named.fault("the digest is there twice: each token has one name"));
            }
            same.push((named.name.to_owned(), digest));
        }
        if by_front.is_empty() {
            let text = "the file has no token: write a line with \"tollgate auth token NAME\"";
            return Err(LineFault { line: 1, text: text.to_owned() });
        }
        Ok(Self { by_front })
    }

    /// Returns the name of a token. Returns `None` for an unknown token.
    pub fn name_of(&self, token: &str) -> Option<&str> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let same = self.by_front.get(&front(&digest))?;
        same.iter().find(|(_, known)| known.ct_eq(&digest).into()).map(|(name, _)| name.as_str())
    }
}

fn front(digest: &[u8; 32]) -> [u8; 8] {
    let mut front = [0; 8];
    front.copy_from_slice(&digest[..8]);
    front
}

fn digest_of(named: &NamedLine<'_>) -> Result<[u8; 32], LineFault> {
    let digest = decode_hex(named.rest.as_bytes()).and_then(|digest| digest.try_into().ok());
    let text = "the value is not a SHA-256 in 64 hexadecimal digits. Write the line with \"tollgate auth \
                token NAME\", and keep tokens out of the file";
    digest.ok_or_else(|| named.fault(text))
}

/// A new token, and its line for the file.
pub struct Token {
    /// The token, which only its owner gets.
    pub token: String,
    /// The line for the token file.
    pub line: String,
}

/// Makes a token. Returns `None` if the name is not allowed.
///
/// # Errors
/// The system gives no random bytes.
pub fn token_line(name: &str) -> Result<Option<Token>, getrandom::Error> {
    if !is_name(name) || name.contains(':') || name.starts_with('#') {
        return Ok(None);
    }
    let mut random = [0; TOKEN_BYTES];
    getrandom::fill(&mut random)?;
    let token = format!("{FRONT}{}", URL_SAFE_NO_PAD.encode(random));
    let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
    Ok(Some(Token { line: format!("{name}:{}", encode_hex(&digest)), token }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_by_its_digest_alone() {
        let [one, other, old] = ["ci", "bert", "ci"].map(|name| token_line(name).unwrap().unwrap());
        let tokens = Tokens::parse(&format!("# ci\n{}\n{}\n{}\n", one.line, other.line, old.line)).unwrap();
        for (token, expected) in [
            (one.token.as_str(), Some("ci")),
            (&other.token, Some("bert")),
            (&old.token, Some("ci")),
            (&one.token[1..], None),
            (&one.line[3..], None),
            ("", None),
        ] {
            assert_eq!(tokens.name_of(token), expected, "{token}");
        }
        // The SHA-256 of "abc", FIPS 180-2 appendix B.1, in both cases of hexadecimal digits.
        let digest = "BA7816BF8F01CFEA414140DE5DAE2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Tokens::parse(&format!("x:{digest}")).unwrap().name_of("abc"), Some("x"));
    }

    #[test]
    fn a_fault_names_its_line_and_shows_no_token() {
        let line = token_line("a").unwrap().unwrap().line;
        let check = |text: String, line, expected: &str| {
            let fault = Tokens::parse(&text).unwrap_err();
            assert!(fault.line == line && fault.text.contains(expected), "{fault}");
            assert!(!fault.text.contains("secret"), "{fault}");
        };
        check(format!("{line}\nb:tollgate_secret"), 2, "not a SHA-256");
        check(format!("{line}\nb:{}", "+f".repeat(32)), 2, "not a SHA-256");
        check(format!("{line}\nsecret"), 2, "no \":\"");
        check(format!("{line}\n{line}"), 2, "twice");
        check(String::new(), 1, "no token");
    }
}
