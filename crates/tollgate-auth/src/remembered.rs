//! Remembers names and passwords that were right a short time ago, so that each request of a client does not
//! cost a password hash.
//!
//! Only a keyed digest of name, password and stored hash is kept. The key is random and never leaves the
//! process. A changed hash in the file has another digest, so a password that was replaced is forgotten at
//! once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::passwords::Passwords;

type Digest = [u8; 32];

/// Maximum number of remembered pairs. Each needs about 64 bytes.
const PAIRS_MAX: usize = 16_384;

/// Pairs of names and passwords that were right, each until its time is over.
#[derive(Debug)]
pub struct Remembered {
    key: [u8; 32],
    keep: Duration,
    pairs: Mutex<HashMap<Digest, Instant>>,
}

impl Remembered {
    /// Creates an empty memory, which keeps each pair for `keep`.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new(keep: Duration) -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self { key, keep, pairs: Mutex::default() })
    }

    /// Returns whether the pair was right within the time.
    pub fn has(&self, passwords: &Passwords, name: &str, password: &str, now: Instant) -> bool {
        let Some(digest) = self.digest(passwords, name, password) else { return false };
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.get(&digest).is_some_and(|until| now < *until)
    }

    /// Remembers a pair that is right.
    pub fn add(&self, passwords: &Passwords, name: &str, password: &str, now: Instant) {
        let Some(digest) = self.digest(passwords, name, password) else { return };
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        if pairs.len() >= PAIRS_MAX {
            pairs.retain(|_, until| now < *until);
        }
        if pairs.len() < PAIRS_MAX {
            pairs.insert(digest, now + self.keep);
        }
    }

    /// Returns the digest of a pair. Returns `None` for an unknown name.
    fn digest(&self, passwords: &Passwords, name: &str, password: &str) -> Option<Digest> {
        let stored = passwords.stored_text(name)?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        for part in [name, stored, password] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part.as_bytes());
        }
        Some(mac.finalize().into_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(60);

    fn file(salt: &str) -> Passwords {
        Passwords::parse(&format!("anna:$2a$05${salt}CCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"))
            .unwrap()
    }

    #[test]
    fn a_pair_is_remembered_for_its_time_and_no_other_pair_is() {
        let (remembered, passwords, now) = (Remembered::new(KEEP).unwrap(), file("C"), Instant::now());
        assert!(!remembered.has(&passwords, "anna", "U*U", now));
        remembered.add(&passwords, "anna", "U*U", now);
        assert!(remembered.has(&passwords, "anna", "U*U", now + KEEP - Duration::from_millis(1)));
        assert!(!remembered.has(&passwords, "anna", "U*U", now + KEEP));
        assert!(!remembered.has(&passwords, "anna", "U*V", now));
        assert!(!remembered.has(&passwords, "bert", "U*U", now));
    }

    #[test]
    fn a_pair_is_forgotten_when_its_hash_changes() {
        let (remembered, now) = (Remembered::new(KEEP).unwrap(), Instant::now());
        remembered.add(&file("C"), "anna", "U*U", now);
        assert!(!remembered.has(&file("D"), "anna", "U*U", now));
    }

    #[test]
    fn the_memory_is_bounded_and_makes_room_for_new_pairs() {
        let (remembered, passwords, now) = (Remembered::new(KEEP).unwrap(), file("C"), Instant::now());
        for pair in 0..=PAIRS_MAX {
            remembered.add(&passwords, "anna", &pair.to_string(), now);
        }
        assert_eq!(remembered.pairs.lock().unwrap().len(), PAIRS_MAX);
        remembered.add(&passwords, "anna", "new", now + KEEP);
        assert!(remembered.has(&passwords, "anna", "new", now + KEEP));
        assert_eq!(remembered.pairs.lock().unwrap().len(), 1);
    }
}
