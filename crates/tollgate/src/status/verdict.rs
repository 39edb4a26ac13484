//! What the findings of a status mean as a whole.

use serde_json::Value;

/// The state of a server in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Well,
    Warnings,
    NotReady,
}

impl Verdict {
    /// Reads the verdict from a status. A status without the fields is of a server that is not ready.
    pub(super) fn of(document: &Value) -> Self {
        match (document["ready"].as_bool(), document["warnings"].as_array()) {
            (Some(true), Some(warnings)) if warnings.is_empty() => Self::Well,
            (Some(true), _) => Self::Warnings,
            _ => Self::NotReady,
        }
    }

    /// Returns the words at the beginning of the screen.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Well => "ALL WELL",
            Self::Warnings => "READY, WITH WARNINGS",
            Self::NotReady => "NOT READY",
        }
    }

    /// Returns the exit code of `status --exit-code`.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::Warnings => 1,
            Self::NotReady => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_well_only_if_it_is_ready_and_has_no_warning() {
        let check = |document: Value, expected: (&str, u8)| {
            let verdict = Verdict::of(&document);
            assert_eq!((verdict.name(), verdict.code()), expected, "{document}");
        };
        check(json!({ "ready": true, "warnings": [] }), ("ALL WELL", 0));
        check(json!({ "ready": true, "warnings": [{}] }), ("READY, WITH WARNINGS", 1));
        check(json!({ "ready": true }), ("READY, WITH WARNINGS", 1));
        check(json!({ "ready": false, "warnings": [] }), ("NOT READY", 2));
        check(json!({}), ("NOT READY", 2));
    }
}
