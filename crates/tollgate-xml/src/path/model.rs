//! The parts of a path.

/// A namespace prefix that paths may use.
#[derive(Clone, Copy, Debug)]
pub struct PrefixBinding<'a> {
    /// The prefix.
    pub prefix: &'a str,
    /// The namespace.
    pub uri: &'a str,
}

/// A path that was parsed.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) steps: Vec<Step>,
    pub(super) target: Target,
}

/// A step to an element.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) rule: usize,
    pub(super) is_last: bool,
    /// Whether `//` precedes the step.
    pub(super) is_descendant: bool,
    pub(super) test: NameTest,
    pub(super) predicates: Vec<Predicate>,
}

#[derive(Debug)]
pub(super) enum NameTest {
    Any,
    Namespace(String),
    Name { uri: String, local: String },
}

#[derive(Debug)]
pub(super) enum Predicate {
    /// The element is the first sibling that passed the name and the predicates before. The number
    /// counts each `[1]` of the set.
    First(usize),
    Attribute(AttributeTest),
}

#[derive(Debug)]
pub(super) struct AttributeTest {
    pub(super) uri: String,
    pub(super) local: String,
    pub(super) comparison: Option<Comparison>,
}

#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) is_equal: bool,
    pub(super) text: String,
}

/// What the last step of a path leads to.
#[derive(Debug)]
pub(super) enum Target {
    Element,
    Attribute(AttributeTest),
    /// The text of the element is compared.
    Text(Comparison),
}

impl Comparison {
    pub(super) fn holds(&self, text: &str) -> bool {
        (self.text == text) == self.is_equal
    }
}
