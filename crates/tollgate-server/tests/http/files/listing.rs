//! Tests of listings of folders: the names that they show and hide, and the clients that get them.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::{Duration, SystemTime};

use tollgate_server::{FilesSpec, Symlinks};

use super::found::{ask, get};
use crate::site::Site;

fn listing(site: Site, tune: impl FnOnce(&mut FilesSpec)) -> Site {
    site.files("/files/*", |spec| {
        spec.listing = true;
        tune(spec);
    })
}

fn dated(site: Site) -> Site {
    let path = site.folder().join("public/b.txt");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    site
}

/// Returns the names of a listing in JSON, in their order.
fn names(content: &str) -> Vec<String> {
    let listing: serde_json::Value = serde_json::from_str(content).unwrap();
    let entries = listing["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

const JSON: &str = "Accept: application/json\r\n";

#[test]
fn a_folder_shows_what_is_in_it_in_order_with_size_and_time() {
    let site = Site::new().file("public/b.txt", "beta").file("public/a/x", "").file("public/Z.txt", "");
    let server = listing(dated(site), |_| {}).start();
    let reply = get(&server, "/files/");
    assert_eq!((reply.status, reply.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!((reply.field("vary"), reply.field("cache-control")), (Some("Accept"), Some("no-cache")));
    assert_eq!(reply.field("x-content-type-options"), Some("nosniff"));
    let rows: Vec<_> = reply.content.lines().filter(|line| line.starts_with("<tr>")).collect();
    assert!(rows[0].starts_with("<tr><td><a href=\"./a/\">a/</a></td><td></td><td>20"), "{rows:?}");
    assert!(rows[1].starts_with("<tr><td><a href=\"./Z.txt\">Z.txt</a></td><td>0</td><td>20"), "{rows:?}");
    assert_eq!(
        rows[2],
        "<tr><td><a href=\"./b.txt\">b.txt</a></td><td>4</td><td>2001-09-09T01:46:40Z</td></tr>"
    );
    assert_eq!(rows.len(), 3);
    assert!(get(&server, "/files/a/").content.contains("<a href=\"../\">"));
    assert_eq!(get(&server, "/files/a").field("location"), Some("/files/a/"));
    assert_eq!(get(&server, "/files/no/").status, 404);
    assert_eq!(get(&server, "/files/b.txt/").status, 404);
}

#[test]
fn a_program_gets_json_and_each_form_has_its_tag() {
    let site = Site::new().file("public/b.txt", "beta").file("public/a/x", "");
    let server = listing(dated(site), |_| {}).start();
    let reply = ask(&server, "GET", "/files/", JSON);
    assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
    let listing: serde_json::Value = serde_json::from_str(&reply.content).unwrap();
    assert_eq!((&listing["path"], &listing["is_complete"]), (&"/files/".into(), &true.into()));
    let expected = serde_json::json!({
        "name": "b.txt", "type": "file", "bytes": 4, "modified": "2001-09-09T01:46:40Z",
    });
    assert_eq!(listing["entries"][1], expected);
    assert_eq!(listing["entries"][0]["type"], "folder");
    let html = get(&server, "/files/");
    assert_ne!(reply.field("etag"), html.field("etag"));
    for (fields, of) in [("", &html), (JSON, &reply)] {
        let condition = format!("{fields}If-None-Match: {}\r\n", of.field("etag").unwrap());
        assert_eq!(ask(&server, "GET", "/files/", &condition).status, 304);
        let head = ask(&server, "HEAD", "/files/", fields);
        assert_eq!(head.field("content-length"), of.field("content-length"));
    }
    // Programs may add parameters to the type, or also accept any other type.
    for accept in ["application/json; charset=utf-8", "application/json, text/plain, */*"] {
        let reply = ask(&server, "GET", "/files/", &format!("Accept: {accept}\r\n"));
        assert_eq!(reply.field("content-type"), Some("application/json"), "{accept}");
    }
    // A change of a file in the folder changes the tag, even if the time of the folder stays.
    fs::write(server.folder().join("public/b.txt"), "longer").unwrap();
    let condition = format!("If-None-Match: {}\r\n", html.field("etag").unwrap());
    assert_eq!(ask(&server, "GET", "/files/", &condition).status, 200);
}

#[test]
fn a_listing_that_is_not_what_the_client_has_is_told_by_the_page_of_that() {
    let site = Site::new().file("public/412.html", "<p>another").file("public/b.txt", "beta");
    let server = listing(site, |spec| spec.error_pages = vec![(412, "412.html".to_owned())]).start();
    let reply = ask(&server, "GET", "/files/", "If-Match: \"other\"\r\n");
    assert_eq!((reply.status, reply.content.as_str()), (412, "<p>another"));
    assert_eq!(reply.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!((reply.field("etag"), reply.field("x-content-type-options")), (None, Some("nosniff")));
}

#[test]
fn every_link_leads_to_its_file_whatever_it_is_called() {
    let odd = [
        "<script>alert(1)</script>".replace('/', "|"),
        "a b&c=d+e.txt".to_owned(),
        "\"quoted\" 'too'".to_owned(),
        "javascript:alert(1)".to_owned(),
        "ünï 日本.txt".to_owned(),
        "100%25?#.txt".to_owned(),
        "line\nbreak".to_owned(),
    ];
    let site = odd.iter().fold(Site::new(), |site, name| site.file(&format!("public/{name}"), name));
    let server = listing(site, |_| {}).start();
    let page = get(&server, "/files/").content;
    assert!(!page.contains("<script>") && !page.contains("href=\"javascript"), "{page}");
    let links: Vec<_> = page.split("href=\"./").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(links.len(), odd.len());
    let mut found: Vec<_> = links
        .iter()
        .map(|link| get(&server, &format!("/files/{}", link.replace("&amp;", "&").replace("&#39;", "'"))))
        .map(|reply| reply.content)
        .collect();
    found.sort();
    let mut expected = odd.to_vec();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn files_that_are_not_served_are_not_shown_either() {
    let site = || {
        let site = Site::new()
            .file("secret.txt", "outside")
            .file("public/a.txt", "a")
            .file("public/.hidden", "h")
            .file("public/back\\slash", "b");
        let public = site.folder().join("public");
        symlink("a.txt", public.join("inside")).unwrap();
        symlink("../secret.txt", public.join("outside")).unwrap();
        symlink("/etc", public.join("etc")).unwrap();
        symlink("nowhere", public.join("broken")).unwrap();
        drop(UnixListener::bind(public.join("socket")).unwrap());
        site
    };
    let shown = |tune: fn(&mut FilesSpec)| {
        names(&ask(&listing(site(), tune).start(), "GET", "/files/", JSON).content)
    };
    assert_eq!(shown(|_| {}), ["a.txt"]);
    assert_eq!(shown(|spec| spec.symlinks = Symlinks::Inside), ["a.txt", "inside"]);
    assert_eq!(shown(|spec| spec.dotfiles = true), [".hidden", "a.txt"]);
}

#[test]
fn an_index_goes_before_a_listing_and_without_the_key_there_is_none() {
    let site = || Site::new().file("public/a/index.html", "index").file("public/b/x", "");
    let server = listing(site(), |_| {}).start();
    assert_eq!(get(&server, "/files/a/").content, "index");
    assert_eq!(get(&server, "/files/b/").status, 200);
    assert_eq!(get(&server, "/files/.git/").status, 404);
    let server = site().files("/files/*", |_| {}).start();
    assert_eq!(get(&server, "/files/b/").status, 404);
}

#[test]
fn a_folder_that_holds_too_much_is_cut_and_says_so() {
    let site = Site::new().file("public/0", "");
    let public = site.folder().join("public");
    (1..=2000).for_each(|number| drop(File::create(public.join(number.to_string())).unwrap()));
    // A hidden entry must not count for the bound, even if the disk lists it last.
    let last = fs::read_dir(&public).unwrap().last().unwrap().unwrap().path();
    fs::remove_file(&last).unwrap();
    symlink("elsewhere", &last).unwrap();
    let server = listing(site, |_| {}).start();
    let all = ask(&server, "GET", "/files/", JSON);
    assert!(names(&all.content).len() == 2000 && all.content.contains("\"is_complete\":true"));
    assert!(!get(&server, "/files/").content.contains("The folder has more entries"));
    (2001..2100).for_each(|number| drop(File::create(public.join(number.to_string())).unwrap()));
    let cut = ask(&server, "GET", "/files/", JSON);
    assert!(names(&cut.content).len() == 2000 && cut.content.contains("\"is_complete\":false"));
    assert!(get(&server, "/files/").content.contains("The folder has more entries. This page lists 2000 of"));
}
