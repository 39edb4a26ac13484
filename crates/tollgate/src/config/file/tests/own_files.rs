//! The server serves none of its own files, and scripts write over none of them.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

/// Returns the server's own files that a route's folder would reach, by their names in the fault. Empty if
/// the folder is allowed.
fn reached(dir: &Path, route: &str, more: &str) -> Vec<String> {
    let text = format!("[[route]]\npath = \"/save/*\"\n{route}\n{more}");
    let Err(error) = resolve(&dir.join("t.toml"), &text, &env) else { return Vec::new() };
    let error = error.to_string();
    let key = route.lines().last().and_then(|line| line.split(' ').next()).unwrap();
    let start = format!("{}:1:1: {key} of route \"/save/*\" is ", dir.join("t.toml").display());
    assert!(error.starts_with(&start) && !error.contains('\n'), "{error}");
    let never = if key == "upload_dir" { "scripts could overwrite" } else { "clients could fetch" };
    let (_, reached) = error.split_once(&format!("where {never} files of the server: ")).expect(&error);
    let names = reached.split("), ").map(|own| own.rsplit_once(" (").expect(&error).0.to_owned());
    names.collect()
}

fn upload_dir(folder: &str) -> String {
    format!("script = \"a.luau\"\nupload_dir = \"{folder}\"")
}

#[test]
fn a_folder_for_uploads_is_apart_from_what_the_server_writes_and_runs() {
    let app = app();
    let dir = app.path();
    for folder in ["up", "data/log/x", "data/spool", "lib/x", "mounted"] {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    symlink(dir.join("data"), dir.join("link")).unwrap();
    symlink(dir.join("up"), dir.join("fine")).unwrap();
    fs::write(dir.join("mounted/app.toml"), "[[route]]\npath = \"/\"\nscript = \"b.luau\"\n").unwrap();
    fs::write(dir.join("mounted/b.luau"), "").unwrap();
    fs::write(dir.join("after.sql"), "").unwrap();
    let check = |up: &str, more: &str, expected: &[&str]| {
        assert_eq!(reached(dir, &upload_dir(up), more), expected, "{up} {more}");
    };
    let script = "the script of route \"/save/*\"";
    let all = [
        "dir in [log]",
        "spool_dir",
        "the development authority",
        "the configuration",
        "sqlite in [sink.main]",
        script,
        "the modules of scripts",
    ];
    check("up", "", &[]);
    check("fine", "", &[]);
    check(".", "", &all);
    check("up/..", "", &all);
    let of_data = ["dir in [log]", "spool_dir", "the development authority", "sqlite in [sink.main]"];
    check("data", "", &of_data);
    check("link", "", &of_data);
    check("data/log", "", &["dir in [log]"]);
    check("data/log/x", "", &["dir in [log]"]);
    check("data/spool", "", &["spool_dir"]);
    check("lib/x", "", &["the modules of scripts"]);
    check("up", "[sink.s]\nsqlite = \"up/rows.db\"\n", &["sqlite in [sink.s]"]);
    check("up", "[log]\ndir = \"up/log\"\n", &["dir in [log]"]);
    check(
        "mounted",
        "[[app]]\npath = \"/m\"\ndir = \"mounted\"\n",
        &["app \"/m\"", "the script of route \"/m/\"", "the modules of scripts"],
    );
}

#[test]
fn files_that_the_server_writes_and_runs_are_not_served() {
    let app = app();
    let dir = app.path();
    for folder in ["public", "pages", "data/log/x", "data/spool/x", "lib/x", "apps/shop/public"] {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    fs::write(dir.join("apps/shop/app.toml"), "[[route]]\npath = \"/*\"\nfiles = \"public\"\n").unwrap();
    fs::write(dir.join("pages/b.luau"), "").unwrap();
    let check = |folder: &str, more: &str, expected: &[&str]| {
        for key in ["files", "script = \"a.luau\"\nfile_dir"] {
            let route = format!("{key} = \"{folder}\"");
            let found = reached(dir, &route, more);
            let found: Vec<_> =
                found.iter().filter(|name| **name != "the script of route \"/save/*\"").collect();
            assert_eq!(found, expected, "{route} {more}");
        }
    };
    let elsewhere = "[server]\nspool_dir = \"/nowhere/spool\"\n[log]\ndir = \"/nowhere/log\"\n";
    let script = format!("{elsewhere}[[route]]\npath = \"/b\"\nscript = \"pages/b.luau\"\n");
    let (conf, rows) = ("the configuration", "sqlite in [sink.main]");
    check("public", &script, &[]);
    check("pages", elsewhere, &[]);
    check("pages", &script, &["the script of route \"/b\""]);
    check("data", elsewhere, &["the development authority", rows]);
    check("data/log/x", "", &["dir in [log]"]);
    check("data/spool/x", "", &["spool_dir"]);
    check("lib/x", &script, &["the modules of scripts"]);
    check("public", "[sink.s]\nsqlite = \"public/rows.db\"\n", &["sqlite in [sink.s]"]);
    check("public", "[database.d]\nsqlite = \"public/d.db\"\n", &["sqlite in [database.d]"]);
    let bus = "[sink.k]\nkafka = \"b:1\"\ntls = true\ntls_certificate = \"c.pem\"\n\
               tls_key = \"public/key.pem\"\nsasl = \"oauthbearer\"\nsasl_token_file = \"public/token\"\n";
    check("public", bus, &["tls_key in [sink.k]", "sasl_token_file in [sink.k]"]);
    for file in ["public/token", "public/secret"] {
        fs::write(dir.join(file), "").unwrap();
    }
    for (keys, key) in [
        ("token_file = \"public/token\"", "token_file"),
        ("client_id = \"me\", client_secret_file = \"public/secret\"", "client_secret_file"),
    ] {
        let lake =
            format!("[sink.k]\niceberg = {{ catalog = \"https://c\", warehouse = \"lake\", {keys} }}\n");
        check("public", &lake, &[&format!("{key} in [sink.k]")]);
    }
    let shop = format!("{elsewhere}[[app]]\npath = \"/shop\"\ndir = \"apps/shop\"\n");
    check("apps", &shop, &["app \"/shop\""]);
    check("apps/shop/public", &shop, &[]);
    let all = reached(dir, "files = \".\"", &script);
    assert_eq!(
        all,
        ["the development authority", conf, rows, "the script of route \"/b\"", "the modules of scripts"]
    );
}

#[test]
fn a_folder_for_uploads_of_all_scripts_is_told_once() {
    let app = app();
    let route = |path: &str| format!("[[route]]\npath = \"{path}\"\nscript = \"a.luau\"\n");
    let text = format!("[script]\nupload_dir = \".\"\n{}{}", route("/a"), route("/b"));
    let error = resolve(&app.path().join("t.toml"), &text, &env).unwrap_err();
    assert_eq!(error.faults.len(), 1, "{error}");
    assert_eq!(error.faults[0].line, 3);
}

#[test]
fn a_link_to_a_folder_that_the_server_writes_to_is_not_served() {
    let app = app();
    fs::create_dir_all(app.path().join("data/log")).unwrap();
    symlink(app.path().join("data"), app.path().join("public")).unwrap();
    let text = "[[route]]\npath = \"/*\"\nfiles = \"public\"\n";
    let error = resolve(&app.path().join("t.toml"), text, &env).unwrap_err().to_string();
    assert!(error.contains("where clients could fetch files of the server: dir in [log] ("), "{error}");
}
