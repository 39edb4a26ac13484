//! Certificates for development: what stays, and what is made again.

use std::os::unix::fs::PermissionsExt;

use super::*;

const NOW: u64 = 1_800_000_000;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_authority_stays_and_a_certificate_is_made_again_when_it_is_due() {
    let folder = tempfile::tempdir().unwrap();
    let at = |now, wanted: &[&str]| {
        let files = LocalAuthority::new(folder.path(), now).certificate(&names(wanted)).unwrap();
        (read(&files.authority), read(&files.certificate), read(&files.key))
    };
    let first = at(NOW, &["localhost", "::1"]);
    assert_eq!(at(NOW, &["localhost"]), first, "it has the name already");
    assert_eq!(at(NOW + 300 * DAY, &["localhost"]), first, "it is still valid for months");
    let other = at(NOW, &["localhost", "my.test"]);
    assert_eq!(other.0, first.0);
    assert_ne!(other.1, first.1);
    let later = at(NOW + 380 * DAY, &["localhost"]);
    assert_eq!(later.0, first.0);
    assert_ne!(later.1, other.1);
}

#[test]
fn a_certificate_names_the_authority_and_only_the_owner_reads_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let files =
        LocalAuthority::new(folder.path(), NOW).certificate(&names(&["localhost", "127.0.0.1"])).unwrap();
    let chain = tollgate_tls::certificates(&files.certificate).unwrap();
    let facts = tollgate_tls::CertificateFacts::of(&chain[0]).unwrap();
    assert_eq!(facts.names, ["dns:localhost", "ip:127.0.0.1"]);
    assert_eq!((facts.issuer, facts.subject), (format!("CN={AUTHORITY}"), "CN=localhost".to_owned()));
    assert_eq!((facts.not_before, facts.not_after), (NOW - DAY, NOW + LIFE - DAY));
    for file in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap()) {
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert!(file.path().is_dir() || mode == 0o600, "{:?} {mode:o}", file.path());
    }
}
