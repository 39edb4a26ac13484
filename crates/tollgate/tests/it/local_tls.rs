//! HTTPS for development: one command, and certificates for further names.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::program::{App, printed};

const PAGE: (&str, &str) = ("public/index.html", "hello");

fn shell(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", printed(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn https_on_localhost_works_by_one_command() {
    let app = App::bare(&[PAGE]);
    let arguments = ["serve", "--https=127.0.0.1:0", "--listen", "127.0.0.1:0", "."];
    let authority = || fs::read(app.path().join("data/tls/local-ca.pem")).unwrap();
    let mut before = None;
    for _ in 0..2 {
        let server = app.follow(&arguments);
        let line = loop {
            let line = server.line();
            if let Some(command) = line.strip_prefix("  https   ") {
                break command.to_owned();
            }
        };
        assert_eq!(shell(&format!("{line} -sS")), "hello");
        // 127.0.0.1 is a name of the certificate too.
        assert_eq!(shell(&format!("{} -sS", line.replace("localhost", "127.0.0.1"))), "hello");
        assert_eq!(*before.get_or_insert_with(authority), authority(), "the authority stays");
        let (status, log) = server.end(Signal::TERM);
        assert!(status.success(), "{log}");
    }
}

#[test]
fn the_lines_of_cert_local_are_a_configuration_and_no_key_is_served() {
    let app = App::bare(&[PAGE]);
    let lines = app.succeed(&["cert", "local", "my.test"]);
    let route = "[[route]]\npath = \"/*\"\nfiles = \"public\"\n";
    app.write("tollgate.toml", &format!("{}{route}", lines.replace(":8443\"", ":0\"")));
    let listed = app.succeed(&["cert", "ls"]);
    assert!(listed.contains("localhost 127.0.0.1 ::1 my.test") && listed.contains("local.pem"), "{listed}");
    let server = app.start();
    let (port, folder) = (server.address().port(), app.path().display());
    let curl = format!("curl -sS --cacert {folder}/data/tls/local-ca.pem --resolve my.test:{port}:127.0.0.1");
    assert_eq!(shell(&format!("{curl} https://my.test:{port}/")), "hello");
    app.write("tollgate.toml", &format!("{lines}{}", route.replace("public", ".")));
    let refused = app.run(&["check"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(printed(&refused).contains("clients could fetch files of the server"), "{}", printed(&refused));
}

#[test]
fn a_renewal_without_acme_is_refused_with_the_reason() {
    let app = App::bare(&[PAGE]);
    let output = app.run(&["cert", "renew"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).contains("the configuration has no [acme]"), "{}", printed(&output));
}
