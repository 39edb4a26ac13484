//! A server in memory that follows the documentation of the XML API of Google Cloud Storage. No server of
//! another project supports the conditions of this API.
//!
//! Source: cloud.google.com/storage/docs/xml-api (PUT object, GET object, list objects version 2).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use tempfile::TempDir;
use tollgate_ship::{ConditionalCreate, ObjectStoreOptions, Secret, Store, StorePlace, probe_store};

use crate::gateway::open;
use crate::law;
use crate::meddler::read_message;

const TOKEN: &str = "sesame-token";
const TIME: &str = "Thu, 01 Jan 2026 00:00:00 GMT";
/// Maximum number of objects in one page of a list. The real service allows 1,000.
const PAGE: usize = 300;

#[derive(Clone)]
struct Object {
    content: Vec<u8>,
    /// Metadata fields, as the client sent them.
    metadata: Vec<String>,
}

#[derive(Default)]
struct Bucket {
    objects: Mutex<BTreeMap<String, Object>>,
    is_over: AtomicBool,
}

/// A service with one bucket in memory. The drop of this value ends the service.
struct Google {
    address: SocketAddr,
    bucket: Arc<Bucket>,
    thread: Option<JoinHandle<()>>,
}

impl Google {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, bucket) = (listener.local_addr().unwrap(), Arc::new(Bucket::default()));
        let thread = thread::spawn({
            let bucket = bucket.clone();
            move || {
                for client in listener.incoming() {
                    if bucket.is_over.load(Ordering::Acquire) {
                        return;
                    }
                    let (bucket, client) = (bucket.clone(), client.unwrap());
                    thread::spawn(move || drop(bucket.serve(client)));
                }
            }
        });
        Self { address, bucket, thread: Some(thread) }
    }

    fn options(&self, place: &str) -> ObjectStoreOptions {
        ObjectStoreOptions {
            endpoint: Some(format!("http://{}", self.address)),
            session_token: Some(Secret::new(TOKEN)),
            ..ObjectStoreOptions::new(StorePlace::parse(place).unwrap())
        }
    }
}

impl Drop for Google {
    fn drop(&mut self) {
        self.bucket.is_over.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Bucket {
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let (head, body) = read_message(&mut client)?;
        let line: Vec<_> = head.lines().next().unwrap_or_default().split(' ').collect();
        let (method, target) = (line[0], line[1]);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (fields, content) = if field(&head, "authorization") != Some(&format!("Bearer {TOKEN}")) {
            answer("401 Unauthorized", &[], Vec::new())
        } else if let Some(key) = path.strip_prefix("/logs/") {
            self.object(method, &decode(key), &head, body)
        } else if path == "/logs" {
            self.list(query)
        } else {
            answer("404 Not Found", &[], b"<Error><Code>NoSuchBucket</Code></Error>".to_vec())
        };
        client.write_all(fields.as_bytes())?;
        if method == "HEAD" { Ok(()) } else { client.write_all(&content) }
    }

    fn object(&self, method: &str, key: &str, head: &str, content: Vec<u8>) -> (String, Vec<u8>) {
        let mut objects = self.objects.lock().unwrap();
        let found = objects.get(key).cloned();
        match (method, found) {
            ("PUT", Some(_)) if field(head, "x-goog-if-generation-match") == Some("0") => {
                answer("412 Precondition Failed", &[], Vec::new())
            }
            ("PUT", _) => {
                let is_metadata = |line: &&str| line.to_lowercase().starts_with("x-goog-meta-");
                let metadata = head.lines().filter(is_metadata).map(str::to_owned).collect();
                objects.insert(key.to_owned(), Object { content, metadata });
                answer("200 OK", &["ETag: \"e\"".to_owned(), "x-goog-generation: 1".to_owned()], Vec::new())
            }
            ("DELETE", Some(_)) => {
                objects.remove(key);
                answer("204 No Content", &[], Vec::new())
            }
            ("GET" | "HEAD", Some(found)) => {
                let mut fields = found.metadata;
                fields.extend(["ETag: \"e\"".to_owned(), format!("Last-Modified: {TIME}")]);
                answer("200 OK", &fields, found.content)
            }
            _ => answer("404 Not Found", &[], b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
        }
    }

    fn list(&self, query: &str) -> (String, Vec<u8>) {
        let argument = |name: &str| {
            let value = |pair: &str| Some(decode(pair.strip_prefix(name)?.strip_prefix('=')?));
            query.split('&').find_map(value).unwrap_or_default()
        };
        let prefix = argument("prefix");
        let after = argument("start-after").max(argument("continuation-token"));
        let objects = self.objects.lock().unwrap();
        let names = objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
        let (mut text, mut folders) = ("<ListBucketResult>".to_owned(), BTreeSet::new());
        let (mut count, mut last) = (0, None);
        for (key, object) in names {
            let folder = key[prefix.len()..].split_once('/').map(|(folder, _)| folder);
            if let Some(folder) = folder.filter(|_| argument("delimiter") == "/") {
                folders.insert(format!("{prefix}{folder}/"));
                continue;
            }
            if count == PAGE {
                write!(text, "<NextContinuationToken>{}</NextContinuationToken>", last.unwrap_or_default())
                    .unwrap();
                break;
            }
            let bytes = object.content.len();
            write!(text, "<Contents><Key>{key}</Key><Size>{bytes}</Size><ETag>e</ETag>").unwrap();
            text.push_str("<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>");
            (count, last) = (count + 1, Some(key.clone()));
        }
        for folder in folders {
            write!(text, "<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>").unwrap();
        }
        text.push_str("</ListBucketResult>");
        answer("200 OK", &[], text.into_bytes())
    }
}

/// Returns the head and the body of an answer.
fn answer(status: &str, fields: &[String], content: Vec<u8>) -> (String, Vec<u8>) {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let bytes = content.len();
    let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {bytes}\r\nConnection: close\r\n\r\n");
    (head, content)
}

fn field<'head>(head: &'head str, name: &str) -> Option<&'head str> {
    let value = |line: &'head str| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    };
    head.lines().find_map(value)
}

/// Decodes percent-encoding, and `+` as a space.
fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (byte, digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(decoded)) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(if *byte == b'+' { b' ' } else { *byte });
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_bucket_of_google_keeps_the_law_of_a_store() {
    for place in ["gs://logs", "gs://logs/team a"] {
        let google = Google::start();
        law::holds(&open(google.options(place)));
    }
}

#[test]
fn the_check_finds_that_google_creates_once() {
    let (google, folder) = (Google::start(), TempDir::new().unwrap());
    let report = probe_store(&open(google.options("gs://logs")), folder.path()).unwrap();
    assert_eq!((report.conditional_create, report.undeleted.len()), (ConditionalCreate::Atomic, 0));
    assert!(google.bucket.objects.lock().unwrap().is_empty());
}

#[test]
fn a_wrong_token_or_bucket_of_google_is_an_error() {
    let google = Google::start();
    let wrong = ObjectStoreOptions { session_token: Some(Secret::new("x")), ..google.options("gs://logs") };
    for options in [wrong, google.options("gs://other")] {
        let store = open(options);
        assert!(store.put_text("v1/node/web", "x").is_err() && store.text("v1/node/web", 9).is_err());
    }
}
