//! Tests of rules for the source that the compiler does not check. `allowed.rs` has the exceptions, each with
//! its reason.

// clippy recognizes test functions, but not the helpers between them.
#![allow(clippy::unwrap_used)]

mod allowed;
mod architecture;
mod links;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use tollgate_tidy::{
    rules::{self, TEST_NAME_MAX, WIDTH_MAX},
    target::Target,
    workspace::{self, Crate, Imports},
};

/// Fails if there are violations, with all of them in the message.
fn check(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

fn crates() -> Vec<Crate> {
    workspace::crates(&workspace::root()).unwrap()
}

/// Returns each tracked file with one of these endings, and its text.
fn texts(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let root = workspace::root();
    let files = rules::tracked(&root).unwrap();
    let wanted =
        files.into_iter().filter(|file| endings.iter().any(|end| file.to_string_lossy().ends_with(end)));
    let texts = wanted.filter_map(|file| Some((file.clone(), fs::read_to_string(root.join(&file)).ok()?)));
    texts.collect()
}

/// Returns the crate to which a path of the workspace belongs. For other paths, returns the first folder.
fn owner(file: &Path) -> String {
    let mut parts = file.iter().map(|part| part.to_string_lossy());
    let first = parts.next().unwrap_or_default();
    if first == "crates" { parts.next().unwrap_or_default().into_owned() } else { first.into_owned() }
}

#[test]
fn crates_use_only_the_crates_below_them() {
    let mut found = Vec::new();
    for one in crates() {
        let layer = allowed::LAYERS.iter().find(|(name, _)| *name == one.name);
        let Some((_, below)) = layer else {
            found.push(format!("{} is in no layer", one.name));
            continue;
        };
        let in_tests = allowed::LAYERS_OF_TESTS.iter().find(|(name, _)| *name == one.name);
        let in_tests = in_tests.map_or(&[][..], |(_, names)| *names);
        let arrow = |name: &String| format!("{} -> {name}", one.name);
        found.extend(one.uses.iter().filter(|name| !below.contains(&name.as_str())).map(arrow));
        let of_tests = one.tests_use.iter().filter(|name| !in_tests.contains(&name.as_str()));
        found.extend(of_tests.filter(|name| !below.contains(&name.as_str())).map(arrow));
        let unused = below.iter().filter(|name| !one.uses.contains(**name));
        found.extend(unused.map(|name| format!("{} -> {name} is listed, but unused", one.name)));
    }
    check("dependencies that the layers do not allow", &found);
}

#[test]
fn layers_list_each_crate_behind_those_that_it_uses() {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (name, below) in allowed::LAYERS {
        found.extend(
            below.iter().filter(|other| !seen.contains(*other)).map(|other| format!("{name} -> {other}")),
        );
        seen.insert(name);
    }
    check("crates that use one behind them", &found);
}

#[test]
fn files_of_a_crate_do_not_import_each_other() {
    let mut found = Vec::new();
    let mut pairs = BTreeSet::new();
    for one in crates() {
        for imports in one.imports().unwrap() {
            check_cycles(&imports, &mut found, &mut pairs);
        }
    }
    for pair in allowed::PAIRS {
        assert!(!pair.reason.is_empty());
        if !pairs.contains(&(pair.name.to_owned(), pair.files.map(str::to_owned).to_vec())) {
            found.push(format!("{}: the pair {} is gone, remove it", pair.name, pair.files.join(" ")));
        }
    }
    check("import cycles (`make cycles EDGES=1` prints the imports)", &found);
}

/// Adds the differences between the cycles of a crate and the lists to `found`. Collects the allowed pairs
/// that exist in `pairs`.
fn check_cycles(imports: &Imports, found: &mut Vec<String>, pairs: &mut BTreeSet<(String, Vec<String>)>) {
    let mut sizes = Vec::new();
    let mut larger = Vec::new();
    for files in imports.cycles() {
        let is_allowed = |pair: &allowed::Pair| pair.name == imports.name && pair.files[..] == files[..];
        if allowed::PAIRS.iter().any(is_allowed) {
            pairs.insert((imports.name.clone(), files.iter().map(|file| (*file).to_owned()).collect()));
        } else {
            sizes.push(files.len());
            larger.push(files.join(" "));
        }
    }
    let listed = allowed::CYCLES_NOT_YET_DISSOLVED.iter().find(|(name, _)| *name == imports.name);
    let listed = listed.map_or(&[][..], |(_, sizes)| *sizes);
    if sizes != listed {
        let cycles = larger.join("\n    ");
        found.push(format!(
            "{}: cycles of {sizes:?} files, listed are {listed:?}\n    {cycles}",
            imports.name
        ));
    }
}

#[test]
fn modules_of_a_crate_import_only_those_below_them() {
    let mut found = Vec::new();
    for imports in crates().iter().flat_map(|one| one.imports().unwrap()) {
        let layers = allowed::MODULES.iter().find(|(name, _)| *name == imports.name);
        if let Some((_, layers)) = layers {
            check_layers(&imports.of_modules(), layers, &mut found);
        }
    }
    check("imports of modules that are not below", &found);
}

/// Adds the imports between modules that do not lead from a higher layer to a lower one.
fn check_layers(modules: &Imports, layers: &[&[&str]], found: &mut Vec<String>) {
    let layer = |name: &str| layers.iter().position(|layer| layer.contains(&name));
    let Imports { name, files, graph } = modules;
    for (from, module) in files.iter().enumerate() {
        let Some(own) = layer(module) else {
            found.push(format!("{name}: {module} is in no layer"));
            continue;
        };
        for (to, names) in graph.from(from) {
            if layer(&files[*to]).is_some_and(|below| below >= own) {
                let names = names.keys().cloned().collect::<Vec<_>>().join(", ");
                found.push(format!("{name}: {module} -> {}: {names}", files[*to]));
            }
        }
    }
    let listed = layers.iter().flat_map(|layer| layer.iter());
    let gone = listed.filter(|module| !files.iter().any(|file| file == *module));
    found.extend(gone.map(|module| format!("{name}: {module} is listed, but no module")));
}

#[test]
fn each_source_file_opens_with_its_documentation() {
    let sources = texts(&[".rs"]).into_iter();
    let without = sources.filter(|(_, text)| !rules::has_head(text));
    check("files without `//!`", &without.map(|(file, _)| file.display().to_string()).collect::<Vec<_>>());
}

#[test]
fn unsafe_is_in_sys_only() {
    let mut found = Vec::new();
    for (file, text) in texts(&[".rs"]) {
        let is_sys = file.iter().any(|part| part == "sys" || part == "sys.rs");
        let is_allowed = allowed::UNSAFE.iter().any(|(name, _)| Path::new(name) == file);
        if !is_sys && !is_allowed {
            let lines = rules::lines_with_unsafe(&text).unwrap();
            found.extend(lines.iter().map(|line| format!("{}:{line}", file.display())));
        }
    }
    check("`unsafe` outside of sys", &found);
}

#[test]
fn lines_are_not_too_wide() {
    let mut found = BTreeMap::<String, (Vec<String>, Vec<String>)>::new();
    for (file, text) in texts(&[".rs"]) {
        let (comments, code) = found.entry(owner(&file)).or_default();
        for (line, at) in text.lines().zip(1..).filter(|(line, _)| rules::is_too_wide(line)) {
            let lines = if rules::is_comment(line) { &mut *comments } else { &mut *code };
            lines.push(format!("{}:{at}", file.display()));
        }
    }
    let mut faults = Vec::new();
    for (name, (comments, code)) in found {
        let listed = allowed::WIDE_LINES.iter().find(|(listed, ..)| *listed == name);
        let (_, comments_max, code_max) = *listed.unwrap_or(&("", 0, 0));
        faults.extend(beyond(&name, "comments", &comments, comments_max));
        faults.extend(beyond(&name, "code", &code, code_max));
    }
    check(&format!("more lines of over {WIDTH_MAX} characters than are listed"), &faults);
}

#[test]
fn lines_of_text_are_not_too_wide() {
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for (file, text) in texts(&[".md"]) {
        let wide = text.lines().zip(1..).filter(|(line, _)| rules::is_too_wide(line));
        let wide = wide.map(|(_, at): (_, usize)| format!("{}:{at}", file.display()));
        found.entry(owner(&file)).or_default().extend(wide);
    }
    let mut faults = Vec::new();
    for (name, lines) in found {
        let listed = allowed::WIDE_LINES_OF_TEXT.iter().find(|(listed, _)| *listed == name);
        faults.extend(beyond(&name, "text", &lines, listed.map_or(0, |(_, lines)| *lines)));
    }
    check(&format!("more lines of over {WIDTH_MAX} characters than are listed"), &faults);
}

fn beyond(name: &str, kind: &str, lines: &[String], max: usize) -> Option<String> {
    let is_too_many = lines.len() > max;
    is_too_many
        .then(|| format!("{name}, {kind}: {} lines, listed are {max}: {}", lines.len(), lines.join(" ")))
}

#[test]
fn test_names_are_not_too_long() {
    let mut found = Vec::new();
    for (file, text) in texts(&[".rs"]) {
        let names = rules::test_names(&text).unwrap().into_iter();
        let long = names.filter(|name| name.len() > TEST_NAME_MAX);
        found.extend(long.map(|name| format!("{}: {name}", file.display())));
    }
    check(&format!("names of tests with more than {TEST_NAME_MAX} characters"), &found);
}

#[test]
fn no_line_names_a_folder_of_one_machine() {
    let mut found = Vec::new();
    for (file, text) in texts(&[""]) {
        let is_corpus = file.starts_with("fuzz/corpus");
        let is_allowed = allowed::LOCAL_PATHS.iter().any(|(name, _)| Path::new(name) == file);
        // These files contain the rule itself, or are exempt.
        if is_corpus || is_allowed || file.ends_with("tollgate-tidy/src/rules.rs") {
            continue;
        }
        let lines = text.lines().zip(1..).filter(|(line, _)| rules::has_local_path(line));
        found.extend(lines.map(|(line, at): (_, usize)| format!("{}:{at}: {}", file.display(), line.trim())));
    }
    check("local paths", &found);
}

#[test]
fn public_types_of_a_crate_have_names_of_their_own() {
    let mut found = Vec::new();
    for one in crates() {
        let root = ["lib.rs", "main.rs"].map(|file| one.folder.join("src").join(file));
        let root = root.iter().find(|root| root.is_file()).unwrap();
        let target = Target::load(root, &|path| fs::read_to_string(path)).unwrap();
        let names = rules::names_defined_twice(&target);
        let listed = allowed::NAMES_DEFINED_TWICE.iter().find(|(name, _)| *name == one.name);
        let listed = listed.map_or(&[][..], |(_, names)| *names);
        let more = names.iter().filter(|(name, _)| !listed.contains(&name.as_str()));
        found.extend(more.map(|(name, files)| format!("{}: {name} in {files:?}", one.name)));
        let gone = listed.iter().filter(|name| !names.contains_key(**name));
        found.extend(gone.map(|name| format!("{}: {name} is unique now, remove it from the list", one.name)));
    }
    check("names that two public types of a crate have", &found);
}
