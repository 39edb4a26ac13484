//! Chooses the handler of a request by its head and by the first bytes of its content.
//!
//! The rules see a prefix of the content, the look-ahead. The choice depends on this prefix only, and not on
//! the pieces in which the content arrives. A condition about a value that is not in the prefix does not
//! hold.

mod json;
mod kind;
mod prefix;
mod xml;

use std::borrow::Cow;
use std::rc::Rc;

use tollgate_http::RequestHead;
use tollgate_script::RouteChoice;
use tollgate_xml::{Doctype, XmlError};

use crate::options::stream::FieldPath;
use crate::options::{ChosenHandler, ConditionSpec, RuleSpec, ValueTest, WhenSpec, XmlPaths};
use json::{JsonError, JsonValues};
use kind::ContentKind;
pub(crate) use prefix::Prefix;
use xml::Found;
pub(crate) use xml::XmlValues;

/// The compiled rules of a route. `T` is what a rule chooses.
pub(crate) struct Choice<T> {
    /// Number of bytes of the content that the rules read. 0: they read only the head.
    pub(crate) look_ahead_bytes: usize,
    /// The JSON paths of all rules.
    json_paths: Vec<FieldPath>,
    xml_paths: XmlPaths,
    /// The values that records keep.
    values: XmlValues,
    doctype: Doctype,
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
    /// The path is an index in `json_paths`.
    Json {
        path: usize,
        test: ValueTest,
    },
    /// The path is an index in `xml_paths`.
    Xml(usize),
}

/// Reason why the content of a request decides nothing: it is malformed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChoiceError {
    #[error("malformed JSON: {0}")]
    Json(#[from] JsonError),
    #[error("malformed XML: {0}")]
    Xml(#[from] XmlError),
}

impl<T> Choice<T> {
    /// Compiles the rules. `values` are the paths of values that records keep. `doctype` is what is done with
    /// a document type declaration. `target` creates what a rule chooses.
    ///
    /// # Errors
    /// The first error of `target`.
    pub(crate) fn new<E>(
        spec: &WhenSpec,
        values: XmlValues,
        doctype: Doctype,
        mut target: impl FnMut(&ChosenHandler) -> Result<T, E>,
    ) -> Result<Self, E> {
        let mut paths = Vec::new();
        let rules = spec.rules.iter().map(|RuleSpec { conditions, handler }| {
            let conditions =
                conditions.iter().map(|condition| Condition::new(condition, &mut paths)).collect();
            Ok(Rule { conditions, target: target(handler)? })
        });
        let rules = rules.collect::<Result<_, E>>()?;
        let reads_content = spec.reads_content() || !values.paths.is_empty();
        Ok(Self {
            look_ahead_bytes: if reads_content { spec.look_ahead_bytes } else { 0 },
            json_paths: paths,
            xml_paths: spec.xml_paths.clone(),
            values,
            doctype,
            rules,
            otherwise: target(&spec.otherwise)?,
        })
    }

    /// Returns whether the rules read the content.
    pub(crate) fn reads_content(&self) -> bool {
        self.look_ahead_bytes > 0
    }

    /// Returns what the first rule that holds has chosen, and what was found.
    ///
    /// # Errors
    /// The content is malformed within the look-ahead.
    pub(crate) fn choose(
        &self,
        head: &RequestHead,
        prefix: &Prefix<'_>,
    ) -> Result<(&T, RouteChoice), ChoiceError> {
        let (mut values, mut found) = (JsonValues::default(), Found::default());
        let kind =
            if self.reads_content() { ContentKind::of(head, prefix.bytes) } else { ContentKind::Other };
        match kind {
            ContentKind::Json if !self.json_paths.is_empty() => {
                values = JsonValues::find(&self.json_paths, prefix)?;
            }
            ContentKind::Xml if !self.xml_paths.0.is_empty() || !self.values.paths.is_empty() => {
                found = xml::find(&self.xml_paths.0, &self.values.set, self.doctype, prefix)?;
            }
            ContentKind::Json | ContentKind::Xml | ContentKind::Other => {}
        }
        let holds = |condition: &Condition| match condition {
            Condition::Header { name, test } => test.passes(field(head, name).as_deref()),
            Condition::Json { path, test } => test.passes(values.get(*path).map(str::as_bytes)),
            Condition::Xml(path) => found.conditions.get(*path).is_some_and(|found| *found),
        };
        let rule = self.rules.iter().position(|rule| rule.conditions.iter().all(holds));
        let target = rule.map_or(&self.otherwise, |rule| &self.rules[rule].target);
        let paths = Rc::clone(&self.values.paths);
        Ok((target, RouteChoice { rule: rule.map(|rule| rule + 1), paths, values: found.values }))
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
            ConditionSpec::Xml { path, .. } => Self::Xml(*path),
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

#[cfg(test)]
mod tests;
