//! Findings of one moment, and their order.

use serde_json::{Value, json};

use super::code::{Code, Severity};

/// A fault of the running server, with its code and its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) code: Code,
    /// The value found, and the limit.
    pub(crate) text: String,
}

impl Finding {
    pub(crate) fn json(&self) -> Value {
        json!({ "code": self.code.name(), "text": self.text, "advice": self.code.advice() })
    }
}

/// All findings, the most severe first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Health(pub(crate) Vec<Finding>);

impl Health {
    /// Returns whether requests should be sent to this server.
    pub(crate) fn is_ready(&self) -> bool {
        self.of(Severity::Reason).next().is_none()
    }

    pub(crate) fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.0.iter().filter(move |finding| finding.code.severity() == severity)
    }

    pub(crate) fn has(&self, code: Code) -> bool {
        self.0.iter().any(|finding| finding.code == code)
    }

    pub(super) fn add(&mut self, code: Code, text: impl Into<String>) {
        self.0.push(Finding { code, text: text.into() });
    }

    /// Adds findings, each with its text.
    pub(super) fn add_all(&mut self, findings: impl IntoIterator<Item = (Code, String)>) {
        self.0.extend(findings.into_iter().map(|(code, text)| Finding { code, text }));
    }

    /// Puts the most severe findings first.
    pub(super) fn sort(&mut self) {
        self.0.sort_by_key(|finding| finding.code.severity());
    }
}
