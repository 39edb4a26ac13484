//! The key `methods` of a route or of `cors`.

use tollgate_server::{Method, Methods};

use super::fault::did_you_mean;
use super::section::Section;

/// Reads a list of methods. `what` is the name of the key in faults.
pub(super) fn methods(section: &mut Section<'_>, key: &'static str, what: &str) -> Option<Methods> {
    let texts = section.texts(key)?;
    if texts.is_empty() {
        let text = format!("{what} is empty, allowed is a list of methods: remove the key for the default");
        section.fault_of(key, text);
    }
    let mut methods = Methods::EMPTY;
    for text in texts {
        match Method::from_bytes(text.value.as_bytes()) {
            Some(method) => methods.insert(method),
            None => {
                let upper = text.value.to_ascii_uppercase();
                let hint = did_you_mean(&upper, Method::ALL.map(Method::as_str));
                section.fault_at(&text.span, format!("unknown method {:?}{hint}", text.value));
            }
        }
    }
    Some(methods)
}

/// Writes a list of methods.
pub(super) fn show_methods(methods: Methods) -> String {
    let methods: Vec<_> = methods.iter().map(|method| format!("\"{method}\"")).collect();
    format!("[{}]", methods.join(", "))
}
