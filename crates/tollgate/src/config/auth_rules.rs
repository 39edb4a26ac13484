//! `names` and `claims` of a route's `auth`: which callers may use the route.

use tollgate_server::{AuthSpec, ClaimRule, Requirement};

use super::key::{Facts, OwnValue};
use super::quoted::{quoted, quoted_list};
use super::section::Section;

/// The keys of the rules.
pub(super) struct RuleKeys {
    pub(super) names: &'static Facts,
    pub(super) claims: &'static Facts,
}

/// Takes the rules.
pub(super) fn requirement(section: &mut Section<'_>, keys: &RuleKeys) -> Requirement {
    let name = keys.names.name;
    let names = section.texts(name).unwrap_or_default();
    if names.is_empty() && section.has(name) {
        section.fault_of(name, format!("{name} in auth is empty, so no caller may use the route: remove it"));
    }
    let claims = section.take_table(keys.claims.name, "claims of auth".to_owned());
    Requirement {
        names: names.into_iter().map(|name| name.value).collect(),
        claims: claims.map(claim_rules).unwrap_or_default(),
    }
}

fn claim_rules(section: Section<'_>) -> Vec<ClaimRule> {
    let rules = section.named_values("a text, an integer, true or false, or a list of them");
    rules.into_iter().map(|(claim, allowed)| ClaimRule { claim, allowed }).collect()
}

/// Adds a fault for claims without a scheme that has claims.
pub(super) fn check(section: &Section<'_>, key: &Facts, spec: &AuthSpec, requirement: &Requirement) {
    if spec.jwt.is_none() && !requirement.claims.is_empty() {
        section.fault_of(key.name, "claims in auth needs jwt: passwords and tokens have no claims");
    }
}

/// Shows the rules.
pub(super) fn show(requirement: &Requirement, keys: &RuleKeys) -> [OwnValue; 2] {
    let Requirement { names, claims } = requirement;
    let claims: Vec<_> = claims.iter().map(show_claim).collect();
    [
        (keys.names.name, (!names.is_empty()).then(|| quoted_list(names))),
        (keys.claims.name, (!claims.is_empty()).then(|| format!("{{ {} }}", claims.join(", ")))),
    ]
}

fn show_claim(rule: &ClaimRule) -> String {
    // A JSON value of these kinds is a TOML value too, except that `$` in a text is escaped.
    let values: Vec<_> =
        rule.allowed.iter().map(|value| value.as_str().map_or(value.to_string(), quoted)).collect();
    format!("{} = [{}]", toml::Value::String(rule.claim.clone()), values.join(", "))
}
