//! Passes on what the program was built from, for `tollgate --version`: the commit, its date, and the
//! features. The date of the build is not part of it, so the same commit gives the same bytes.

use std::env;
use std::process::Command;

/// Names the commit where there is no git, as `HASH of DATE`.
const VARIABLE: &str = "TOLLGATE_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let commit = env::var(VARIABLE).ok().filter(|named| !named.is_empty()).unwrap_or_else(commit);
    let features = if env::var_os("CARGO_FEATURE_TYPES").is_some() { "types" } else { "none" };
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo::rustc-env=TOLLGATE_VERSION={version} (commit {commit}, features {features})");
}

/// Returns the present commit, with a note if files differ from it.
///
/// A debug build is not bound to a commit. If it were, each commit would compile the program again.
fn commit() -> String {
    if env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        return "unknown, debug build".to_owned();
    }
    let Some(commit) = git(&["log", "-1", "--abbrev=12", "--date=short", "--format=%h of %cd"]) else {
        return "unknown".to_owned();
    };
    // A commit, a checkout, or a changed source runs this script again.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=../../crates");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit} with changes"),
    }
}

/// Returns what git prints, or `None` if there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
