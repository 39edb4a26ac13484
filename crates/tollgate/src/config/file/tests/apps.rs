//! Apps: the places of mounts, conflicts, and the variables that they may read.

use std::time::Duration;

use tollgate_server::HandlerSpec;

use super::*;

const SHOP: &str = r#"
[limits]
body_bytes_max = "64KiB"
[script]
cpu_budget = "20ms"
[stream.orders]
columns = [{ name = "n", type = "int" }]
[[route]]
path = "/"
script = "index.luau"
[[route]]
path = "/orders/{id}"
script = "index.luau"
stream = "orders"
body_bytes_max = "1KiB"
"#;

/// Makes a folder with one app for each text: `a`, `b`, and so on.
fn folder(apps: &[&str]) -> tempfile::TempDir {
    let dir = app();
    for (name, text) in ["a", "b", "c"].iter().zip(apps) {
        let app = dir.path().join(name);
        fs::create_dir_all(app.join("public")).unwrap();
        fs::write(app.join("app.toml"), text).unwrap();
        fs::write(app.join("index.luau"), "return function() return 204 end\n").unwrap();
    }
    dir
}

fn resolved(dir: &tempfile::TempDir, text: &str) -> Result<Config, Vec<String>> {
    let folder = format!("{}/", dir.path().display());
    let faults = |error: ConfigError| {
        error.faults.iter().map(|fault| fault.to_string().replace(&folder, "")).collect::<Vec<_>>()
    };
    resolve(&dir.path().join("t.toml"), text, &env).map_err(faults)
}

fn check_apps(apps: &[&str], text: &str, expected: &[&str]) {
    let faults = resolved(&folder(apps), text).err().unwrap_or_default();
    assert_eq!(faults, expected, "{text}");
}

fn mount(path: &str, dir: &str) -> String {
    format!("[[app]]\npath = \"{path}\"\ndir = \"{dir}\"\n")
}

#[test]
fn routes_of_an_app_are_below_its_mount_with_its_limits() {
    let dir = folder(&[SHOP]);
    let text = format!("{}host = \"Shop.example\"\n{}", mount("/shop", "a"), mount("/", "a"));
    let config = resolved(&dir, &text).unwrap();
    let routes: Vec<_> = config.server.routes.iter().collect();
    let found: Vec<_> =
        routes.iter().map(|route| (route.path.as_str(), route.host.as_deref(), route.app)).collect();
    let host = Some("shop.example");
    let expected = [
        ("/shop/", host, Some(0)),
        ("/shop/orders/{id}", host, Some(0)),
        ("/", None, Some(1)),
        ("/orders/{id}", None, Some(1)),
    ];
    assert_eq!(found, expected);
    assert_eq!((routes[0].body_bytes_max, routes[1].body_bytes_max), (64 << 10, 1 << 10));
    assert_eq!((routes[0].stream, routes[1].stream, routes[3].stream), (None, Some(0), Some(0)));
    let bases: Vec<_> = config.server.apps.iter().map(|app| app.script.base.as_str()).collect();
    assert_eq!(bases, ["/shop", ""]);
    assert_eq!(config.server.apps[0].script.cpu_budget, Duration::from_millis(20));
    assert_eq!(config.server.script.cpu_budget, Duration::from_millis(50));
    let HandlerSpec::Script { file, root } = &routes[0].handler else { panic!() };
    assert_eq!((file, root), (&dir.path().join("a/index.luau"), &dir.path().join("a")));
}

#[test]
fn the_script_settings_of_the_mount_count_more() {
    let text = format!("{}[app.script]\ncpu_budget = \"5ms\"\n", mount("/a", "a"));
    let config = resolved(&folder(&[SHOP]), &text).unwrap();
    assert_eq!(config.server.apps[0].script.cpu_budget, Duration::from_millis(5));
}

#[test]
fn apps_print_as_a_file_that_means_the_same() {
    let dir = folder(&[SHOP]);
    let prefixed = format!("{}stream_prefix = \"other_\"\n", mount("/b", "a"));
    let text = format!("{}[app.script]\nenv = [\"SECRET\"]\n{prefixed}{SCORES}", mount("/a", "a"));
    let printed = resolved(&dir, &text).unwrap().to_string();
    assert!(printed.contains("\n# path = \"/b/orders/{id}\"\n"), "{printed}");
    assert!(printed.contains("\n# [stream.other_orders]\n"), "{printed}");
    assert!(printed.contains("\n[stream.scores]\n") && !printed.contains("\n[stream.orders]"), "{printed}");
    assert_eq!(resolved(&dir, &printed).unwrap().to_string(), printed);
}

