//! Fields that the server writes itself in replies of a proxied route.

use crate::reply::{REQUEST_ID, is_policy_field};

/// Selects the fields that the server writes itself. The same fields of the backend are removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnWord {
    /// Whether the server writes the fields `Tollgate-*` about the record. False if the route leaves no
    /// record, because the backend may then be the server that records.
    pub(crate) of_records: bool,
    /// Whether the server writes the field with the request id.
    pub(crate) of_ids: bool,
    /// Whether the server writes the fields `Access-Control-*` for pages of other origins.
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
