//! The folder: permissions, the lock, and answers to challenges that are left over.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn folder() -> (tempfile::TempDir, StateFolder) {
    let parent = tempfile::tempdir().unwrap();
    let folder = StateFolder::new(&parent.path().join("tls"));
    folder.create().unwrap();
    (parent, folder)
}

#[test]
fn only_the_owner_reads_the_folder_and_its_files() {
    let (parent, folder) = folder();
    let path = parent.path().join("tls");
    // A temporary file of a killed run may have other permissions.
    fs::write(path.join("a.pem.tmp"), "left over").unwrap();
    fs::set_permissions(path.join("a.pem.tmp"), fs::Permissions::from_mode(0o644)).unwrap();
    folder.write("a.pem", b"key").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&path.join("a.pem"))), (0o700, 0o600));
    assert_eq!(folder.read("a.pem").unwrap().unwrap(), b"key");
    assert!(!path.join("a.pem.tmp").exists());
}

#[test]
fn one_process_at_a_time_has_the_lock() {
    let (_parent, folder) = folder();
    let lock = folder.lock().unwrap();
    assert!(lock.is_some() && folder.lock().unwrap().is_none());
    drop(lock);
    assert!(folder.lock().unwrap().is_some());
}

#[test]
fn answers_are_forgotten_unless_an_order_runs() {
    let (_parent, folder) = folder();
    folder.write_token("token", "answer").unwrap();
    folder.write_alpn("a.test", "answer").unwrap();
    folder.write(&format!("a.test{ORDER}"), b"{}").unwrap();
    folder.forget_answers().unwrap();
    assert_eq!(folder.alpn(), [("a.test".to_owned(), "answer".to_owned())]);
    folder.remove(&format!("a.test{ORDER}")).unwrap();
    folder.forget_answers().unwrap();
    assert_eq!(folder.alpn(), []);
    assert_eq!(fs::read_dir(folder.challenges()).unwrap().count(), 0);
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let parent = tempfile::tempdir().unwrap();
    fs::write(parent.path().join("file"), "").unwrap();
    let error = StateFolder::new(&parent.path().join("file/tls")).create().unwrap_err().to_string();
    assert!(error.contains("file/tls: "), "{error}");
}
