//! Rules for the text of single files, and for the names of a crate's public types.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
};

use anyhow::{Context, ensure};
use proc_macro2::{TokenStream, TokenTree};
use syn::Item;

use crate::target::{Target, is_seen_outside};

/// Maximum number of characters of a line. Tables and lines with an address are exempt.
pub const WIDTH_MAX: usize = 110;

/// Maximum number of characters of a test's name.
pub const TEST_NAME_MAX: usize = 80;

/// Folders that exist only on one machine. Other readers of the repository do not have them.
const LOCAL_FOLDERS: [&str; 3] = ["/work", "/root", "/home"];

/// Returns the files that git tracks, relative to `root`.
///
/// # Errors
/// `git ls-files` fails, for example outside of a clone, or without git.
pub fn tracked(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let run = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
    let output = run.context("cannot run git")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = output.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned())).collect())
}

/// Returns whether the first line of a source file begins its documentation (`//!`).
#[must_use]
pub fn has_head(text: &str) -> bool {
    text.starts_with("//!")
}

/// Returns the lines with the keyword `unsafe`.
///
/// # Errors
/// The text is no valid Rust.
pub fn lines_with_unsafe(text: &str) -> anyhow::Result<Vec<usize>> {
    let tokens = TokenStream::from_str(text).map_err(|error| anyhow::anyhow!("not valid Rust: {error}"))?;
    let mut lines = Vec::new();
    find_unsafe(tokens, &mut lines);
    Ok(lines)
}

fn find_unsafe(tokens: TokenStream, lines: &mut Vec<usize>) {
    for token in tokens {
        match token {
            TokenTree::Ident(name) if name == "unsafe" => lines.push(name.span().start().line),
            TokenTree::Group(group) => find_unsafe(group.stream(), lines),
            _ => {}
        }
    }
}

/// Returns the names of the test functions. Such a function has an attribute whose path ends with `test`.
///
/// # Errors
/// The text is no valid Rust.
pub fn test_names(text: &str) -> anyhow::Result<Vec<String>> {
    let tokens = TokenStream::from_str(text).map_err(|error| anyhow::anyhow!("not valid Rust: {error}"))?;
    let mut names = Vec::new();
    find_tests(tokens, &mut names);
    Ok(names)
}

fn find_tests(tokens: TokenStream, names: &mut Vec<String>) {
    let mut is_test = false;
    let mut before = None;
    for token in tokens {
        let follows = |text: &str| before.as_deref() == Some(text);
        match &token {
            TokenTree::Group(group) if follows("#") => is_test |= is_test_attribute(group.stream()),
            TokenTree::Group(group) => find_tests(group.stream(), names),
            TokenTree::Ident(name) if follows("fn") => {
                names.extend(is_test.then(|| name.to_string()));
                is_test = false;
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        before = match token {
            TokenTree::Group(_) => None,
            token => Some(token.to_string()),
        };
    }
}

/// Returns whether the path of an attribute ends with `test`: `test`, `tokio::test(flavor =
/// "current_thread")`.
fn is_test_attribute(attribute: TokenStream) -> bool {
    let is_path = |token: &TokenTree| matches!(token, TokenTree::Ident(_) | TokenTree::Punct(_));
    let last = attribute.into_iter().take_while(is_path).last();
    matches!(last, Some(TokenTree::Ident(name)) if name == "test")
}

/// Returns whether a line of source or text is too wide.
#[must_use]
pub fn is_too_wide(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
    let is_table = text.starts_with('|');
    let has_address = line.contains("http://") || line.contains("https://");
    line.chars().count() > WIDTH_MAX && !is_table && !has_address
}

/// Returns whether a line of Rust contains only a comment.
#[must_use]
pub fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Returns whether a line names a folder that exists only on one machine.
#[must_use]
pub fn has_local_path(line: &str) -> bool {
    LOCAL_FOLDERS.iter().any(|folder| {
        line.match_indices(folder).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + folder.len()..].chars().next();
            !before.is_some_and(is_part_of_path) && !after.is_some_and(is_part_of_name)
        })
    })
}

fn is_part_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')
}

fn is_part_of_path(letter: char) -> bool {
    is_part_of_name(letter) || matches!(letter, '}' | ')' | '/')
}

/// Returns the names of types and traits that two modules of a crate define for other modules, with their
/// files.
///
/// `pub(super)` counts as well, because a reader sees the name outside of its file.
#[must_use]
pub fn names_defined_twice(target: &Target) -> BTreeMap<String, BTreeSet<PathBuf>> {
    let mut defined = BTreeMap::<String, Vec<usize>>::new();
    for module in &target.modules {
        for name in module.items.iter().filter_map(public_type) {
            defined.entry(name).or_default().push(module.file);
        }
    }
    defined.retain(|_, files| files.len() > 1);
    let paths = |files: Vec<usize>| files.into_iter().map(|file| target.files[file].clone()).collect();
    defined.into_iter().map(|(name, files)| (name, paths(files))).collect()
}

fn public_type(item: &Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Union(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    is_seen_outside(visibility).then(|| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_addresses_may_be_wide() {
        let wide = "x".repeat(WIDTH_MAX + 1);
        assert!(is_too_wide(&wide));
        assert!(is_too_wide(&format!("/// {wide}")));
        assert!(!is_too_wide(&wide[1..]));
        assert!(!is_too_wide(&format!("    /// | {wide} |")));
        assert!(!is_too_wide(&format!("// https://example.org/{wide}")));
        assert!(!is_too_wide(&"ü".repeat(WIDTH_MAX)), "characters count, not bytes");
    }

    #[test]
    fn local_paths_are_those_of_folders() {
        for line in ["see /work/x", "`/root`", "cd /home/anna", "PATH=/root/bin"] {
            assert!(has_local_path(line), "{line}");
        }
        for line in
            ["/workers", "/proc/self/root", "framework/work", "/root-ca", "$HOME", "http://h/work.html"]
        {
            assert!(!has_local_path(line), "{line}");
        }
    }

    #[test]
    fn unsafe_in_comments_and_names_does_not_count() {
        let text =
            "//! unsafe\n#![deny(unsafe_code)]\nfn f() { unsafe { g() } }\nconst T: &str = \"unsafe\";\n";
        assert_eq!(lines_with_unsafe(text).unwrap(), [3]);
    }

    #[test]
    fn test_names_are_those_of_functions_with_a_test_attribute() {
        let text = "#[test]\nfn one() {}\n#[cfg(test)]\nmod tests {\n\
                    #[tokio::test(flavor = \"multi_thread\")]\n#[ignore]\n\
                    async fn two() { fn inner() {} }\nfn helper() {}\n}\n\
                    #[cfg(test)]\nfn three() {}\n// #[test] fn four() {}\n\
                    proptest! { #[test] fn five(a in 0..1) {} }\n";
        assert_eq!(test_names(text).unwrap(), ["one", "two", "five"]);
    }

    #[test]
    fn a_public_name_of_two_modules_is_found() {
        let text =
            "pub struct A; mod x { pub(super) enum A {} pub struct B; } mod y { struct B; type C = u8; }";
        let target = Target::load(Path::new("lib.rs"), &|_| Ok(text.to_owned())).unwrap();
        let names = names_defined_twice(&target);
        assert_eq!(names.keys().collect::<Vec<_>>(), ["A"]);
    }
}
