//! URIs of datatype libraries (section 4.3).

/// Checks that `uri` is empty or an absolute URI without a fragment.
///
/// # Errors
/// A text with the reason.
pub(crate) fn check(uri: &str) -> Result<(), String> {
    if uri.is_empty() || is_absolute(uri) {
        return Ok(());
    }
    Err(format!("datatype library \"{uri}\" is not an absolute URI without a fragment"))
}

fn is_absolute(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once(':') else { return false };
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(letters)
        && !rest.is_empty()
        && !rest.contains('#')
        && has_whole_escapes(rest)
}

/// Whether each `%` has two hexadecimal digits after it.
fn has_whole_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|part| {
        let bytes = part.as_bytes();
        bytes.len() >= 2 && bytes[..2].iter().all(u8::is_ascii_hexdigit)
    })
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_datatype_library_is_an_absolute_uri_without_a_fragment() {
        for uri in ["", "http://a/b", "urn:x", "foo:%20"] {
            assert!(check(uri).is_ok(), "{uri}");
        }
        for uri in ["a", "a/b:c", "foo:", "foo:x#y", "foo:%2", "1a:b", "foo:%xx"] {
            assert!(check(uri).is_err(), "{uri}");
        }
    }
}
