//! The attributes that each element of the XML syntax may have.

use super::super::SchemaFault;
use super::element::WrittenElement;

/// Checks that `element` has only known attributes. `ns` and `datatypeLibrary` are allowed everywhere.
pub(super) fn check(element: &WrittenElement) -> Result<(), SchemaFault> {
    let allowed: &[&str] = match element.name.as_str() {
        "element" | "attribute" | "ref" | "parentRef" | "param" => &["name"],
        "data" | "value" => &["type"],
        "externalRef" | "include" => &["href"],
        "start" => &["combine"],
        "define" => &["name", "combine"],
        _ => &[],
    };
    let unknown = element
        .attributes
        .iter()
        .find(|(name, _)| name != "ns" && name != "datatypeLibrary" && !allowed.contains(&name.as_str()));
    match unknown {
        None => Ok(()),
        Some((name, _)) => {
            Err(element.fault(format!("attribute \"{name}\" of \"{}\" is not known", element.name)))
        }
    }
}
