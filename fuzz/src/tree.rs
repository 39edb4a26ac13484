//! A small folder with all kinds of entries, and files outside it. The reference reading finds the entry of a
//! path by the list, without a system call.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Content outside the folder, which must never be sent.
pub const CANARY: &str = "CANARY-outside-of-the-folder";

/// Names and contents of the files. A compressed variant follows its file.
pub const FILES: [(&str, &str); 22] = [
    ("index.html", "<p>the front page"),
    ("a.txt", "alpha"),
    ("a.txt.gz", "alpha in gzip"),
    ("b.html", "<p>about b"),
    ("b/index.html", "<p>the index of b"),
    ("b/c.txt", "gamma"),
    ("b/d/e", "epsilon"),
    ("empty/x", "x marks it"),
    (".env", "a secret of ours"),
    (".well-known/w", "well known"),
    ("b/.well-known/w", "hidden below"),
    ("b/.git/config", "[core] hidden"),
    ("sp ace.txt", "a blank"),
    ("\u{fc}n\u{ef}.txt", "letters"),
    ("100%.txt", "percent"),
    ("%2e%2e/c.txt", "escapes in a name"),
    ("back\\slash", "never found"),
    ("...", "three dots"),
    ("..;", "dots and a semicolon"),
    ("q?.txt", "a question"),
    ("+&=,~'(1)!", "signs"),
    ("\u{2215}", "a slash that is none"),
];

/// Links: a name and its target.
const LINKS: [(&str, &str); 8] = [
    ("link.txt", "a.txt"),
    ("b/up.txt", "../a.txt"),
    ("linked", "b"),
    ("out.txt", "../canary.txt"),
    ("up", ".."),
    ("root", "/"),
    ("loop", "loop"),
    ("none", "nothing"),
];

/// Maximum number of links that are followed in one path. The kernel has the same limit.
const LINKS_MAX: usize = 40;

/// An entry at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    File(&'static str),
    Folder,
}

/// Writes the folder to `folder/public`, and canaries next to it.
pub fn write(folder: &Path) -> std::io::Result<()> {
    let public = folder.join("public");
    for (name, content) in FILES {
        let path = public.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&public))?;
        fs::write(path, content)?;
    }
    for (name, target) in LINKS {
        symlink(target, public.join(name))?;
    }
    symlink(folder.join("canary.txt"), public.join("absolute.txt"))?;
    // The listener is closed here, but its socket file stays.
    UnixListener::bind(public.join("socket"))?;
    for beside in ["public-secret", "public.", "b"] {
        fs::create_dir(folder.join(beside))?;
        fs::write(folder.join(beside).join("canary.txt"), CANARY)?;
    }
    fs::write(folder.join("canary.txt"), CANARY)
}

/// Returns the entry at a path of names between slashes. Links count as absent, or are followed while they
/// lead to entries inside the folder.
pub fn at(path: &str, follows_links: bool) -> Option<Node> {
    let names = path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    walk(names, follows_links)
}

fn walk(mut ahead: Vec<String>, follows_links: bool) -> Option<Node> {
    let mut behind: Vec<String> = Vec::new();
    let mut links = 0;
    while !ahead.is_empty() {
        let name = ahead.remove(0);
        if name == ".." {
            behind.pop()?;
            continue;
        }
        behind.push(name);
        let here = behind.join("/");
        if let Some((_, target)) = LINKS.iter().find(|(link, _)| *link == here) {
            links += 1;
            if !follows_links || links > LINKS_MAX || target.starts_with('/') {
                return None;
            }
            behind.pop();
            let target = target.split('/').map(str::to_owned);
            ahead.splice(0..0, target);
            continue;
        }
        let node = listed(&here)?;
        if node != Node::Folder && !ahead.is_empty() {
            return None;
        }
    }
    listed(&behind.join("/"))
}

fn listed(path: &str) -> Option<Node> {
    let below = format!("{path}/");
    if let Some((_, content)) = FILES.iter().find(|(name, _)| *name == path) {
        return Some(Node::File(content));
    }
    let is_folder = path.is_empty() || FILES.iter().any(|(name, _)| name.starts_with(&below));
    is_folder.then_some(Node::Folder)
}
