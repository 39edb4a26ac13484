//! Sets of paths.

use std::fmt;

use super::model::{Parsed, Predicate, PrefixBinding, Step, Target};
use super::parse;

/// Paths that are matched together, in one pass.
#[derive(Debug)]
pub struct PathSet {
    pub(super) steps: Vec<Step>,
    pub(super) rules: Vec<Rule>,
    /// Number of `[1]` in all steps.
    pub(super) firsts: usize,
}

/// Why a path is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// Number of the path in its set, from 0.
    pub path: usize,
    /// Place of the fault in the path, in bytes from 1.
    pub byte: usize,
    /// What is wrong, and what is allowed.
    pub reason: String,
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at byte {} of the path", self.reason, self.byte)
    }
}

impl std::error::Error for PathError {}

impl PathSet {
    /// Compiles paths.
    ///
    /// # Errors
    /// The first path that is outside of the subset.
    pub fn new<'a>(
        paths: impl IntoIterator<Item = &'a str>,
        namespaces: &[PrefixBinding<'_>],
    ) -> Result<Self, PathError> {
        let mut set = Self { steps: Vec::new(), rules: Vec::new(), firsts: 0 };
        for (index, path) in paths.into_iter().enumerate() {
            if index == PATHS_MAX {
                let reason = format!("more than {PATHS_MAX} paths");
                return Err(PathError { path: index, byte: 1, reason });
            }
            let parsed = parse::path(path, namespaces);
            let parsed = parsed.map_err(|(at, reason)| PathError { path: index, byte: at + 1, reason })?;
            set.add(parsed);
        }
        Ok(set)
    }

    /// Returns the number of paths.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether there is no path.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns whether a path leads to elements, and not to an attribute or a comparison.
    pub fn finds_elements(&self, rule: usize) -> bool {
        matches!(self.rules.get(rule), Some(Rule { target: Target::Element, .. }))
    }

    fn add(&mut self, parsed: Parsed) {
        let (rule, first) = (self.rules.len(), self.steps.len());
        let count = parsed.steps.len();
        for (index, mut step) in parsed.steps.into_iter().enumerate() {
            step.rule = rule;
            step.is_last = index + 1 == count;
            for predicate in &mut step.predicates {
                if let Predicate::First(number) = predicate {
                    *number = self.firsts;
                    self.firsts += 1;
                }
            }
            self.steps.push(step);
        }
        self.rules.push(Rule { first, end: self.steps.len(), target: parsed.target });
    }
}

/// A path in a set.
#[derive(Debug)]
pub(super) struct Rule {
    /// Its steps.
    pub(super) first: usize,
    pub(super) end: usize,
    pub(super) target: Target,
}

/// Greatest number of paths in a set.
const PATHS_MAX: usize = 256;
