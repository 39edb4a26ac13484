//! Apps: mounted several times, changed and removed while they serve, each independent of the others.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;

use crate::client::Client;
use crate::program::{App, eventually, printed};

const SHOP: &str = r#"
[limits]
body_bytes_max = "10B"
[stream.orders]
columns = [{ name = "path", type = "text", from = "request.path" }, { name = "n", type = "int" }]
[[route]]
path = "/count"
script = "count.luau"
stream = "orders"
[[route]]
path = "/below/*"
script = "below.luau"
[[route]]
path = "/public/*"
files = "public"
"#;

/// A script that counts its calls in a module and in shared values. It returns its name and both counts.
const COUNT: &str = r#"
local state = require("lib/state")
return function(req)
  state.count += 1
  local shared = tollgate.shared.incr("count")
  return { body = `{state.name} {state.count} {shared}`, record = { n = state.count } }
end
"#;

const BELOW: &str = "return function(req)
  if req.query.to then return tollgate.redirect(tollgate.app.url('/below' .. req.query.to)) end
  if req.query.fail then error('broken on purpose') end
  return `{tollgate.app.base} {req.path_info} {tollgate.app.below(req.path)} {req:body()}`
end";

fn state(name: &str) -> String {
    format!("return {{ count = 0, name = {name:?} }}")
}

/// Makes the apps `shop` and `other`, each with a module of the same name.
fn site(mounts: &str) -> App {
    let app = App::new(&format!("workers = 1\n{mounts}"), &[]);
    for name in ["shop", "other"] {
        app.write(&format!("{name}/app.toml"), SHOP);
        app.write(&format!("{name}/count.luau"), COUNT);
        app.write(&format!("{name}/below.luau"), BELOW);
        app.write(&format!("{name}/lib/state.luau"), &state(name));
        app.write(&format!("{name}/public/page.txt"), &format!("a page of {name}"));
    }
    app.write("public/index.html", "the server itself");
    app
}

fn configure(app: &App, mounts: &str) {
    app.configure(&format!("workers = 1\n{mounts}"));
}

fn mount(path: &str, dir: &str) -> String {
    format!("[[app]]\npath = \"{path}\"\ndir = \"{dir}\"\n")
}

fn content(client: &mut Client, path: &str) -> String {
    let reply = client.get(path).unwrap();
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    reply.content
}

/// Ends the load when it is dropped, even if a check fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn an_app_is_served_below_each_of_its_mounts_with_state_of_its_own() {
    let files = "[[route]]\npath = \"/*\"\nfiles = \"public\"\n";
    let named = mount("/", "shop") + "host = \"shop.example\"\n";
    let app = site(&(mount("/shop", "shop") + &mount("/deep/er", "shop") + &named + files));
    let server = app.start();
    let mut client = server.connect();
    assert_eq!(content(&mut client, "/shop/count"), "shop 1 1");
    assert_eq!(content(&mut client, "/shop/count"), "shop 2 2");
    assert_eq!(
        content(&mut client, "/deep/er/count"),
        "shop 1 1",
        "modules and shared values are a mount's own"
    );
    assert_eq!(content(&mut client, "/deep/er/below/a/b"), "/deep/er /a/b /below/a/b ");
    assert_eq!(content(&mut client, "/shop/public/page.txt"), "a page of shop");
    let there = client.get("/deep/er/below/?to=/x").unwrap();
    assert_eq!((there.status, there.field("location")), (302, Some("/deep/er/below/x")));
    assert_eq!(client.get("/shop").unwrap().field("location"), Some("/shop/"));
    assert!(client.send("GET /below/x HTTP/1.1\r\nHost: shop.example\r\n\r\n"));
    assert_eq!(client.reply().unwrap().content, " /x /below/x ");
    // All paths below a mount belong to the app, even if the app has no route for them. All other paths
    // belong to the server.
    for path in ["/shop/", "/shop/index.html", "/shop/nowhere", "/deep/er/count/x"] {
        let reply = client.get(path).unwrap();
        assert_eq!((reply.status, reply.content.as_str()), (404, "no resource has this path\n"), "{path}");
    }
    assert_eq!(content(&mut client, "/"), "the server itself");
    assert_eq!(client.post("/shop/below/x", "12345678901").unwrap().status, 413);
    assert!(content(&mut server.connect(), "/shop/below/x").starts_with("/shop "));
    assert!(server.stop().0.success());
    let rows = app.query::<String>("SELECT path || ' ' || n FROM orders ORDER BY path, n");
    assert_eq!(
        rows,
        ["/deep/er/count 1", "/shop/count 1", "/shop/count 2"],
        "mounts of one folder have one table"
    );
}

