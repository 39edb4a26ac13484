//! Estimates of the cost of a Luau pattern.

/// Returns whether a pattern has special characters.
pub(super) fn has_specials(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

/// Returns the number of items in the longest set of a pattern, or 1 if there is no set. A set without its
/// closing `]` counts, too.
pub(super) fn longest_set(pattern: &[u8]) -> usize {
    let (mut longest, mut rest) = (1, pattern);
    while let [first, behind @ ..] = rest {
        rest = match (first, behind) {
            // `%bxy` matches balanced text, and has no set.
            (b'%', [b'b', ..]) => behind.get(3..).unwrap_or_default(),
            // `%f[set]`, a frontier pattern: only `%f` is skipped here, so the set after it counts like any
            // other set.
            (b'%', [b'f', behind @ ..]) => behind,
            (b'%', _) => behind.get(1..).unwrap_or_default(),
            (b'[', _) => {
                let (items, behind) = set_items(behind);
                longest = longest.max(items);
                behind
            }
            _ => behind,
        };
    }
    longest
}

/// Counts the items of a set after its `[`, and returns the pattern after its end.
fn set_items(behind: &[u8]) -> (usize, &[u8]) {
    let set = behind.strip_prefix(b"^").unwrap_or(behind);
    let end = set_end(set);
    let (mut items, mut rest) = (0, &set[..end]);
    while let [_, others @ ..] = rest {
        rest = match rest {
            [b'%', _, others @ ..] | [_, b'-', _, others @ ..] => others,
            _ => others,
        };
        items += 1;
    }
    (items, set.get(end + 1..).unwrap_or_default())
}

/// Returns the offset of the `]` of a set, or the end of the pattern. A `]` in first place or after `%` does
/// not end the set.
fn set_end(set: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += if set.get(at) == Some(&b'%') { 2 } else { 1 };
        if set.get(at).is_none_or(|&byte| byte == b']') {
            return at.min(set.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_items_of_the_longest_set_are_counted() {
        let check = |pattern: &str, items: usize| {
            assert_eq!(longest_set(pattern.as_bytes()), items, "{pattern}");
        };
        check("", 1);
        check("abc%d+", 1);
        check("[abc]", 3);
        check("[^abc]*x[de]", 3);
        check("[a-z0-9_]", 3);
        check("[%w_%-]", 3);
        check("[]abc]", 4);
        check("[^]]", 1);
        check("[a-]", 2);
        check("[abc", 3);
        check("[", 1);
        check("[^", 1);
        check("%[abc", 1);
        check("%b[]abc", 1);
        check("%f[abcd]x", 4);
        check("%", 1);
        check("x[ab%]cd]", 5);
        check("[a-%]bcd]", 5);
        check("[%]bcd]", 4);
        check("[ab%", 3);
    }

    #[test]
    fn a_pattern_without_specials_is_its_own_text() {
        assert!(!has_specials(b"a, b]c"));
        for special in "^$*+?.([%-".chars() {
            assert!(has_specials(format!("a{special}").as_bytes()));
        }
    }
}