#[test]
fn an_app_that_stands_alone_is_mounted_at_the_root() {
    let dir = folder(&[
        "[script]\nenv = [\"SECRET\"]\n[[route]]\npath = \"/\"\nreply = { body = \"${SECRET}\" }\n",
    ]);
    let config = resolve_app(&dir.path().join("a"), &env).unwrap();
    assert_eq!(config.server.routes[0].path, "/");
    assert_eq!(config.server.apps[0].script.env, ["SECRET"]);
    assert_eq!(config.log.dir, dir.path().join("a/data/log"));
    assert_eq!(config.source, dir.path().join("a"));
}

#[test]
fn mounts_are_literal_paths_of_folders_with_an_app() {
    let allowed = "allowed are \"/\" and literal segments like \"/shop\", without a slash at the end";
    for path in ["shop", "/shop/", "/{tenant}", "/*", "*", "//", "/a//b", "", "/../x"] {
        let fault = format!("t.toml:2:8: path in [[app]] is {path:?}, {allowed}");
        check_apps(&[SHOP], &mount(path, "a"), &[&fault]);
    }
    check_apps(
        &[SHOP],
        "[[app]]\npth = \"/x\"\ndir = \"c\"\nhost = \"a:80\"\n",
        &[
            "t.toml:1:1: missing key \"path\" in [[app]]",
            "t.toml:2:1: unknown key \"pth\" in [[app]], did you mean \"path\"?",
            "t.toml:3:7: dir in [[app]] is \"c\", which has no app.toml: looked for c/app.toml",
            "t.toml:4:8: host in [[app]] is \"a:80\", allowed is a name or an address without a port",
        ],
    );
    check_apps(
        &[SHOP],
        &(mount("/a", "a") + &mount("/b", "a") + &mount("/a", "a")),
        &["t.toml:7:1: app \"/a\" is mounted twice, first at line 1"],
    );
}

#[test]
fn faults_of_an_app_are_told_with_its_own_file_and_line() {
    let app = "[[route]]\npath = \"/\"\nscript = \"nothing.luau\"\nhost = \"x\"\n[server]\nlisten = []\n";
    let faults = resolved(&folder(&[app]), &mount("/a", "a")).err().unwrap_or_default();
    // Another test checks the list of a route's keys.
    let faults: Vec<_> = faults.iter().filter_map(|fault| fault.split(", allowed: path,").next()).collect();
    assert_eq!(
        faults,
        [
            "a/app.toml:3:10: script \"nothing.luau\" is not a file: looked for a/nothing.luau",
            "a/app.toml:4:1: unknown key \"host\" in [[route]]",
            "a/app.toml:5:2: unknown key \"server\" in the file, allowed: limits, script, stream, auth, route",
        ]
    );
    check_apps(&["[[route]\n"], &mount("/a", "a"), &["a/app.toml:1:9: unclosed array table, expected `]`"]);
}

#[test]
fn an_app_stays_in_its_folder() {
    let route = |text: &str| format!("[[route]]\npath = \"/*\"\n{text}\n");
    let dir = folder(&[&route("files = \"../b/public\""), SHOP, &route("script = \"link.luau\"")]);
    std::os::unix::fs::symlink(dir.path().join("a.luau"), dir.path().join("c/link.luau")).unwrap();
    for (app, file) in [("a", "a/../b/public"), ("c", "c/link.luau")] {
        let faults = resolved(&dir, &mount("/x", app)).err().unwrap_or_default();
        let allowed = "is outside of the app, allowed are paths in its folder:";
        assert_eq!(faults, [format!("{app}/app.toml:1:1: {file} {allowed} {app}")]);
    }
    let text = "[[route]]\npath = \"*\"\nreply = {}\n";
    let expected = "a/app.toml:2:8: path is \"*\", which stands for the whole server: allowed in an app is a \
                    path that begins with \"/\"";
    check_apps(&[text], &mount("/x", "a"), &[expected]);
}

#[test]
fn routes_in_the_way_of_an_app_are_told_with_both_places() {
    let route = |path: &str| format!("[[route]]\npath = \"{path}\"\nscript = \"a.luau\"\n");
    check_apps(
        &[SHOP],
        &(route("/a/orders/{x}") + &mount("/a", "a")),
        &["a/app.toml:11:1: route \"/a/orders/{id}\" conflicts with the route at t.toml:1: host and path \
             are the same, and methods overlap"],
    );
    check_apps(
        &[SHOP],
        &(mount("/a", "a") + &route("/a/*")),
        &["t.toml:4:1: route \"/a/*\" matches every request of app \"/a\" at line 1: choose another path \
             or host"],
    );
    check_apps(
        &["[[route]]\npath = \"/b/\"\nreply = {}\n", SHOP],
        &(mount("/a", "a") + &mount("/a/b", "b")),
        &["b/app.toml:8:1: route \"/a/b/\" conflicts with the route at a/app.toml:1: host and path are the \
             same, and methods overlap"],
    );
    // These routes do not conflict with the mount: they have another host, another method or another shape.
    let other = "host = \"x\"\n";
    check_apps(&[SHOP], &(route("/a/*") + other + &route("/a/x") + &mount("/a", "a")), &[]);
}

