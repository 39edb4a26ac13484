//! Suggestions for unknown names ("did you mean").

/// Returns the nearest known name, if its edit distance is at most a third of the length of `name`.
///
/// At least two edits are allowed for names of four letters or more, and one edit for shorter names. Two
/// swapped letters are two edits.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name_short: String = name.chars().take(NAME_CHARS_MAX).collect();
    let chars = name_short.chars().count();
    let allowed = (chars / 3).max(if chars > 3 { 2 } else { 1 });
    known
        .into_iter()
        .map(|candidate| (edits(&name_short.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns `, did you mean "NAME"?`, or an empty text if no known name is near.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!(", did you mean \"{near}\"?"))
}

/// Returns the number of insertions, removals and replacements from `a` to `b` (Levenshtein distance).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

const NAME_CHARS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expect: Option<&str>) {
        assert_eq!(nearest(name, ["status", "headers", "body", "json", "html", "record"]), expect, "{name}");
    }

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_none() {
        check("stauts", Some("status"));
        check("Header", Some("headers"));
        check("jsn", Some("json"));
        check("hmtl", Some("html"));
        check("colour", None);
        check("", None);
    }
}
