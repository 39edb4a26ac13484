//! Tests of TLS to a store: only a server whose certificate a trusted authority signed is accepted, also
//! through a proxy.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use tempfile::TempDir;
use tollgate_ship::{ObjectStoreOptions, Store};

use crate::authority::certificate;
use crate::gateway::{Gateway, open};

const NODE: &str = "v1/node/web";

/// Starts a server with a certificate for its address.
fn gateway(folder: &Path) -> Gateway {
    Gateway::start_with(|host| Some(certificate(folder, &format!("IP:{host}"))))
}

fn secured(gateway: &Gateway, folder: &Path, authority: &str) -> ObjectStoreOptions {
    ObjectStoreOptions {
        endpoint: Some(format!("https://{}", gateway.address)),
        ca: Some(folder.join(authority)),
        ..gateway.options()
    }
}

/// Starts a proxy that accepts one connection, to any address. Returns the address of the proxy, and the
/// request lines that it gets.
fn proxy(reply: &'static str) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (lines, seen) = channel();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let line = String::from_utf8(head).unwrap().lines().next().unwrap().to_owned();
        let server = line.split(' ').nth(1).unwrap().parse::<SocketAddr>().unwrap();
        lines.send(line).unwrap();
        client.write_all(reply.as_bytes()).unwrap();
        if !reply.contains("200") {
            return;
        }
        let server = TcpStream::connect(server).unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut from_client, &mut to_server));
        let mut from_server = server;
        drop(io::copy(&mut from_server, &mut client));
    });
    (address, seen)
}

#[test]
fn only_a_server_with_a_trusted_certificate_is_a_store() {
    let folder = TempDir::new().unwrap();
    let gateway = gateway(folder.path());
    let store = open(secured(&gateway, folder.path(), "ca.pem"));
    store.put_text(NODE, "at_ms 1\n").unwrap();
    assert_eq!(store.text(NODE, 99).unwrap().as_deref(), Some("at_ms 1\n"));

    let other = open(secured(&gateway, folder.path(), "other.pem"));
    assert!(other.text(NODE, 99).is_err(), "another authority");
    let misnamed = Gateway::start_with(|_| Some(certificate(folder.path(), "DNS:localhost")));
    let store = open(secured(&misnamed, folder.path(), "ca.pem"));
    assert!(store.text(NODE, 99).is_err(), "the certificate names another host");
}

#[test]
fn a_proxy_gets_a_connect_and_nothing_to_read() {
    let folder = TempDir::new().unwrap();
    let gateway = gateway(folder.path());
    let (address, seen) = proxy("HTTP/1.1 200 Connected\r\nVia: x\r\n\r\n");
    let options = secured(&gateway, folder.path(), "ca.pem");
    let store = open(ObjectStoreOptions { proxy: Some(format!("http://{address}")), ..options });
    // The proxy accepts one connection, so both calls must use the same connection.
    store.put_text(NODE, "at_ms 1\n").unwrap();
    assert_eq!(store.text(NODE, 99).unwrap().as_deref(), Some("at_ms 1\n"));
    assert_eq!(seen.recv().unwrap(), format!("CONNECT {} HTTP/1.1", gateway.address));
}

#[test]
fn a_proxy_that_refuses_is_an_error() {
    let folder = TempDir::new().unwrap();
    let gateway = gateway(folder.path());
    let (address, seen) = proxy("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
    let options = secured(&gateway, folder.path(), "ca.pem");
    let store = open(ObjectStoreOptions { proxy: Some(format!("http://{address}")), ..options });
    assert!(store.put_text(NODE, "at_ms 1\n").is_err());
    seen.recv().unwrap();
    assert!(!gateway.path_of(NODE).exists());
}
