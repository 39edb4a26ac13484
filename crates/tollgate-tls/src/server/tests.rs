//! The choice of a certificate, and faults of its files.

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::testing::certificate as written;

fn options(certificates: Vec<CertificateFiles>) -> ServerTlsOptions {
    ServerTlsOptions { certificates, ..ServerTlsOptions::default() }
}

fn load(options: ServerTlsOptions) -> Result<ServerTls, ServerTlsError> {
    ServerTls::load(options)
}

#[test]
fn a_name_finds_its_certificate_before_a_wildcard_and_a_wildcard_before_the_first() {
    let folder = TempDir::new().unwrap();
    let names: [&[&str]; 4] =
        [&["first.test"], &["*.shop.test", "shop.test"], &["pay.shop.test"], &["Upper.test", "first.test"]];
    let files = names.iter().enumerate().map(|(n, names)| written(folder.path(), &n.to_string(), names));
    let mut options = options(files.collect());
    let check = |options: &ServerTlsOptions, name, expect: Option<usize>| {
        let tls = load(options.clone()).unwrap();
        let found = CertificatesByName::new(&tls.keys, options.unknown_name).find(name);
        let place = found.and_then(|found| tls.keys.iter().position(|key| Arc::ptr_eq(key, &found)));
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
fn other_contents_of_the_same_files_are_another_value() {
    let folder = TempDir::new().unwrap();
    let options = options(vec![written(folder.path(), "one", &["one.test"])]);
    let before = load(options.clone()).unwrap();
    assert!(before == load(options.clone()).unwrap());
    written(folder.path(), "one", &["one.test"]);
    assert!(before != load(options).unwrap());
    assert!(!format!("{before:?}").contains("PRIVATE"));
}
