//! What the server says itself in replies of a proxied route.

use crate::reply::{REQUEST_ID, is_policy_field};

/// What the server says itself in replies of a route, and no backend for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnWord {
    /// What became of the record, in fields `Tollgate-*`: not where the route leaves none, and the backend
    /// may be the one to record.
    pub(crate) of_records: bool,
    /// The id of the request.
    pub(crate) of_ids: bool,
    /// What pages of other origins may do, in fields `Access-Control-*`.
    pub(crate) of_policy: bool,
}

impl OwnWord {
    pub(super) fn is_that(self, field_name: &[u8]) -> bool {
        let front = field_name.get(..OWN_PREFIX.len());
        let is_verdict = front.is_some_and(|front| front.eq_ignore_ascii_case(OWN_PREFIX));
        (self.of_records && is_verdict)
            || (self.of_ids && field_name.eq_ignore_ascii_case(REQUEST_ID.as_bytes()))
            || (self.of_policy && is_policy_field(field_name))
    }
}

const OWN_PREFIX: &[u8] = b"Tollgate-";
