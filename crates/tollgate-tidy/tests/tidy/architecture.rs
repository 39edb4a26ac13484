//! Checks that all names in ARCHITECTURE.md exist: crates, paths, functions, tests, and the names of the
//! glossary.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use tollgate_tidy::workspace;

use crate::{check, texts};

/// Maximum number of lines of the page. The page is short so that a new reader can read it in one session.
const LINES_MAX: usize = 200;

fn page() -> String {
    fs::read_to_string(workspace::root().join("ARCHITECTURE.md")).unwrap()
}

/// Returns the texts between backticks, outside of indented blocks.
fn quoted(page: &str) -> Vec<&str> {
    let prose = page.lines().filter(|line| !line.starts_with("    "));
    prose.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// Returns the texts of a file, or of the files of a folder, below the root or below `crates/`. A path within
/// one crate is tried in the `src` of that crate.
fn places(path: &str) -> Vec<PathBuf> {
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let tried = [path.to_owned(), format!("crates/{path}"), format!("crates/{name}/src/{rest}")];
    tried.iter().map(|tried| workspace::root().join(tried)).filter(|place| place.exists()).collect()
}

/// Returns whether a line of the file defines the function.
fn defines_function(file: &Path, name: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    let is_there = |end: char| text.contains(&format!("fn {name}{end}"));
    is_there('(') || is_there('<')
}

#[test]
fn page_of_the_architecture_is_short() {
    let lines = page().lines().count();
    assert!(
        lines <= LINES_MAX,
        "ARCHITECTURE.md has {lines} lines, at most are {LINES_MAX}: move details to docs/"
    );
}

#[test]
fn files_and_functions_of_the_architecture_exist() {
    let page = page();
    let mut found = Vec::new();
    let mut functions = 0;
    for quote in quoted(&page).into_iter().filter(|quote| quote.contains('/') && !quote.contains(' ')) {
        let (path, function) =
            quote.split_once(".rs:").map_or((quote, None), |(path, name)| (path, Some(name)));
        let path = function.map_or_else(|| path.to_owned(), |_| format!("{path}.rs"));
        let places = places(&path);
        functions += usize::from(function.is_some());
        if places.is_empty() {
            found.push(format!("{quote}: no file or folder has this path"));
        } else if let Some(name) = function
            && !places.iter().any(|place| defines_function(place, name))
        {
            found.push(format!("{quote}: the file has no function of this name"));
        }
    }
    check("ARCHITECTURE.md names what is not there", &found);
    assert!(
        functions >= 20,
        "only {functions} functions are named: the page has another form than this test"
    );
}

#[test]
fn each_promise_of_the_architecture_names_a_test() {
    let page = page();
    let sources = texts(&[".rs"]);
    let promises =
        page.lines().filter(|line| line.starts_with("| ") && line.split('|').nth(1).is_some_and(is_number));
    let promises: Vec<_> = promises.take_while(|line| !line.contains(".rs:")).collect();
    let is_test = |name: &str| {
        let (plain, waiting) = (format!("#[test]\nfn {name}()"), format!("#[test]\n    fn {name}()"));
        sources.iter().any(|(_, text)| text.contains(&plain) || text.contains(&waiting))
    };
    let test_of = |line: &str| line.split('`').nth_back(1).unwrap_or_default().to_owned();
    let missing = promises.iter().filter(|line| !is_test(&test_of(line))).map(|line| (*line).to_owned());
    check("promises without their test", &missing.collect::<Vec<_>>());
    assert!(promises.len() >= 13, "{} promises are listed", promises.len());
}

fn is_number(cell: &str) -> bool {
    let cell = cell.trim();
    !cell.is_empty() && cell.chars().all(|letter| letter.is_ascii_digit())
}

#[test]
fn names_of_the_glossary_are_types_of_the_code_in_alphabetical_order() {
    let page = page();
    let glossary = page.split_once("## Glossary\n").unwrap().1.replace('\n', " ");
    let code: Vec<_> =
        glossary.split('`').skip(1).step_by(2).filter(|name| name.starts_with(char::is_uppercase)).collect();
    let sources = texts(&[".rs"]);
    let defined = |name: &&&str| {
        ["struct", "enum", "trait", "type"].iter().any(|kind| {
            let item = format!("{kind} {name}");
            sources.iter().any(|(_, text)| {
                text.match_indices(&item).any(|(at, _)| {
                    !text[at + item.len()..]
                        .starts_with(|letter: char| letter.is_alphanumeric() || letter == '_')
                })
            })
        })
    };
    let missing = code.iter().filter(|name| !defined(name)).map(|name| (*name).to_owned());
    check("names of the glossary that no type has", &missing.collect::<Vec<_>>());
    assert!(code.len() >= 40, "the glossary has {} names of the code", code.len());
    let order: Vec<_> = code.iter().map(|name| name.to_lowercase()).collect();
    assert!(order.is_sorted(), "not in alphabetical order: {order:?}");
    assert_eq!(code.len(), code.iter().collect::<BTreeSet<_>>().len(), "a name stands twice");
}