#[test]
fn a_link_that_comes_to_lead_out_of_its_app_is_followed_no_more_than_at_a_reload() {
    let app = site(&(mount("/shop", "shop") + "[[route]]\npath = \"/*\"\nfiles = \"public\"\n"));
    let shop = app.path().join("shop");
    app.write("shop/releases/2/page.txt", "the second");
    app.write("elsewhere/page.txt", "nobody is to see this");
    let server = app.start();
    let mut client = server.connect();
    let mut wait_for = |path: &str, status: u16, content: &str| {
        eventually(path, || {
            let reply = client.get(path).unwrap();
            assert_ne!(reply.content, "nobody is to see this");
            ((reply.status, reply.content.as_str()) == (status, content)).then_some(())
        });
    };
    let lead = |to: &str| {
        let (link, next) = (shop.join("public"), shop.join("next"));
        symlink(to, &next).unwrap();
        fs::rename(next, link).unwrap();
    };
    wait_for("/shop/public/page.txt", 200, "a page of shop");
    fs::rename(shop.join("public"), shop.join("releases/1")).unwrap();
    lead("releases/1");
    wait_for("/shop/public/page.txt", 200, "a page of shop");
    // The link now leads to another release, by an absolute path.
    lead(shop.join("releases/2").to_str().unwrap());
    wait_for("/shop/public/page.txt", 200, "the second");
    lead("../elsewhere");
    wait_for("/shop/public/page.txt", 503, "the server cannot open the file now\n");
    let breach = "is outside of the app, allowed is what lies in its folder";
    eventually("that is told", || server.has_logged(breach).then_some(()));
    lead("releases/2");
    wait_for("/shop/public/page.txt", 200, "the second");

    // The server may serve folders anywhere, but not its own files.
    let public = app.path().join("public");
    wait_for("/", 200, "the server itself");
    for own in [".", "data", "data/log", "shop"] {
        fs::rename(&public, app.path().join("old")).unwrap();
        symlink(own, &public).unwrap();
        wait_for("/index.html", 503, "the server cannot open the file now\n");
        fs::remove_file(&public).unwrap();
        fs::rename(app.path().join("old"), &public).unwrap();
        wait_for("/", 200, "the server itself");
    }
    assert!(server.stop().1.contains("contains a path that must not be served: "));
}

#[test]
fn two_apps_with_a_module_of_one_name_do_not_meet() {
    let prefixed = mount("/b", "other") + "stream_prefix = \"other_\"\n";
    let app = site(&(mount("/a", "shop") + &prefixed));
    let server = app.start();
    let mut client = server.connect();
    assert_eq!(content(&mut client, "/a/count"), "shop 1 1");
    assert_eq!(content(&mut client, "/b/count"), "other 1 1");
    assert!(server.stop().0.success());
    assert_eq!(app.query::<String>("SELECT path FROM other_orders"), ["/b/count"]);
    app.write("other/lib/state.luau", "return require('../shop/lib/state')");
    let output = app.run(&["check"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(printed(&output).contains("allowed are names below the root of the app"), "{}", printed(&output));
}

#[test]
fn apps_are_mounted_changed_and_removed_while_they_serve() {
    let app = site(&mount("/a", "shop"));
    let server = app.start();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = Over(&is_over);
        let load = || {
            let (mut client, mut replies) = (server.connect(), 0);
            while !is_over.load(Ordering::Relaxed) {
                assert!(content(&mut client, "/a/below/x").starts_with("/a "));
                replies += 1;
            }
            replies
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(load)).collect();
        let mut client = server.connect();
        assert_eq!(content(&mut client, "/a/count"), "shop 1 1");
        assert_eq!(client.get("/b/count").unwrap().status, 404);

        let prefixed = mount("/b", "other") + "stream_prefix = \"other_\"\n";
        configure(&app, &(mount("/a", "shop") + &prefixed));
        let answer = app.succeed(&["reload"]);
        assert!(
            answer.ends_with("\nchanged: app \"/b\": added\n") && answer.lines().count() == 3,
            "{answer}"
        );
        assert_eq!(content(&mut client, "/b/count"), "other 1 1");

        app.write("other/lib/state.luau", &state("changed"));
        let answer = app.succeed(&["reload"]);
        assert!(answer.contains("\nchanged: app \"/b\" script \"lib/state.luau\": "), "{answer}");
        assert_eq!(content(&mut client, "/b/count"), "changed 1 2", "shared values stay with the mount");

        app.write("other/lib/state.luau", "return {\n  name = \n}");
        app.write("shop/count.luau", "return function() return 'never' end");
        let output = app.run(&["reload"]);
        assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
        let text = printed(&output);
        assert!(text.contains("other/count.luau") && text.contains("state.luau:3:"), "{text}");
        assert_eq!(content(&mut client, "/b/count"), "changed 2 3", "all or nothing");
        assert_eq!(content(&mut client, "/a/count").split(' ').next(), Some("shop"), "all or nothing");

        app.write("shop/count.luau", COUNT);
        configure(&app, &mount("/a", "shop"));
        server.signal(Signal::HUP);
        eventually("it is gone", || (client.get("/b/count").unwrap().status == 404).then_some(()));
        drop(over);
        for client in clients {
            assert!(client.join().unwrap() > 0);
        }
    });
    let (status, log) = server.stop();
    assert!(status.success() && log.contains("changed: app \\\"/b\\\": removed"), "{log}");
    app.settle();
}

