//! Digest preferences of a client (RFC 9530 section 4).

use crate::RequestHead;
use crate::conditional::values;
use crate::structured::integers;

/// An algorithm of digest fields that is not deprecated (RFC 9530 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DigestAlgorithm {
    /// SHA-256: 32 bytes.
    Sha256,
    /// SHA-512: 64 bytes.
    Sha512,
}

impl DigestAlgorithm {
    /// All algorithms. If preferences are equal, the first algorithm in this list is used.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// Returns the key of the algorithm in digest fields.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha-256",
            Self::Sha512 => "sha-512",
        }
    }
}

/// Returns the algorithm that the client prefers. `None` if the client wants no algorithm that the server
/// has.
///
/// `name` is `Want-Repr-Digest` or `Want-Content-Digest`. A preference is an integer from 1 to 10. 0 or any
/// other value means no preference. All lines form one dictionary, and the last value of a repeated key
/// counts (RFC 9651 section 4.2.2).
pub fn wanted_digest(head: &RequestHead, name: &str) -> Option<DigestAlgorithm> {
    let text = values(head, name).collect::<Vec<_>>().join(&b", "[..]);
    let members = integers(&text)?;
    let preference = |algorithm: DigestAlgorithm| {
        let last = members.iter().rev().find(|(key, _)| *key == algorithm.name().as_bytes())?;
        last.1.filter(|preference| (1..=10).contains(preference))
    };
    let wanted = DigestAlgorithm::ALL.into_iter().filter_map(|one| Some((preference(one)?, one)));
    wanted.rev().max_by_key(|(preference, _)| *preference).map(|(_, algorithm)| algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeadReader, Limits};

    #[test]
    fn the_digest_that_the_client_likes_most_and_none_that_nobody_knows() {
        use DigestAlgorithm::{Sha256, Sha512};
        let check = |lines: &[&str], expected: Option<DigestAlgorithm>| {
            let fields: String = lines.iter().map(|line| format!("Want-Repr-Digest: {line}\r\n")).collect();
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let head = HeadReader::default().read(&mut text.as_bytes().into(), &Limits::default());
            assert_eq!(wanted_digest(&head.unwrap().unwrap(), "want-repr-digest"), expected, "{lines:?}");
        };
        check(&[], None);
        check(&[""], None);
        check(&["sha-256=1"], Some(Sha256));
        check(&["sha-512=3, sha-256=10, unixsum=0"], Some(Sha256));
        check(&["sha-512=3, sha-256=2"], Some(Sha512));
        check(&["sha-512=10, sha-256=10"], Some(Sha256));
        check(&["sha-512=1", "sha-256=0"], Some(Sha512));
        check(&["sha-256=0"], None);
        check(&["sha-256=9, sha-256=0"], None);
        check(&["sha-256=11"], None);
        check(&["sha-256=-1"], None);
        check(&["sha-256"], None);
        check(&["sha-256=1.0"], None);
        check(&["md5=10, sha=5, unixsum=3, crc32c=1"], None);
        check(&["sha-256=10;x=1, sha-512=5"], Some(Sha256));
        check(&["sha-256=10,"], None);
        check(&["SHA-256=10"], None);
        check(&["sha-256=\"10\""], None);
    }
}
