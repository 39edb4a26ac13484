//! Tests of `req:accepts`, which selects the media type that a client gets.

use crate::app::{App, finish, handler_of, request, text};

fn chosen(accept: &str, offered: &str) -> String {
    let app = App::new();
    let handler = app.handler(&handler_of(&format!("return tostring(req:accepts({offered}))")));
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{accept}\r\n");
    finish(handler.call(request(&head, b""))).map_or_else(|error| error.to_string(), |outcome| text(&outcome))
}

#[test]
fn the_type_that_the_client_likes_most_is_chosen() {
    let check = |accept: &str, expect: &str| {
        let offered = "'application/json', 'text/html', 'text/csv'";
        assert_eq!(chosen(accept, offered), expect, "{accept:?}");
    };
    check("", "application/json");
    check("Accept: text/html\r\n", "text/html");
    check("Accept: text/*;q=0.5, application/json;q=0.4\r\n", "text/html");
    check("Accept: text/*;q=0.5, text/html;q=0.1\r\n", "text/csv");
    check("Accept: */*\r\n", "application/json");
    check("Accept: */*;q=0.1, text/csv\r\n", "text/csv");
    check("Accept: image/png\r\n", "nil");
    check("Accept: application/json;q=0\r\n", "nil");
    check("Accept: application/json;q=0, */*\r\n", "text/html");
    check("Accept: text/csv\r\nAccept: text/html;q=0.9\r\n", "text/csv");
}

#[test]
fn offers_have_to_be_media_types() {
    assert_eq!(chosen("", ""), "nil");
    for (offered, expect) in [
        ("'html'", "req:accepts has \"html\": allowed are media types"),
        ("'text/*'", "req:accepts has \"text/*\""),
        ("'text/html;q=1'", "without parameters"),
        ("true", "a media type of req:accepts is a boolean: allowed is a string"),
    ] {
        let found = chosen("", offered);
        assert!(found.contains(expect), "{offered}: {found}");
    }
}
