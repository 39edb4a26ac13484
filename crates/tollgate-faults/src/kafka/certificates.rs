//! Certificates of a broker, by the program `openssl`.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes the authorities `ca.crt` and `other.crt`, and `broker.pem` with key and certificate of a broker, for
/// two days.
///
/// # Panics
/// openssl is not installed, or the folder cannot be written.
pub fn certificates(folder: &Path) {
    for name in ["ca", "other"] {
        openssl(
            folder,
            &format!(
                "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout {name}.key \
                 -out {name}.crt"
            ),
        );
    }
    openssl(folder, "req -newkey rsa:2048 -nodes -subj /CN=broker -keyout broker.key -out broker.csr");
    fs::write(folder.join("san"), "subjectAltName=IP:127.0.0.1\n").expect("write the name of the broker");
    openssl(
        folder,
        "x509 -req -in broker.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile san \
         -out broker.crt",
    );
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a file of openssl");
    fs::write(folder.join("broker.pem"), read("broker.key") + &read("broker.crt")).expect("write broker.pem");
}

fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    let output = command.args(arguments.split(' ')).current_dir(folder).output().expect("run openssl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
