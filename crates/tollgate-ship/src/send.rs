//! Stores one segment. If the name already has an object, this code distinguishes a lost response from a
//! fork.
//!
//! | answer of the store | object in the store | result |
//! | --- | --- | --- |
//! | stored | | done |
//! | the name has an object | the same segment | done: an earlier response was lost, or the segment was asked for |
//! | the name has an object | another segment | a fork: two machines write one log |
//! | the name has an object | no object | S3 answers 409 while another write runs: the call is repeated at once |
//! | an error, or no answer | unknown | the caller repeats the call later |

use std::path::Path;

use crate::identity::SegmentIdentity;
use crate::store::{Created, ObjectHead, Store, StoreError};

/// Maximum number of tries if the store answers that the name has an object, and then that it has none.
const CONTRADICTIONS_MAX: u32 = 3;

/// Result of storing a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// This call stored the segment.
    Stored,
    /// The store had the segment already.
    Present,
    /// The store has a different segment with this name, because two machines write one log.
    Forked {
        /// Identity of that segment, or a description if the store has no identity of it.
        found: String,
    },
}

/// Stores a sealed segment.
///
/// # Errors
/// It is unknown whether the segment is stored. The caller may repeat the call at any time.
pub fn send_segment(
    store: &dyn Store,
    name: &str,
    file: &Path,
    identity: &SegmentIdentity,
) -> Result<Sent, StoreError> {
    for _ in 0..CONTRADICTIONS_MAX {
        match store.create(name, file, identity)? {
            Created::Stored => return Ok(Sent::Stored),
            Created::Exists => {
                if let Some(sent) = find_segment(store, name, identity)? {
                    return Ok(sent);
                }
            }
        }
    }
    Err(StoreError::Contradiction { name: name.to_owned() })
}

/// Returns whether the store has a segment, without sending the segment. `None`: the store has no segment
/// with this name.
///
/// # Errors
/// The store does not answer.
pub fn find_segment(
    store: &dyn Store,
    name: &str,
    identity: &SegmentIdentity,
) -> Result<Option<Sent>, StoreError> {
    Ok(store.head(name)?.map(|found| compare(&found, identity)))
}

fn compare(found: &ObjectHead, identity: &SegmentIdentity) -> Sent {
    match &found.identity {
        Some(same) if same == identity => Sent::Present,
        Some(other) => Sent::Forked { found: other.to_string() },
        None => Sent::Forked { found: format!("an object of {} bytes without an identity", found.bytes) },
    }
}
