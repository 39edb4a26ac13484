//! The caller whose credentials the server has checked.

use serde_json::{Map, Value};

/// The caller of a request, whose credentials are valid.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    /// Name of the scheme: `basic`, `bearer` or `jwt`.
    pub scheme: &'static str,
    /// The name of the caller.
    pub name: String,
    /// The claims of a JSON Web Token. Other schemes have none.
    pub claims: Option<Map<String, Value>>,
}
