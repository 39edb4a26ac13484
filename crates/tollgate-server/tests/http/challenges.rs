//! Answers to challenges of an ACME server by HTTP: before all routes, and never recorded.

use std::fs;

use tollgate_log::Level;

use crate::peer::Reply;
use crate::site::{Running, Site};

const TOKEN: &str = "/.well-known/acme-challenge/token-of_the-server";
const ANSWER: &str = "token-of_the-server.thumbprint";

/// Returns a site with an answer, and with routes that match all paths of one host and of all hosts.
fn site() -> Site {
    let site = Site::new().stream("s", Level::Written, &["path text request.path"]);
    let site = site.handler("/*", "return 418").tune_route(|route| route.host = Some("a.test".to_owned()));
    let folder = site.folder().join("challenges");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("token-of_the-server"), ANSWER).unwrap();
    site.handler("/*", "return 418").tune(|options| options.challenges = Some(folder))
}

fn ask(server: &Running, method: &str, host: &str, target: &str) -> Reply {
    let mut peer = server.connect();
    peer.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    peer.reply(method == "HEAD")
}

#[test]
fn a_token_is_served_before_all_routes_and_is_not_recorded() {
    let server = site().start();
    for host in ["a.test", "b.test"] {
        // Servers validate a name from several places.
        for _ in 0..3 {
            let reply = ask(&server, "GET", host, TOKEN);
            assert_eq!((reply.status, &*reply.content), (200, ANSWER));
        }
        assert_eq!(ask(&server, "HEAD", host, TOKEN).status, 200);
        assert_eq!(ask(&server, "GET", host, "/.well-known/acme-challenge/unknown").status, 404);
        assert_eq!(ask(&server, "GET", host, "/.well-known/acme-challenge/%2e%2e/secret").status, 418);
        assert_eq!(ask(&server, "POST", host, TOKEN).status, 418);
    }
    // The two requests for each host that found a route.
    assert_eq!(server.records().len(), 4);
}

#[test]
fn a_token_that_appears_after_a_request_for_it_is_served_at_once() {
    let server = site().start();
    let file = server.folder().join("challenges/later");
    let target = "/.well-known/acme-challenge/later";
    assert_eq!(ask(&server, "GET", "a.test", target).status, 404);
    fs::write(&file, "later.thumbprint").unwrap();
    assert_eq!(ask(&server, "GET", "a.test", target).content, "later.thumbprint");
    fs::remove_file(&file).unwrap();
    assert_eq!(ask(&server, "GET", "a.test", target).status, 404);
}

#[test]
fn without_acme_the_path_finds_a_route_like_all_others() {
    let server = site().tune(|options| options.challenges = None).start();
    assert_eq!(ask(&server, "GET", "a.test", TOKEN).status, 418);
}
