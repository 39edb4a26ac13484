//! Chooses the handler of a request by its head and by the first bytes of its content.
//!
//! The rules see a prefix of the content, the look-ahead. The choice depends on this prefix only, and not on
//! the pieces in which the content arrives. A condition about a value that is not in the prefix does not
//! hold.

mod json;
mod prefix;

use std::borrow::Cow;

use tollgate_http::RequestHead;

use crate::options::stream::FieldPath;
use crate::options::{ChosenHandler, ConditionSpec, RuleSpec, ValueTest, WhenSpec};
use json::{JsonError, JsonValues};
pub(crate) use prefix::Prefix;

/// The compiled rules of a route. `T` is what a rule chooses.
pub(crate) struct Choice<T> {
    pub(crate) look_ahead_bytes: usize,
    pub(crate) reads_content: bool,
    /// The JSON paths of all rules.
    paths: Vec<FieldPath>,
    rules: Vec<Rule<T>>,
    otherwise: T,
}

struct Rule<T> {
    conditions: Vec<Condition>,
    target: T,
}

enum Condition {
    Header {
        name: String,
        test: ValueTest,
    },
    /// The path is an index in `paths`.
    Json {
        path: usize,
        test: ValueTest,
    },
}

/// Reason why the content of a request decides nothing: it is malformed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChoiceError {
    #[error("malformed JSON: {0}")]
    Json(#[from] JsonError),
}

impl<T> Choice<T> {
    /// Compiles the rules. `target` creates what a rule chooses.
    ///
    /// # Errors
    /// The first error of `target`.
    pub(crate) fn new<E>(
        spec: &WhenSpec,
        mut target: impl FnMut(&ChosenHandler) -> Result<T, E>,
    ) -> Result<Self, E> {
        let mut paths = Vec::new();
        let rules = spec.rules.iter().map(|RuleSpec { conditions, handler }| {
            let conditions =
                conditions.iter().map(|condition| Condition::new(condition, &mut paths)).collect();
            Ok(Rule { conditions, target: target(handler)? })
        });
        let rules = rules.collect::<Result<_, E>>()?;
        Ok(Self {
            look_ahead_bytes: spec.look_ahead_bytes,
            reads_content: spec.reads_content(),
            paths,
            rules,
            otherwise: target(&spec.otherwise)?,
        })
    }

    /// Returns what the first rule that holds has chosen.
    ///
    /// # Errors
    /// The content is malformed within the look-ahead.
    pub(crate) fn choose(&self, head: &RequestHead, prefix: &Prefix<'_>) -> Result<&T, ChoiceError> {
        let values = match self.paths.as_slice() {
            [] => JsonValues::default(),
            paths if is_json(head, prefix.bytes) => JsonValues::find(paths, prefix)?,
            _ => JsonValues::default(),
        };
        let holds = |condition: &Condition| match condition {
            Condition::Header { name, test } => test.passes(field(head, name).as_deref()),
            Condition::Json { path, test } => test.passes(values.get(*path).map(str::as_bytes)),
        };
        let rule = self.rules.iter().find(|rule| rule.conditions.iter().all(holds));
        Ok(rule.map_or(&self.otherwise, |rule| &rule.target))
    }
}

impl Condition {
    fn new(spec: &ConditionSpec, paths: &mut Vec<FieldPath>) -> Self {
        match spec {
            ConditionSpec::Header { name, test } => Self::Header { name: name.clone(), test: test.clone() },
            ConditionSpec::Json { path, test } => {
                let known = paths.iter().position(|known| known == path);
                let at = known.unwrap_or_else(|| {
                    paths.push(path.clone());
                    paths.len() - 1
                });
                Self::Json { path: at, test: test.clone() }
            }
        }
    }
}

/// Returns the value of a header field. The lines of one field make one list (RFC 9110 section 5.2).
fn field<'a>(head: &'a RequestHead, name: &str) -> Option<Cow<'a, [u8]>> {
    let mut lines = head.values_of(name);
    let first = lines.next()?;
    let rest: Vec<&[u8]> = lines.collect();
    Some(match rest.as_slice() {
        [] => first.into(),
        rest => [&[first], rest].concat().join(&b", "[..]).into(),
    })
}

/// Returns whether content is read as JSON. The content type decides. Without one, the first byte decides.
fn is_json(head: &RequestHead, content: &[u8]) -> bool {
    match head.values_of("content-type").next() {
        Some(value) => {
            let essence = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            let essence = essence.to_ascii_lowercase();
            essence == b"application/json" || essence == b"text/json" || essence.ends_with(b"+json")
        }
        None => content.trim_ascii_start().first() == Some(&b'{'),
    }
}

#[cfg(test)]
mod tests;
