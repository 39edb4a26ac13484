//! Tests of a server with a certificate, and of the checks that `sslmode` asks for.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::Cluster;
use crate::site::{Site, sink_at};

fn openssl(folder: &Path, arguments: &str) {
    let status = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stderr(Stdio::null())
        .status()
        .unwrap_or_else(|error| panic!("openssl: {error}; apt-get install -y openssl"));
    assert!(status.success(), "openssl {arguments}");
}

/// Makes a certificate authority, and a certificate that it issues for the host name `localhost`.
fn authority(folder: &Path, name: &str) {
    openssl(
        folder,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -addext keyUsage=critical,keyCertSign -keyout {name}.key -out {name}.pem"
        ),
    );
}

fn secured(folder: &Path) -> Cluster {
    authority(folder, "ca");
    authority(folder, "other");
    openssl(
        folder,
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -keyout server.key -out server.csr",
    );
    fs::write(folder.join("san"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(
        folder,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.crt",
    );
    let cluster = Cluster::start("");
    let data = cluster.folder().join("data");
    for name in ["server.key", "server.crt"] {
        let place = data.join(name);
        fs::copy(folder.join(name), &place).unwrap();
        fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let owner = fs::metadata(&data).unwrap();
        use std::os::unix::fs::MetadataExt;
        std::os::unix::fs::chown(&place, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    fs::write(data.join("pg_hba.conf"), "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
        .unwrap();
    cluster.sql("postgres", "ALTER ROLE tollgate PASSWORD 'sesame'");
    cluster.sql("postgres", "ALTER SYSTEM SET ssl = on");
    cluster.sql("postgres", "SELECT pg_reload_conf()");
    crate::site::eventually("the server has TLS", || cluster.sql("postgres", "SHOW ssl") == "on");
    cluster
}

#[test]
fn tls_is_verified_as_far_as_sslmode_says() {
    let folder = tempfile::TempDir::new().unwrap();
    let cluster = secured(folder.path());
    let mut site = Site::new(&cluster);
    let mut from = 0;
    let mut load = |host: &str, query: &str| {
        site.write_visits(from..from + 10);
        from += 10;
        let (port, database) = (cluster.port, &site.database);
        site.options = sink_at(&format!("postgres://tollgate:sesame@{host}:{port}/{database}?{query}"));
        let loader = tollgate_load::Loader::start(
            site.load_options(),
            std::sync::Arc::new(tollgate_log::DiskStorage),
            None,
        );
        let result = match loader {
            Ok(loader) => loader.finish(crate::site::PATIENCE).map(drop).map_err(|error| error.to_string()),
            Err(error) => Err(crate::site::chain(&error)),
        };
        if let Err(reason) = &result {
            assert!(!reason.contains("sesame"), "{reason}");
        }
        result
    };
    let ca = format!("sslrootcert={}", folder.path().join("ca.pem").display());
    let other = format!("sslrootcert={}", folder.path().join("other.pem").display());
    load("localhost", &format!("sslmode=verify-full&{ca}")).unwrap();
    load("127.0.0.1", &format!("sslmode=verify-ca&{ca}")).unwrap();
    load("127.0.0.1", "sslmode=require").unwrap();
    load("127.0.0.1", "").unwrap();
    let refused = load("localhost", &format!("sslmode=verify-full&{other}")).unwrap_err();
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    let refused = load("127.0.0.1", &format!("sslmode=verify-ca&{other}")).unwrap_err();
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    let refused = load("127.0.0.1", &format!("sslmode=verify-full&{ca}")).unwrap_err();
    assert!(refused.contains("not valid for name"), "{refused}");
    // The server refuses all roles over TCP without TLS.
    let refused = load("127.0.0.1", "sslmode=disable").unwrap_err();
    assert!(refused.contains("no encryption"), "{refused}");
    let refused = load("127.0.0.1", "sslmode=verify-full&sslrootcert=/nowhere.pem").unwrap_err();
    assert!(refused.contains("sslrootcert /nowhere.pem"), "{refused}");
    load("localhost", &format!("sslmode=verify-full&{ca}")).unwrap();
    site.assert_visits(0..100);
}
