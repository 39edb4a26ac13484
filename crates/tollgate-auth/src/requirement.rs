//! Decides whether a known caller may use a route, by its name and its claims.

use serde_json::{Map, Value};

use crate::identity::Identity;

/// The callers that may use a route. All rules have to hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Requirement {
    /// The names that may use the route. An empty list allows every name.
    pub names: Vec<String>,
    /// Rules for claims.
    pub claims: Vec<ClaimRule>,
}

/// The values that one claim may have.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimRule {
    /// Name of the claim, or a JSON Pointer (RFC 6901) that begins with `/`.
    pub claim: String,
    /// The allowed values. A claim that is a list needs one of them as an item.
    pub allowed: Vec<Value>,
}

impl Requirement {
    /// Returns whether the caller may use the route.
    pub fn allows(&self, identity: &Identity) -> bool {
        self.allows_named(&identity.name, identity.claims.as_ref())
    }

    /// Returns whether a caller with this name and these claims may use the route.
    pub fn allows_named(&self, name: &str, claims: Option<&Map<String, Value>>) -> bool {
        let is_named = self.names.is_empty() || self.names.iter().any(|allowed| allowed == name);
        is_named && self.claims.iter().all(|rule| claims.is_some_and(|claims| rule.holds(claims)))
    }
}

impl ClaimRule {
    fn holds(&self, claims: &Map<String, Value>) -> bool {
        let Some(found) = self.find(claims) else { return false };
        match found {
            Value::Array(items) => items.iter().any(|item| self.allowed.contains(item)),
            // RFC 8693 section 4.2: `scope` is a list of words in one text.
            Value::String(words) if self.claim == "scope" => {
                words.split(' ').any(|word| self.allowed.iter().any(|allowed| allowed == word))
            }
            value => self.allowed.contains(value),
        }
    }

    fn find<'c>(&self, claims: &'c Map<String, Value>) -> Option<&'c Value> {
        let Some(pointer) = self.claim.strip_prefix('/') else { return claims.get(&self.claim) };
        let (first, rest) = match pointer.find('/') {
            Some(at) => pointer.split_at(at),
            None => (pointer, ""),
        };
        claims.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Scheme;
    use serde_json::json;

    fn allows(names: &[&str], claims: &[(&str, Value)], has: Option<Value>) -> bool {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        let claims =
            claims.iter().map(|(claim, value)| ClaimRule { claim: (*claim).into(), allowed: list(value) });
        let requirement =
            Requirement { names: names.iter().map(|&name| name.into()).collect(), claims: claims.collect() };
        let claims = has.map(|value| value.as_object().cloned().unwrap());
        requirement.allows(&Identity { scheme: Scheme::Jwt, name: "anna".into(), claims })
    }

    #[test]
    fn all_rules_have_to_hold() {
        let has = || {
            Some(json!({"role": "admin", "groups": ["a", "b"], "n": 5, "scope": "read write",
            "realm": {"roles": ["x"], "a/b": true}}))
        };
        for (names, claims, expected) in [
            (&[][..], &[][..], true),
            (&["anna"], &[], true),
            (&["bert"], &[], false),
            (&["bert", "anna"], &[("role", json!("admin"))], true),
            (&["bert"], &[("role", json!("admin"))], false),
            (&[], &[("role", json!("user"))], false),
            (&[], &[("role", json!(["user", "admin"]))], true),
            (&[], &[("groups", json!("b"))], true),
            (&[], &[("groups", json!("c"))], false),
            (&[], &[("n", json!(5))], true),
            (&[], &[("n", json!("5"))], false),
            (&[], &[("scope", json!("write"))], true),
            (&[], &[("scope", json!("wri"))], false),
            (&[], &[("role", json!("adm"))], false),
            (&[], &[("/realm/roles", json!("x"))], true),
            (&[], &[("/realm/a~1b", json!(true))], true),
            (&[], &[("/role", json!("admin"))], true),
            (&[], &[("/realm/none", json!("x"))], false),
            (&[], &[("missing", json!("x"))], false),
            (&[], &[("role", json!("admin")), ("n", json!(6))], false),
        ] {
            assert_eq!(allows(names, claims, has()), expected, "{names:?} {claims:?}");
        }
        assert!(!allows(&[], &[("role", json!("admin"))], None));
        assert!(allows(&["anna"], &[], None));
    }
}
