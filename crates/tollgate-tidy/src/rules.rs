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

/// Characters that a line has at most, outside of tables and of lines with an address.
pub const WIDTH_MAX: usize = 110;

/// Folders of one machine. They mean nothing to other readers of the repository.
const LOCAL_FOLDERS: [&str; 3] = ["/work", "/root", "/home"];

/// The files that git tracks, relative to `root`.
///
/// # Errors
/// If `git ls-files` fails: outside of a clone, or without git.
pub fn tracked(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let run = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
    let output = run.context("git cannot be run")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = output.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned())).collect())
}

/// Whether the first line of a source file opens its documentation.
#[must_use]
pub fn has_head(text: &str) -> bool {
    text.starts_with("//!")
}

/// The lines with the keyword `unsafe`.
///
/// # Errors
/// Text that is no Rust.
pub fn lines_with_unsafe(text: &str) -> anyhow::Result<Vec<usize>> {
    let tokens = TokenStream::from_str(text).map_err(|error| anyhow::anyhow!("no Rust: {error}"))?;
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

/// Whether a line of source or text is too wide.
#[must_use]
pub fn is_too_wide(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
    let is_table = text.starts_with('|');
    let has_address = line.contains("http://") || line.contains("https://");
    line.chars().count() > WIDTH_MAX && !is_table && !has_address
}

/// Whether a line of Rust is a comment and nothing else.
#[must_use]
pub fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Whether a line names a folder of one machine.
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

/// The names of types and traits that two modules of a crate define for others, with the files that do.
///
/// `pub(super)` counts as well: a reader meets the name outside of its file.
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
    fn a_public_name_of_two_modules_is_found() {
        let text =
            "pub struct A; mod x { pub(super) enum A {} pub struct B; } mod y { struct B; type C = u8; }";
        let target = Target::load(Path::new("lib.rs"), &|_| Ok(text.to_owned())).unwrap();
        let names = names_defined_twice(&target);
        assert_eq!(names.keys().collect::<Vec<_>>(), ["A"]);
    }
}
