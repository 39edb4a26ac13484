//! Prefixes and their namespaces.

/// Resolves prefixes, for values that are qualified names.
pub trait Namespaces {
    /// Returns the namespace of `prefix`. The empty prefix stands for names without a prefix.
    fn namespace(&self, prefix: &str) -> Option<&str>;
}

/// No prefix is declared.
impl Namespaces for () {
    fn namespace(&self, prefix: &str) -> Option<&str> {
        if prefix.is_empty() { Some("") } else { None }
    }
}

impl Namespaces for [(String, String)] {
    fn namespace(&self, prefix: &str) -> Option<&str> {
        self.iter().find(|(own, _)| own == prefix).map(|(_, uri)| uri.as_str())
    }
}

impl Namespaces for Vec<(String, String)> {
    fn namespace(&self, prefix: &str) -> Option<&str> {
        self.as_slice().namespace(prefix)
    }
}
