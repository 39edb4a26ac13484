//! Tests of credentials that are not in the options: from the environment, or else from the metadata service
//! of the cloud.
//!
//! The environment of a process cannot be changed safely. So each case runs this test again in a separate
//! process, with other variables.

use std::env;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use tollgate_ship::{Created, ObjectStoreOptions, Store};

use crate::gateway::{ACCESS_KEY, Gateway, SECRET_KEY, open, options};
use crate::meddler::read_message;
use crate::segments::Segments;

/// Name of the variable with the address of the server, in the process of a case.
const CASE: &str = "TOLLGATE_TEST_STORE";
const NAME: &str = "v1/seg/web/01930e1c-2f7a-7c3e-8b1d-5a6f7e8d9c0b/00000000000000000001.seg";
/// Number of requests that a client sends to the metadata service: for a token, for the role, for the keys of
/// the role.
const METADATA_REQUESTS: usize = 3;

/// Stores a segment twice, without credentials in the options.
fn case(address: &str) {
    let written = options("s3://logs", address.parse().unwrap());
    let store = open(ObjectStoreOptions { access_key: None, secret_key: None, ..written });
    let segment = &Segments::written(1).all[0];
    for expected in [Created::Stored, Created::Exists] {
        assert_eq!(store.create(NAME, &segment.file, &segment.identity).unwrap(), expected);
    }
}

/// Runs a case in a separate process. Returns whether the process succeeded.
fn succeeds(store: SocketAddr, variables: &[(&str, &str)]) -> bool {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "credentials::keys_come_from_the_environment_or_the_metadata_service"]);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    // Without keys, the crate `object_store` asks the metadata service. This address refuses connections.
    command.env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1").env(CASE, store.to_string());
    let output = command.envs(variables.iter().copied()).output().unwrap();
    eprintln!("{variables:?}: {}", String::from_utf8_lossy(&output.stdout));
    output.status.success()
}

/// Starts a metadata service of AWS (IMDSv2) for one client.
fn metadata_service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().take(METADATA_REQUESTS) {
            let mut client = client.unwrap();
            let (head, _) = read_message(&mut client).unwrap();
            let body = if head.starts_with("PUT /latest/api/token ") {
                "token".to_owned()
            } else if head.starts_with("GET /latest/meta-data/iam/security-credentials/ ") {
                "role".to_owned()
            } else {
                assert!(head.starts_with("GET /latest/meta-data/iam/security-credentials/role "), "{head}");
                assert!(head.to_lowercase().contains("x-aws-ec2-metadata-token: token\r\n"), "{head}");
                format!(
                    r#"{{"Code":"Success","AccessKeyId":"{ACCESS_KEY}","SecretAccessKey":"{SECRET_KEY}",
                    "Token":"session","Expiration":"2100-01-01T00:00:00Z"}}"#
                )
            };
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            client.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    address
}

/// Starts a server that sends `answers` in order. Returns its address, and the heads of the requests in lower
/// case.
fn recorder(answers: &'static [&'static str]) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, heads) = channel();
    thread::spawn(move || {
        for answer in answers {
            let mut client = listener.accept().unwrap().0;
            sender.send(read_message(&mut client).unwrap().0.to_lowercase()).unwrap();
            let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            client.write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, heads)
}

#[test]
fn keys_come_from_the_environment_or_the_metadata_service() {
    if let Ok(address) = env::var(CASE) {
        return case(&address);
    }
    let keys = [("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)];
    let gateway = Gateway::start();
    assert!(!succeeds(gateway.address, &[]), "without any keys");
    assert!(!succeeds(gateway.address, &[keys[0], ("AWS_SECRET_ACCESS_KEY", "wrong")]), "with a wrong key");
    assert!(!gateway.path_of(NAME).exists());
    // Other variables of the crate `object_store` would turn off guarantees of the store.
    let others = [
        ("AWS_CONDITIONAL_PUT", "disabled"),
        ("AWS_SKIP_SIGNATURE", "true"),
        ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1"),
        ("AWS_BUCKET", "other"),
    ];
    assert!(succeeds(gateway.address, &[&keys[..], &others[..]].concat()), "from the environment");

    let (store, heads) = recorder(&["200 OK\r\nETag: \"e\"", "412 Precondition Failed"]);
    let service = format!("http://{}", metadata_service());
    assert!(succeeds(store, &[("AWS_METADATA_ENDPOINT", &service)]), "from the metadata service");
    let credential = format!("credential={ACCESS_KEY}/");
    let heads: Vec<_> = heads.iter().collect();
    assert_eq!(heads.len(), 2);
    for head in heads {
        for part in [
            "put /logs/v1/seg/web/",
            &credential,
            "x-amz-security-token: session\r\n",
            "if-none-match: *\r\n",
            "x-amz-checksum-sha256: ",
            "x-amz-meta-tollgate-identity: ",
        ] {
            assert!(head.contains(part), "{part}: {head}");
        }
    }
}
