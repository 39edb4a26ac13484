//! The choice of a certificate, and faults of its files.

use std::fs;
use std::os::unix::fs::symlink;

use rustls::pki_types::CertificateDer;
use tempfile::TempDir;

use super::*;
use crate::testing::{certificate as written, shake, trusting_client};

fn options(certificates: Vec<CertificateFiles>) -> ServerTlsOptions {
    ServerTlsOptions { certificates, ..ServerTlsOptions::default() }
}

fn load(options: ServerTlsOptions) -> Result<ServerTls, ServerTlsError> {
    ServerTls::load(options)
}

/// Returns the certificates that a client gets. The list is empty if the handshake fails.
fn served(config: Arc<ServerConfig>, name: &'static str) -> Vec<CertificateDer<'static>> {
    let shaken = shake(config, trusting_client(), name).ok();
    shaken.and_then(|(client, _)| client.peer_certificates().map(<[_]>::to_vec)).unwrap_or_default()
}

#[test]
fn a_name_finds_its_certificate_before_a_wildcard_and_a_wildcard_before_the_first() {
    let folder = TempDir::new().unwrap();
    let names: [&[&str]; 4] =
        [&["first.test"], &["*.shop.test", "shop.test"], &["pay.shop.test"], &["Upper.test", "first.test"]];
    let files = names.iter().enumerate().map(|(n, names)| written(folder.path(), &n.to_string(), names));
    let mut options = options(files.collect());
    let check = |options: &ServerTlsOptions, name, expect: Option<usize>| {
        let certificates = load(options.clone()).unwrap().certificates();
        let found = CertificatesByName::new(&certificates, options.unknown_name).find(name);
        let is_found = |one: &Certificate| found.as_ref().is_some_and(|found| Arc::ptr_eq(&one.key, found));
        let place = certificates.iter().position(is_found);
        assert_eq!(place, expect, "{name:?}");
    };
    for (name, expect) in [
        ("first.test", 0),
        ("shop.test", 1),
        ("a.shop.test", 1),
        ("pay.shop.test", 2),
        ("upper.test", 3),
        ("a.b.shop.test", 0),
        ("unknown.test", 0),
    ] {
        check(&options, Some(name), Some(expect));
    }
    check(&options, None, Some(0));
    options.unknown_name = UnknownName::Refused;
    check(&options, Some("a.shop.test"), Some(1));
    check(&options, Some("a.b.shop.test"), None);
    check(&options, None, None);
}

#[test]
fn a_file_that_does_not_fit_is_named_and_its_content_is_not() {
    let folder = TempDir::new().unwrap();
    let (one, two) =
        (written(folder.path(), "one", &["one.test"]), written(folder.path(), "two", &["two.test"]));
    let mixed = CertificateFiles { key: two.key.clone(), ..one.clone() };
    let error = load(options(vec![two.clone(), mixed])).unwrap_err();
    assert!(matches!(error, ServerTlsError::Key { index: 1, .. }), "{error:?}");
    let expect = format!(
        "{}: it is not the key of the certificate in {}",
        two.key.display(),
        one.certificate.display()
    );
    assert_eq!(error.to_string(), expect);
    fs::write(&one.certificate, "-----BEGIN CERTIFICATE-----\nc2VzYW1l\n-----END CERTIFICATE-----\n")
        .unwrap();
    let error = load(options(vec![one])).unwrap_err();
    assert!(matches!(error, ServerTlsError::Certificate { index: 0, .. }), "{error:?}");
    assert!(!error.to_string().contains("sesame"), "{error}");
}

#[test]
fn new_handshakes_use_issued_certificates_and_files_have_priority() {
    let folder = TempDir::new().unwrap();
    let of_file = written(folder.path(), "file", &["a.test"]);
    let issued =
        ["a.test", "b.test"].map(|name| Certificate::read(&written(folder.path(), name, &[name])).unwrap());
    let tls = load(options(vec![of_file])).unwrap();
    let before = tls.config();
    tls.set_issued(issued.to_vec()).unwrap();
    assert_eq!(tls.issued(), issued);
    assert!(!Arc::ptr_eq(&before, &tls.config()), "the next session has another configuration");
    assert_eq!(served(tls.config(), "a.test"), tls.certificates()[0].chain());
    assert_eq!(served(tls.config(), "b.test"), issued[1].chain());
    assert_eq!(served(before, "b.test"), tls.certificates()[0].chain());
    assert!(!format!("{tls:?} {issued:?}").contains("PRIVATE"));
}

#[test]
fn a_server_without_certificates_refuses_handshakes_until_one_is_issued() {
    let folder = TempDir::new().unwrap();
    let tls = load(options(Vec::new())).unwrap();
    assert!(served(tls.config(), "a.test").is_empty());
    let issued = Certificate::read(&written(folder.path(), "a", &["a.test"])).unwrap();
    tls.set_issued(vec![issued.clone()]).unwrap();
    assert_eq!(served(tls.config(), "a.test"), issued.chain());
}

#[test]
fn changed_files_are_read_again_and_a_broken_pair_keeps_the_certificate_before() {
    let folder = TempDir::new().unwrap();
    let files = ["one", "two"].map(|name| written(folder.path(), name, &["a.test"]));
    let tls = load(options(files.to_vec())).unwrap();
    let before = tls.certificates();
    assert!(!tls.look());
    fs::write(&files[0].certificate, "").unwrap();
    written(folder.path(), "two", &["a.test"]);
    assert!(tls.look(), "a broken pair does not hold up another");
    let between = tls.certificates();
    assert_eq!(between[0], before[0]);
    assert_ne!(between[1], before[1]);
    let fault = format!("{}: it has no certificate in PEM", files[0].certificate.display());
    assert_eq!(tls.faults(), [fault]);
    assert!(!tls.look());
    assert_eq!(tls.faults().len(), 1, "the fault stays");
    written(folder.path(), "one", &["a.test"]);
    assert!(tls.look());
    assert_ne!(tls.certificates()[0], before[0]);
    assert_eq!(tls.faults(), [""; 0]);
}

#[test]
fn a_pair_that_does_not_match_keeps_the_certificate_before() {
    let folder = TempDir::new().unwrap();
    let files = written(folder.path(), "one", &["a.test"]);
    let other = written(folder.path(), "other", &["a.test"]);
    let tls = load(options(vec![files.clone()])).unwrap();
    let before = tls.certificates();
    fs::rename(&other.certificate, &files.certificate).unwrap();
    assert!(!tls.look());
    assert_eq!(tls.certificates(), before);
    assert!(tls.faults()[0].contains("it is not the key of the certificate in"), "{:?}", tls.faults());
    fs::rename(&other.key, &files.key).unwrap();
    assert!(tls.look());
}

#[test]
fn a_symbolic_link_to_other_files_is_a_change() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    for version in ["v1", "v2"] {
        fs::create_dir(path(version)).unwrap();
        written(&path(version), "tls", &["a.test"]);
    }
    let link = |version: &str| {
        // A link cannot be changed in place. A second link is renamed over it.
        symlink(version, path("..new")).unwrap();
        fs::rename(path("..new"), path("..data")).unwrap();
    };
    link("v1");
    for file in ["tls.pem", "tls-key.pem"] {
        symlink(format!("..data/{file}"), path(file)).unwrap();
    }
    let files = CertificateFiles { certificate: path("tls.pem"), key: path("tls-key.pem") };
    let tls = load(options(vec![files])).unwrap();
    let before = tls.certificates();
    link("v2");
    assert!(tls.look());
    assert_ne!(tls.certificates(), before);
}