#[test]
fn streams_of_one_name_are_told_with_both_places_unless_they_are_one() {
    let remedy = "rename it, or set stream_prefix in the [[app]] at";
    let own = "[stream.Orders]\ncolumns = [{ name = \"n\", type = \"int\" }]\n";
    check_apps(
        &[SHOP],
        &(own.to_owned() + &mount("/a", "a")),
        &[&format!(
            "a/app.toml:6:9: stream \"orders\" is declared twice, first at t.toml:1: {remedy} t.toml:3"
        )],
    );
    check_apps(
        &[SHOP, SHOP],
        &(mount("/a", "a") + &mount("/b", "b")),
        &[&format!(
            "b/app.toml:6:9: stream \"orders\" is declared twice, first at a/app.toml:6: {remedy} t.toml:4"
        )],
    );
    check_apps(&[SHOP], &(mount("/a", "a") + &mount("/b", "./a")), &[]);
    check_apps(&[SHOP, SHOP], &(mount("/a", "a") + &mount("/b", "b") + "stream_prefix = \"b_\"\n"), &[]);
    check_apps(
        &[SHOP],
        &(mount("/a", "a") + "stream_prefix = \"9\"\n"),
        &[
            "t.toml:4:17: stream_prefix in [[app]] is \"9\", allowed is a letter or _, then letters, digits and _, like \"shop_\"",
        ],
    );
    check_apps(
        &[SHOP],
        &(mount("/a", "a") + "stream_prefix = \"sqlite_\"\n"),
        &["a/app.toml:6:9: stream is named \"sqlite_orders\": names that begin with sqlite_ are reserved, \
             choose another name"],
    );
}

#[test]
fn an_app_reads_of_the_environment_what_its_mount_grants() {
    let app = "[script]\nenv = [\"SECRET\"]\n[[route]]\npath = \"/\"\nreply = { body = \"${SECRET}\" }\n";
    check_apps(
        &[app],
        &("[script]\nenv = [\"SECRET\"]\n".to_owned() + &mount("/a", "a")),
        &[
            "a/app.toml:2:8: env in [script] has \"SECRET\", which the mount does not grant: add it to env \
             in [app.script] of the [[app]] at t.toml:3",
            "a/app.toml:5:18: body in reply of [[route]]: environment variable SECRET is not set",
        ],
    );
    let granted = mount("/a", "a") + "[app.script]\nenv = [\"SECRET\", \"SHORT\"]\n";
    let config = resolved(&folder(&[app]), &granted).unwrap();
    assert_eq!(config.server.apps[0].script.env, ["SECRET", "SHORT"]);
    assert!(config.server.script.env.is_empty());
}

#[test]
fn an_app_awaits_a_sink_as_any_stream_does() {
    let awaiting = SHOP.replace("[stream.orders]\n", "[stream.orders]\nack = \"loaded\"\n");
    let two = "[sink.one]\nsqlite = \"1\"\n[sink.two]\nsqlite = \"2\"\n";
    check_apps(
        &[&awaiting],
        &(mount("/a", "a") + "stream_prefix = \"a_\"\n" + two),
        &["a/app.toml:7:7: ack of [stream.a_orders] is \"loaded\", but 2 sinks take the stream: write { \
             loaded = \"SINK\" } with one of one, two"],
    );
    check_apps(
        &[&awaiting],
        &(mount("/a", "a") + "[sink.one]\nsqlite = \"1\"\nstreams = [\"orders\"]\n"),
        &[],
    );
}

#[test]
fn folders_that_a_mount_grants_are_relative_to_the_configuration() {
    let dir = folder(&[SHOP]);
    fs::create_dir(dir.path().join("shared")).unwrap();
    let granted = "[app.script]\nfile_dir = \"shared\"\nupload_dir = \"shared\"\n";
    let config = resolved(&dir, &format!("{}{granted}", mount("/", "a"))).unwrap();
    let access = &config.server.routes[0].access;
    let shared = dir.path().join("shared");
    assert_eq!(access.files.as_ref().map(|files| &files.root), Some(&shared));
    assert_eq!(access.uploads.as_ref().map(|uploads| &uploads.dir), Some(&shared));
}
