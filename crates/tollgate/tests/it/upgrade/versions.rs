//! A new process whose old one has another version. The test is the old process.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use serde_json::{Value, json};

use super::CONFIG;
use crate::program::{App, BINARY, eventually, printed};

/// Starts a new process, and greets it. Returns the process and our end of the socket.
fn start(app: &App, hello: &Value) -> (Child, OwnedFd) {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
    send(&ours, hello.to_string().as_bytes(), SendFlags::empty()).unwrap();
    let mut command = Command::new(BINARY);
    command.arg("serve").arg(app.path()).env("TOLLGATE_UPGRADE", "stdin").stdin(Stdio::from(theirs));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    (child, ours)
}

fn receive(socket: &OwnedFd) -> Value {
    let mut bytes = vec![0; 64 << 10];
    let (read, _) = recv(socket, &mut bytes[..], RecvFlags::empty()).unwrap();
    serde_json::from_slice(&bytes[..read]).unwrap()
}

fn hello(change: impl FnOnce(&mut Value)) -> Value {
    let mut hello = json!({
        "message": "hello", "versions": [1, 1], "process": 1, "program": "0.0.1", "log_format": 1,
        "log": "01a1fcf7-2b4c-7747-a271-7032fab340a1", "log_dir": [0, 0], "listens": [], "admin": null,
    });
    change(&mut hello);
    hello
}

fn code_of(mut child: Child) -> Option<i32> {
    eventually("the new process ends", || child.try_wait().unwrap()).code()
}

#[test]
fn a_new_process_refuses_an_old_one_with_another_version_of_the_protocol() {
    let app = App::new(CONFIG, &[]);
    let (child, socket) = start(&app, &hello(|hello| hello["versions"] = json!([2, 3])));
    let refused = receive(&socket);
    assert_eq!((&refused["message"], &refused["code"]), (&json!("refused"), &json!(1)));
    let text = refused["text"].as_str().unwrap();
    assert!(
        text.contains("knows versions 1 to 1 of the upgrade protocol, the old program 0.0.1 knows 2 to 3")
    );
    assert_eq!(code_of(child), Some(1));
}

#[test]
fn a_new_process_uses_the_highest_version_that_both_know() {
    let app = App::new(CONFIG, &[]);
    let (child, socket) = start(&app, &hello(|hello| hello["versions"] = json!([1, 7])));
    let started = receive(&socket);
    assert_eq!((&started["message"], &started["version"]), (&json!("started"), &json!(1)));
    // The folder of logs is another one.
    assert_eq!(receive(&socket)["message"], "refused");
    assert_eq!(code_of(child), Some(2));
}

#[test]
fn an_older_program_refuses_a_log_format_that_it_cannot_read() {
    let app = App::new(CONFIG, &[]);
    let (child, socket) = start(&app, &hello(|hello| hello["log_format"] = json!(99)));
    assert_eq!(receive(&socket)["message"], "started");
    let refused = receive(&socket);
    assert_eq!((&refused["message"], &refused["code"]), (&json!("refused"), &json!(2)));
    let text = refused["text"].as_str().unwrap();
    assert!(text.contains("the log has format version 99, the new program knows versions up to 2"), "{text}");
    assert_eq!(code_of(child), Some(2));
}

#[test]
fn a_variable_without_a_socket_is_a_fault() {
    let app = App::new(CONFIG, &[]);
    let mut command = Command::new(BINARY);
    command.arg("serve").arg(app.path()).env("TOLLGATE_UPGRADE", "stdin").stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = printed(&output);
    assert!(text.contains("TOLLGATE_UPGRADE is set, but standard input is no socket"), "{text}");
}
