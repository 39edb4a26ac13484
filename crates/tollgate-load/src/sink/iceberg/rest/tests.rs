//! Answers of a catalog that lists tables in pages, has another form, or repeats what it was sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use tollgate_lake::iceberg::{Catalog, TableName};
use tollgate_ship::{AwsKeys, Secret};

use super::*;
use crate::sink::iceberg::rest_options::{ClientCredentials, RestAuth, SigV4};

/// Gives the status and the JSON for the target and the text of a request.
type Answer = fn(&str, &str) -> (u16, Json);

fn serve(answer: Answer) -> RestOptions {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || converse(&client, answer));
        }
    });
    RestOptions::new(&address)
}

/// Answers the requests of a connection until it ends.
fn converse(mut client: &TcpStream, answer: Answer) -> Option<()> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    loop {
        let (mut text, mut length) = (String::new(), 0);
        while !text.ends_with("\r\n\r\n") {
            let start = text.len();
            (reader.read_line(&mut text).ok()? > 0).then_some(())?;
            let line = text[start..].to_lowercase();
            length =
                line.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap());
        }
        let mut content = vec![0; length];
        reader.read_exact(&mut content).ok()?;
        text.push_str(&String::from_utf8(content).unwrap());
        let (status, json) = answer(text.split(' ').nth(1).unwrap(), &text);
        let content = json.to_string();
        let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", content.len());
        client.write_all(format!("{head}{content}").as_bytes()).ok()?;
    }
}

fn error_of<T>(result: Result<T, LakeError>) -> String {
    format!("{:?}", result.map(drop).unwrap_err())
}

fn missing() -> (u16, Json) {
    (404, json!({"error": {"type": "NotFoundException", "message": "no such page", "code": 404}}))
}

#[test]
fn a_list_of_tables_is_complete_or_an_error() {
    let tables = |answer: Answer| RestCatalog::new(&serve(answer), AwsKeys::default()).tables("n");
    let found = tables(|target, _| match target {
        "/v1/config" => (200, json!({})),
        "/v1/namespaces/n/tables" => (200, json!({"identifiers": [{"name": "a"}], "next-page-token": "p q"})),
        "/v1/namespaces/n/tables?pageToken=p%20q" => (200, json!({"identifiers": [{"name": "b"}]})),
        _ => missing(),
    });
    assert_eq!(found.unwrap(), ["a", "b"]);
    // There is no such namespace.
    let found = tables(|target, _| if target == "/v1/config" { (200, json!({})) } else { missing() });
    assert_eq!(found.unwrap(), [""; 0]);
    let cases: [(Answer, &str); 5] = [
        (
            |target, _| match target {
                "/v1/config" => (200, json!({})),
                "/v1/namespaces/n/tables" => (200, json!({"identifiers": [], "next-page-token": "p"})),
                _ => missing(),
            },
            "names a page that is missing",
        ),
        (|_, _| (200, json!({"identifiers": [], "next-page-token": "p"})), "has more than 1000 pages"),
        (|_, _| (200, json!([])), "has no list of tables"),
        (|_, _| (200, json!({"identifiers": "a"})), "has no list of tables"),
        (|_, _| (200, json!({"identifiers": [{"name": "a"}, {"name": 7}]})), "has a table without a name"),
    ];
    for (answer, text) in cases {
        let error = error_of(tables(answer));
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn a_catalog_that_repeats_what_it_was_sent_shows_no_secret() {
    let echo: Answer = |_, text| {
        let is_secret = |line: &&str| line.starts_with("x-amz-security-token") || line.contains("secret=");
        (403, json!({"error": {"type": "Echo", "message": text.lines().find(is_secret), "code": 403}}))
    };
    let folder = tempfile::tempdir().unwrap();
    let secret_file = folder.path().join("secret");
    std::fs::write(&secret_file, "open/s~same+1").unwrap();
    let client = ClientCredentials { client_id: "me".to_owned(), secret_file, scope: None, url: None };
    let aws = SigV4 { region: "eu-west-1".to_owned(), service: "glue".to_owned() };
    let keys = AwsKeys {
        access_key: Some("AKID".to_owned()),
        secret_key: Some(Secret::new("never/sent")),
        session_token: Some(Secret::new("open/s~same+1")),
        ..AwsKeys::default()
    };
    for (auth, shown) in [
        (RestAuth::ClientCredentials(client), "client_secret=***"),
        (RestAuth::SigV4(aws), "x-amz-security-token: ***"),
    ] {
        let mut catalog = RestCatalog::new(&RestOptions { auth, ..serve(echo) }, keys.clone());
        let table = TableName { namespace: "n".to_owned(), table: "t".to_owned() };
        let error = error_of(catalog.load(&table));
        assert!(error.contains(shown) && !error.contains("same"), "{error}");
    }
}
