//! Paths of included files: relative to the file that names them, and never outside of the root.

/// Returns the path that `reference` names in the file `base`, without `.` and `..`.
///
/// # Errors
/// A text if `reference` is a URL, an absolute path, leads out of the root, has a fragment or names a folder.
pub(crate) fn resolve(base: &str, reference: &str) -> Result<String, String> {
    if reference.is_empty() || reference.ends_with('/') {
        return fault(reference, "has no name");
    }
    joined(base, reference)
}

/// Returns the path of `xml:base`, from which others are resolved. It may be a folder.
///
/// # Errors
/// As [`resolve`], but for folders.
pub(crate) fn resolve_base(base: &str, reference: &str) -> Result<String, String> {
    let joined = joined(base, reference)?;
    Ok(if reference.ends_with('/') { format!("{joined}/") } else { joined })
}

fn fault(reference: &str, reason: &str) -> Result<String, String> {
    Err(format!("file \"{reference}\" {reason}; name a file below the root"))
}

fn joined(base: &str, reference: &str) -> Result<String, String> {
    let fault = |reason: &str| fault(reference, reason);
    if reference.contains('#') {
        return fault("has a fragment");
    }
    if reference.starts_with('/') || reference.contains('\\') || reference.contains('\0') {
        return fault("is not a relative path");
    }
    if reference.split('/').next().is_some_and(|first| first.contains(':')) {
        return fault("has a scheme");
    }
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in reference.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return fault("leads out of the root"),
            ".." => {}
            _ => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn a_reference_is_relative_to_its_file_and_stays_below_the_root() {
        let check = |base, reference, expected: Option<&str>| {
            assert_eq!(resolve(base, reference).ok().as_deref(), expected, "{base} {reference}");
        };
        check("a.rnc", "b.rnc", Some("b.rnc"));
        check("s/a.rnc", "b.rnc", Some("s/b.rnc"));
        check("s/a.rnc", "../b.rnc", Some("b.rnc"));
        check("s/a.rnc", "./t//b.rnc", Some("s/t/b.rnc"));
        check("s/a.rnc", "../../b.rnc", None);
        check("a.rnc", "/etc/passwd", None);
        check("a.rnc", "http://a/b.rnc", None);
        check("a.rnc", "file:b.rnc", None);
        check("a.rnc", "b.rnc#c", None);
        check("a.rnc", "s/", None);
        check("a.rnc", "", None);
    }
}