#[test]
fn a_request_of_an_app_that_goes_ends_with_what_it_began_with() {
    let app = site(&mount("/a", "shop"));
    app.write(
        "shop/below.luau",
        "local is_free, is_held = false, false return function(req)
           if req.query.held then return tostring(is_held) end
           if req.query.free then is_free = true return 'freed' end
           is_held = true while not is_free do tollgate.sleep(0.005) end
           return tollgate.app.url('/end') end",
    );
    let server = app.start();
    let (mut waiting, mut other) = (server.connect(), server.connect());
    assert!(waiting.send("GET /a/below/x HTTP/1.1\r\nHost: a\r\n\r\n"));
    eventually("it waits", || (content(&mut other, "/a/below/x?held=1") == "true").then_some(()));
    // This request ends the wait of the other request. The head of this request arrives before the reload,
    // and its body after the reload. So it runs the old scripts.
    let head =
        "POST /a/below/x?free=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n";
    assert!(other.send(head));
    assert_eq!(other.head().unwrap().status, 100);
    configure(&app, &mount("/other", "other"));
    assert!(app.succeed(&["reload"]).contains("changed: app \"/a\": removed\n"));
    assert_eq!(server.connect().get("/a/below/x?held=1").unwrap().status, 404);
    assert!(other.send("x"));
    assert_eq!(other.reply().unwrap().content, "freed");
    assert_eq!(waiting.reply().unwrap().content, "/a/end");
    assert!(server.stop().0.success());
}

#[test]
fn the_version_that_serves_is_in_status_log_and_errors() {
    let app = site(&mount("/a", "shop"));
    let server = app.start();
    let status = || {
        let line = app.succeed(&["status", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&line).unwrap();
        document["config"].clone()
    };
    let first = status();
    assert_eq!((&first["version"], &first["apps"][0]["path"]), (&1.into(), &"/a".into()), "{first}");
    let screen = app.succeed(&["status"]);
    let digest = first["digest"].as_str().unwrap().to_owned();
    assert!(screen.contains(&digest) && screen.contains("app /a  ("), "{screen}");
    let broken = app.config();
    app.write("tollgate.toml", "[server");
    assert_eq!(app.run(&["reload"]).status.code(), Some(2));
    assert_eq!(status()["loaded_at"], first["loaded_at"], "what was refused is no version");
    app.write("tollgate.toml", &broken);
    app.succeed(&["reload"]);
    let second = status();
    assert_eq!((&second["version"], &second["digest"]), (&2.into(), &first["digest"]), "made of the same");
    app.write("shop/lib/state.luau", &state("other text"));
    let answer = app.succeed(&["reload"]);
    let third = status();
    assert_ne!(third["digest"], first["digest"]);
    assert!(
        answer.starts_with("reloaded: version 3, ") && answer.contains(third["digest"].as_str().unwrap())
    );
    assert_eq!(server.connect().get("/a/below/x?fail=1").unwrap().status, 500);
    let (_, log) = server.stop();
    let line =
        |what: &str| log.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {log}"));
    let serving = line("\"message\":\"serving\"");
    assert!(serving.contains("\"version\":1") && serving.contains(&digest), "{serving}");
    let failed = line("broken on purpose");
    assert!(failed.contains("\"version\":3") && failed.contains("below.luau:3"), "{failed}");
    assert_eq!(fs::read_dir(app.path().join("shop")).unwrap().count(), 5, "nothing is written into an app");
}
