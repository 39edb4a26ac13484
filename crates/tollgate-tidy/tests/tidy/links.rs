//! Tests of the documentation. Links and paths must lead to a file and a heading. Each page of `docs/` must
//! state its reader and be in an index.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use tollgate_tidy::{markdown, rules, workspace};

use crate::{check, texts};

/// Folder whose index states the reader of all its pages.
const DECISIONS: &str = "docs/explanation/decisions";

/// Returns all tracked files, and the folders that contain them.
fn places() -> BTreeSet<PathBuf> {
    let files = rules::tracked(&workspace::root()).unwrap();
    files.iter().flat_map(|file| file.ancestors()).map(Path::to_owned).collect()
}

/// Returns the pages of `docs/`, with their texts.
fn pages_of_docs() -> Vec<(PathBuf, String)> {
    let pages: Vec<_> = texts(&[".md"]).into_iter().filter(|(file, _)| file.starts_with("docs")).collect();
    assert!(pages.len() > 25, "only {} pages", pages.len());
    pages
}

/// Returns the file or folder to which a link of a page leads. `None`: it is outside of the repository.
fn resolve(page: &Path, link: &str) -> Option<PathBuf> {
    if link.is_empty() {
        return Some(page.to_owned());
    }
    let mut place = page.parent()?.to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::CurDir => {}
            Component::ParentDir if place.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(place)
}

/// Returns the reason why the target of a link does not exist. `None`: the target exists.
fn fault(
    page: &Path,
    target: &str,
    places: &BTreeSet<PathBuf>,
    anchors: &BTreeMap<PathBuf, BTreeSet<String>>,
) -> Option<&'static str> {
    let (link, anchor) = target.split_once('#').map_or((target, None), |(link, anchor)| (link, Some(anchor)));
    let Some(place) = resolve(page, link).filter(|place| places.contains(place)) else {
        return Some("no tracked file has this path");
    };
    let anchor = anchor?;
    let has_heading = anchors.get(&place).is_some_and(|anchors| anchors.contains(anchor));
    (!has_heading).then_some("the page has no such heading")
}

#[test]
fn relative_links_of_pages_lead_to_a_file_and_a_heading() {
    let pages = texts(&[".md"]);
    let places = places();
    let anchors = pages.iter().map(|(file, text)| (file.clone(), markdown::anchors(text))).collect();
    let mut found = Vec::new();
    let mut links = 0;
    for (file, text) in &pages {
        for (line, target) in markdown::relative_links(text) {
            links += 1;
            if let Some(fault) = fault(file, &target, &places, &anchors) {
                found.push(format!("{}:{line}: {target}: {fault}", file.display()));
            }
        }
    }
    check("links that lead nowhere", &found);
    assert!(links > 300, "only {links} links: the pages have another form than this test");
}

/// Returns the paths below `docs/` to pages and pictures that a text names. A longer path, such as
/// `/docs/a.md`, does not count.
fn paths_of_docs(text: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '-' | '_' | '.');
    let starts = text.match_indices("docs/").map(|(at, _)| at);
    let starts = starts.filter(move |at| !text[..*at].ends_with(is_of_path));
    let paths = starts.map(move |at| {
        let rest = &text[at..];
        rest[..rest.find(|letter: char| !is_of_path(letter)).unwrap_or(rest.len())].trim_end_matches('.')
    });
    paths.filter(|path| path.ends_with(".md") || path.ends_with(".svg"))
}

#[test]
fn paths_of_docs_in_any_file_exist() {
    let places = places();
    let mut found = Vec::new();
    for (file, text) in texts(&[""]).into_iter().filter(|(file, _)| !file.starts_with("fuzz/corpus")) {
        let gone = paths_of_docs(&text).filter(|path| !places.contains(Path::new(path)));
        found.extend(gone.map(|path| format!("{}: {path}", file.display())));
    }
    check("paths of pages that do not exist", &found);
}

#[test]
fn each_page_of_docs_states_its_reader_in_the_first_line() {
    let mut found = Vec::new();
    for (file, text) in pages_of_docs() {
        let is_decision = file.starts_with(DECISIONS) && !file.ends_with("README.md");
        let first = text.lines().nth(2).unwrap_or_default();
        let states_reader = first.starts_with("For ") && first.ends_with('.');
        if !is_decision && !states_reader {
            found.push(format!("{}: {first}", file.display()));
        }
    }
    check("pages whose first line is not \"For READER who ...\"", &found);
}

#[test]
fn each_page_of_docs_is_in_the_index_of_its_folder_or_of_docs() {
    let pages = pages_of_docs();
    let mut listed = BTreeSet::new();
    for (index, text) in pages.iter().filter(|(file, _)| file.ends_with("README.md")) {
        let links = markdown::relative_links(text);
        listed.extend(links.iter().filter_map(|(_, target)| resolve(index, target)));
    }
    let missing = pages.iter().map(|(file, _)| file).filter(|file| !listed.contains(*file));
    let missing = missing.filter(|file| **file != Path::new("docs/README.md"));
    check("pages that no index lists", &missing.map(|file| file.display().to_string()).collect::<Vec<_>>());
}
