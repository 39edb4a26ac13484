//! Routes, methods and what the server answers by itself. Precedence is tested beside the table.

use tollgate_server::Methods;

use crate::site::Site;

fn request(line: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn captures_path_info_query_and_fields_reach_the_script() {
    let server = Site::new()
        .handler(
            "/users/{id}/{part}",
            "return req.params.id .. '|' .. req.params.part .. '|' .. (req.query.q or '-')",
        )
        .handler("/docs/*", "return req.path_info .. '|' .. (req.headers['X-Name'] or '-')")
        .start();
    server.check(&request("GET /users/7/a%20b?q=1+2"), "200", "7|a b|1 2");
    server.check(&request("GET /docs/a/../b/%63"), "200", "/b/c|-");
    server.check("GET /docs/ HTTP/1.1\r\nHost: a\r\nx-name: n\r\n\r\n", "200", "/|n");
    server.check(&request("GET /users/7"), "404", "nothing is here\n");
}

#[test]
fn the_folder_of_a_star_route_is_redirected_with_its_query() {
    let server = Site::new().handler("/docs/*", "return req.path").start();
    let mut peer = server.connect();
    peer.send(request("GET /docs?a=b"));
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("location")), (308, Some("/docs/?a=b")));
}

#[test]
fn paths_that_lead_nowhere_good_are_refused_and_the_connection_goes_on() {
    let server = Site::new().handler("/*", "return req.path").start();
    let mut peer = server.connect();
    for path in ["/%", "/%00", "/a%2fb", "/a%5cb", "/../x", "/%ff"] {
        peer.send(request(&format!("GET {path}")));
        assert_eq!(peer.reply(false).status, 400, "{path}");
    }
    peer.send(request("GET /fine"));
    peer.expect("200", "/fine");
}

#[test]
fn a_method_without_a_handler_is_405_with_allow() {
    let server = Site::new()
        .script("/a", "return { GET = function() return 'got' end, DELETE = function() return 204 end }")
        .fixed("/b", "fixed")
        .handler("/c", "return req.method")
        .start();
    for (line, allow) in [("POST /a", "GET, HEAD, DELETE, OPTIONS"), ("PUT /b", "GET, HEAD, OPTIONS")] {
        let mut peer = server.connect();
        peer.send(request(line));
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.field("allow")), (405, Some(allow)), "{line}");
        peer.send(request(&line.replace("POST", "OPTIONS").replace("PUT", "OPTIONS")));
        let reply = peer.reply(false);
        assert_eq!((reply.status, reply.field("allow")), (204, Some(allow)), "{line}");
    }
    server.check(&request("PATCH /c"), "200", "PATCH");
    server.check(&request("DELETE /a"), "204", "");
}

#[test]
fn options_of_the_server_lists_what_it_speaks_and_scripts_may_answer_their_own() {
    let server = Site::new().script("/a", "return { OPTIONS = function() return 'mine' end }").start();
    server.check(&request("OPTIONS /a"), "200", "mine");
    let mut peer = server.connect();
    peer.send(request("OPTIONS *"));
    let reply = peer.reply(false);
    let all = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS";
    assert_eq!((reply.status, reply.field("allow")), (204, Some(all)));
}

#[test]
fn methods_of_a_route_narrow_its_handler() {
    let narrow = |options: &mut tollgate_server::ServerOptions| {
        options.routes[0].methods = Some(Methods::from_iter([tollgate_server::Method::Put]));
    };
    let server = Site::new().handler("/a", "return req.method").tune(narrow).start();
    server.check(&request("PUT /a"), "200", "PUT");
    let mut peer = server.connect();
    peer.send(request("GET /a"));
    assert_eq!(peer.reply(false).field("allow"), Some("PUT, OPTIONS"));
}
