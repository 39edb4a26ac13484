//! Authorities and certificates for servers of tests, by openssl.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::gateway::Certificate;

fn openssl(folder: &Path, arguments: &str) {
    let status = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stderr(Stdio::null())
        .status()
        .unwrap_or_else(|error| panic!("openssl: {error}; apt-get install -y openssl"));
    assert!(status.success(), "openssl {arguments}");
}

/// Creates an authority in `ca.pem`, another authority in `other.pem`, and a certificate that the first
/// authority signed for `subject`, for example `IP:127.0.0.1`.
pub(crate) fn certificate(folder: &Path, subject: &str) -> Certificate {
    for name in ["ca", "other"] {
        openssl(
            folder,
            &format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
                 -addext keyUsage=critical,keyCertSign -keyout {name}.key -out {name}.pem"
            ),
        );
    }
    openssl(
        folder,
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -keyout server.key \
         -out server.csr",
    );
    fs::write(folder.join("san"), format!("subjectAltName={subject}\nbasicConstraints=CA:FALSE\n")).unwrap();
    openssl(
        folder,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san \
         -out server.crt",
    );
    Certificate { certificate: folder.join("server.crt"), key: folder.join("server.key") }
}
