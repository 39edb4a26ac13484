//! Matches a set of paths in one pass.
//!
//! Each open element has the set of steps that its children may take. Memory is the depth of the document
//! times the number of steps, in bits.

use super::model::{AttributeTest, NameTest, Predicate, Step, Target};
use super::set::PathSet;
use crate::attributes::Attributes;
use crate::name::Name;

/// The state of a document that is matched. The caller passes the same set to each call.
#[derive(Debug)]
pub struct PathMatcher {
    /// The steps of each open element, and of the document first, as bits.
    steps: Vec<u64>,
    /// The `[1]` of which the first element was found, in the same order.
    found_firsts: Vec<u64>,
    step_words: usize,
    first_words: usize,
    depth: usize,
    /// Number of the innermost open elements below which no step leads. They have no place in `steps` and
    /// `found_firsts`.
    dead_depth: usize,
    /// Whether the root element has begun. A document has no second one.
    has_root: bool,
    open: Vec<OpenMatch>,
}

/// An element that a path leads to, while it is open.
#[derive(Debug)]
struct OpenMatch {
    rule: usize,
    depth: usize,
    /// For a comparison of its text: number of bytes that are equal so far, or `None` if one differed.
    equal_bytes: Option<usize>,
}

/// What a path found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// An element begins.
    Element,
    /// The value of an attribute.
    Attribute(&'a str),
    /// A comparison is true.
    True,
    /// An element ends that was reported.
    End,
}

impl PathMatcher {
    /// Creates the state at the start of a document.
    pub fn new(set: &PathSet) -> Self {
        let step_words = set.steps.len().div_ceil(64);
        let first_words = set.firsts.div_ceil(64);
        let mut steps = vec![0; step_words];
        set.rules.iter().for_each(|rule| insert(&mut steps, rule.first));
        Self {
            steps,
            found_firsts: vec![0; first_words],
            step_words,
            first_words,
            depth: 0,
            dead_depth: 0,
            has_root: false,
            open: Vec::new(),
        }
    }

    /// Returns the number of open elements.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns whether no path may find anything in the content of the innermost open element, and no
    /// comparison needs its text.
    pub fn is_over(&self, set: &PathSet) -> bool {
        let innermost = self.steps.len() - self.step_words;
        let compares = |open: &OpenMatch| matches!(set.rules[open.rule].target, Target::Text(_));
        self.steps[innermost..].iter().all(|&bits| bits == 0) && !self.open.iter().any(compares)
    }

    /// Begins an element, and reports what the paths find there.
    pub fn start(
        &mut self,
        set: &PathSet,
        name: Name<'_>,
        attributes: &Attributes<'_>,
        mut report: impl FnMut(usize, Found<'_>),
    ) {
        self.depth += 1;
        self.has_root = true;
        let parent = self.steps.len() - self.step_words;
        if self.steps[parent..].iter().all(|&bits| bits == 0) {
            self.dead_depth += 1;
            return;
        }
        self.steps.resize(self.steps.len() + self.step_words, 0);
        let parent_firsts = self.found_firsts.len() - self.first_words;
        self.found_firsts.resize(self.found_firsts.len() + self.first_words, 0);
        let (steps, own) = self.steps.split_at_mut(parent + self.step_words);
        for word in 0..self.step_words {
            let mut bits = steps[parent + word];
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let step = &set.steps[index];
                if step.is_descendant {
                    insert(own, index);
                }
                let firsts = &mut self.found_firsts[parent_firsts..parent_firsts + self.first_words];
                if !step.matches(name, attributes, firsts) {
                    continue;
                }
                if !step.is_last {
                    insert(own, index + 1);
                    continue;
                }
                match &set.rules[step.rule].target {
                    Target::Attribute(test) => test.report(step.rule, attributes, &mut report),
                    target => {
                        let is_text = matches!(target, Target::Text(_));
                        if !is_text {
                            report(step.rule, Found::Element);
                        }
                        self.open.push(OpenMatch {
                            rule: step.rule,
                            depth: self.depth,
                            equal_bytes: Some(0),
                        });
                    }
                }
            }
        }
    }

