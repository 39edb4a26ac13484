//! What a route with `when` has found in a request.

use std::rc::Rc;

/// The rule of a route that was taken, and the values that were found in the look-ahead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteChoice {
    /// The number of the rule, from 1. `None`: no rule, but `otherwise`.
    pub rule: Option<usize>,
    /// The paths of the values.
    pub paths: Rc<[String]>,
    /// The first value of each path, in the same order. Empty if the content is no XML.
    pub values: Vec<Option<String>>,
}

impl RouteChoice {
    /// Lists the values that were found, with their paths.
    pub fn found(&self) -> impl Iterator<Item = (&str, &str)> {
        let values = self.paths.iter().zip(&self.values);
        values.filter_map(|(path, value)| Some((path.as_str(), value.as_deref()?)))
    }

    /// Returns the value of a path.
    pub fn value(&self, path: &str) -> Option<&str> {
        self.found().find(|(found, _)| *found == path).map(|(_, value)| value)
    }
}
