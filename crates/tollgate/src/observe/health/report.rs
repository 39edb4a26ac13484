//! The answer of `/readyz`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::code::Severity;
use super::finding::{Finding, Health};

/// Returns the answer of `/readyz` as text for people.
pub(crate) fn text_of(health: &Health) -> String {
    let mut text = if health.is_ready() { "ready\n".to_owned() } else { "not ready\n".to_owned() };
    for finding in &health.0 {
        let kind = match finding.code.severity() {
            Severity::Reason => "reason",
            Severity::Warning => "warning",
        };
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "{kind}: {}: {} ({})", finding.code.name(), finding.text, finding.code.advice());
    }
    text
}

/// Returns the answer of `/readyz` as JSON.
pub(crate) fn json_of(health: &Health) -> Value {
    let findings = |severity| health.of(severity).map(Finding::json).collect::<Vec<_>>();
    json!({
        "ready": health.is_ready(),
        "reasons": findings(Severity::Reason),
        "warnings": findings(Severity::Warning),
    })
}