    /// Takes a part of a text.
    pub fn text(&mut self, set: &PathSet, text: &str) {
        for open in &mut self.open {
            if let (Target::Text(comparison), Some(equal)) = (&set.rules[open.rule].target, open.equal_bytes)
            {
                let is_equal = comparison.text.as_bytes()[equal..].starts_with(text.as_bytes());
                open.equal_bytes = is_equal.then_some(equal + text.len());
            }
        }
    }

    /// Ends an element, and reports the paths that led to it.
    pub fn end(&mut self, set: &PathSet, mut report: impl FnMut(usize, Found<'_>)) {
        if self.dead_depth > 0 {
            self.dead_depth -= 1;
            self.depth -= 1;
            return;
        }
        while let Some(open) = self.open.pop_if(|open| open.depth == self.depth) {
            match &set.rules[open.rule].target {
                Target::Text(comparison) => {
                    let is_same = open.equal_bytes == Some(comparison.text.len());
                    if is_same == comparison.is_equal {
                        report(open.rule, Found::True);
                    }
                }
                _ => report(open.rule, Found::End),
            }
        }
        self.depth -= 1;
        self.steps.truncate(self.steps.len() - self.step_words);
        self.found_firsts.truncate(self.found_firsts.len() - self.first_words);
    }

    /// Returns whether a path may find something in the rest of the document.
    pub fn may_match(&self, set: &PathSet, rule: usize) -> bool {
        let path = &set.rules[rule];
        let has_step = |level: usize, index: usize| {
            let is_there = contains(&self.steps[level * self.step_words..], index);
            let firsts = &self.found_firsts[level * self.first_words..];
            is_there && !set.steps[index].is_exhausted(firsts)
        };
        let mut levels = usize::from(self.has_root)..=self.depth - self.dead_depth;
        levels.any(|level| (path.first..path.end).any(|index| has_step(level, index)))
            || self.open.iter().any(|open| open.rule == rule && matches!(path.target, Target::Text(_)))
    }
}

impl Step {
    fn matches(&self, name: Name<'_>, attributes: &Attributes<'_>, firsts: &mut [u64]) -> bool {
        let is_named = match &self.test {
            NameTest::Any => true,
            NameTest::Namespace(uri) => name.uri == uri,
            NameTest::Name { uri, local } => name.is(uri, local),
        };
        is_named
            && self.predicates.iter().all(|predicate| match predicate {
                Predicate::Attribute(test) => test.holds(attributes),
                Predicate::First(number) => {
                    let is_first = !contains(firsts, *number);
                    insert(firsts, *number);
                    is_first
                }
            })
    }

    /// Returns whether a `[1]` of the step has found its element, so that no sibling matches.
    fn is_exhausted(&self, firsts: &[u64]) -> bool {
        !self.is_descendant
            && self.predicates.iter().any(|predicate| match predicate {
                Predicate::First(number) => contains(firsts, *number),
                Predicate::Attribute(_) => false,
            })
    }
}

impl AttributeTest {
    fn holds(&self, attributes: &Attributes<'_>) -> bool {
        attributes
            .get(&self.uri, &self.local)
            .is_some_and(|value| self.comparison.as_ref().is_none_or(|comparison| comparison.holds(value)))
    }

    fn report(&self, rule: usize, attributes: &Attributes<'_>, report: &mut impl FnMut(usize, Found<'_>)) {
        match (attributes.get(&self.uri, &self.local), &self.comparison) {
            (Some(value), None) => report(rule, Found::Attribute(value)),
            (Some(value), Some(comparison)) if comparison.holds(value) => report(rule, Found::True),
            _ => {}
        }
    }
}

fn insert(bits: &mut [u64], index: usize) {
    bits[index / 64] |= 1 << (index % 64);
}

fn contains(bits: &[u64], index: usize) -> bool {
    bits[index / 64] & (1 << (index % 64)) != 0
}
