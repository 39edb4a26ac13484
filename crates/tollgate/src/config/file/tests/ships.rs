//! Ship targets: their keys, their faults, and the sinks beside them.

use tollgate_ship::DeleteRule;

use super::*;

const NAME_ALLOWED: &str = "allowed is a letter or _, then letters, digits and _, at most 63 bytes";

#[test]
fn faults_of_ship_targets_are_told() {
    check("[ship.a]\n", &["t.toml:1:1: missing key \"store\", \"dir\" or \"volumes\" in [ship.a]"]);
    check(
        "[ship.a]\ndir = \"\"\n",
        &[
            "t.toml:2:7: dir in [ship.a] is \"\", allowed is the path of a folder, or \".\" for the folder of the configuration",
        ],
    );
    check(
        "[ship.\"a b\"]\ndir = \"x\"\ndelte = \"shipped\"\n[ship.c]\ndir = \"x\"\ndelete = \"load\"\npoll = \"0s\"\n",
        &[
            &format!("t.toml:1:7: ship target is named \"a b\", {NAME_ALLOWED}"),
            "t.toml:3:1: unknown key \"delte\" in [ship.a b], did you mean \"delete\"?",
            "t.toml:5:7: dir in [ship.c] is the folder of [ship.a b]: each ship target needs its own folder",
            "t.toml:6:10: delete in [ship.c] is \"load\", did you mean \"loaded\"?",
            "t.toml:7:8: poll in [ship.c] is \"0s\", allowed is a duration from 1ms to 24h like \"10s\", units ms, s, m, h",
        ],
    );
    check(
        "[ship.a]\ndir = \"x\"\ndelete = \"shipped\"\nsinks = [\"main\"]\n[ship.b]\ndir = \"y\"\nsinks = []\n\
         [ship.c]\ndir = \"z\"\nsinks = [\"x/y\"]\nbytes_per_second = \"1MB\"\n",
        &[
            "t.toml:4:9: sinks in [ship.a] needs delete = \"loaded\", found delete = \"shipped\"",
            "t.toml:7:9: sinks in [ship.b] is empty, allowed is a list of names, or delete = \"shipped\"",
            &format!("t.toml:10:10: sinks in [ship.c] has \"x/y\", {NAME_ALLOWED}"),
            "t.toml:11:20: bytes_per_second in [ship.c] is \"1MB\", allowed is a size from 0B to 1024GiB like \"64MiB\", units B, KiB, MiB, GiB",
        ],
    );
    check("[shp.a]\ndir = \"x\"\n", &["t.toml:1:2: unknown key \"shp\" in the file, did you mean \"ship\"?"]);
}

#[test]
fn a_log_whose_segments_cannot_be_shipped_is_a_fault_once() {
    let ships = "[ship.a]\ndir = \"x\"\n[ship.b]\ndir = \"y\"\n";
    let bad = "[log]\nsegment_bytes_max = \"2GiB\"\ndigest = \"none\"\nnode = \"\"\n";
    check(
        &format!("{bad}{ships}"),
        &[
            "t.toml:5:1: digest in [log] is \"none\", but [ship.NAME] needs a digest to compare segments: write \"sha256\"",
            "t.toml:5:1: node in [log] is \"\", but [ship.NAME] needs the name of this machine: give each machine its own",
            "t.toml:5:1: segment_bytes_max in [log] is 2GiB, limit with [ship.NAME] is 1GiB: a segment is one file",
        ],
    );
    check(bad, &[]);
    let good = "[log]\nsegment_bytes_max = \"1GiB\"\ndigest = \"sha224\"\nnode = \".\"\n";
    check(&format!("{good}{ships}"), &[]);
}

#[test]
fn a_store_is_a_folder_apart_from_the_log_and_from_what_is_served() {
    let fault = |dir: &str| {
        let app = app();
        fs::create_dir(app.path().join("logs")).unwrap();
        std::os::unix::fs::symlink("logs", app.path().join("link")).unwrap();
        let text = format!("[log]\ndir = \"logs\"\n[ship.a]\ndir = \"{dir}\"\n");
        resolve(&app.path().join("t.toml"), &text, &env).err().map(|error| error.to_string())
    };
    for dir in ["logs", "logs/sub", "link", "."] {
        let fault = fault(dir).expect(dir);
        assert!(fault.contains(", which overlaps dir in [log] ("), "{fault}");
    }
    assert_eq!(fault("handover"), None);
    let app = app();
    fs::create_dir(app.path().join("pub")).unwrap();
    let served = "[ship.a]\ndir = \"pub/handover\"\n[[route]]\npath = \"/*\"\nfiles = \"pub\"\n";
    let error = resolve(&app.path().join("t.toml"), served, &env).unwrap_err().to_string();
    assert!(error.contains("dir in [ship.a] ("), "{error}");
}

#[test]
fn a_ship_target_takes_the_place_of_the_default_sink() {
    let config = load("[ship.a]\ndir = \"x\"\n").unwrap();
    assert!(config.sinks.is_empty());
    assert_eq!(config.ships[0].delete_rule(), DeleteRule::Loaded { sinks: vec!["main".to_owned()] });
    let error = config.chosen(None).unwrap_err().to_string();
    assert!(error.starts_with("the configuration has no [sink.NAME], only [ship.NAME]"), "{error}");
    let printed = config.to_string();
    let expected = "\ndelete = \"loaded\"\nsinks = [\"main\"]\nbytes_per_second = \"0B\"\npoll = \"30s\"\nheartbeat = \"1m\"\n";
    assert!(printed.ends_with(expected), "{printed}");
    let shipped = load("[ship.a]\ndir = \"x\"\ndelete = \"shipped\"\nbytes_per_second = \"2MiB\"\n").unwrap();
    assert_eq!(shipped.ships[0].delete_rule(), DeleteRule::Shipped);
    assert_eq!(shipped.ships[0].bytes_per_second, Some(2 << 20));
    let printed = shipped.to_string();
    assert!(printed.contains("\ndelete = \"shipped\"\nbytes_per_second = \"2MiB\"\n"), "{printed}");
    let both = load("[ship.a]\ndir = \"x\"\n[sink.one]\nsqlite = \"one.db\"\n").unwrap();
    assert_eq!((both.sinks.len(), both.ships.len()), (1, 1));
    assert_eq!(load("[ship]\n").unwrap().sinks.len(), 1, "without a target there is the default sink");
    check(
        "[stream.s]\nack = \"loaded\"\ncolumns = [{ name = \"n\", type = \"int\" }]\n[ship.a]\ndir = \"x\"\n",
        &["t.toml:2:7: ack of [stream.s] is \"loaded\", but there is no sink of that kind: \
             add a sink with a database"],
    );
}

const VOLUMES: &str = "[ship.a]\nvolumes = [\"a\", \"b\"]\n";

#[test]
fn faults_of_volumes_are_told() {
    let few = |found: u64| {
        format!(
            "t.toml:2:11: volumes in [ship.a] has {found} folders, needed are at least 2: one is filled while another one travels"
        )
    };
    check("[ship.a]\nvolumes = [\"a\"]\n", &[&few(1)]);
    check("[ship.a]\nvolumes = []\n", &[&few(0)]);
    check(
        &format!("{VOLUMES}delete = \"shipped\"\n"),
        &[
            "t.toml:3:10: delete in [ship.a] is \"shipped\", but a lost volume must lose no record: write \"loaded\"",
        ],
    );
    check(
        &format!("{VOLUMES}dir = \"x\"\nregion = \"r\"\n"),
        &[
            "t.toml:2:11: volumes and dir are both in [ship.a], allowed is one of them",
            "t.toml:4:10: region in [ship.a] needs store, found dir",
        ],
    );
    check(
        &format!("{VOLUMES}store = \"s3://logs\"\n"),
        &["t.toml:2:11: volumes and store are both in [ship.a], allowed is one of them"],
    );
    check(
        "[ship.a]\ndir = \"x\"\nvolume_age = \"1m\"\nsame_device = true\non_full = \"x\"\n",
        &[
            "t.toml:3:14: volume_age in [ship.a] needs volumes",
            "t.toml:4:15: same_device in [ship.a] needs volumes",
            "t.toml:5:11: on_full in [ship.a] needs volumes",
        ],
    );
    check(
        &format!("{VOLUMES}region = \"r\"\nvolume_bytes = \"0B\"\non_full = \"\"\n"),
        &[
            "t.toml:3:10: region in [ship.a] needs store, found volumes",
            "t.toml:4:16: volume_bytes in [ship.a] is \"0B\", allowed is a size from 1B to 1048576GiB like \"64MiB\", units B, KiB, MiB, GiB",
            "t.toml:5:11: on_full in [ship.a] is \"\", allowed is the path of a file",
        ],
    );
    check(
        "[ship.a]\nvolume = [\"a\", \"b\"]\n",
        &[
            "t.toml:1:1: missing key \"store\", \"dir\" or \"volumes\" in [ship.a]",
            "t.toml:2:1: unknown key \"volume\" in [ship.a], did you mean \"volumes\"?",
        ],
    );
}

#[test]
fn each_volume_has_a_folder_apart_from_the_log_and_from_all_others() {
    let fault = |text: &str| {
        let app = app();
        fs::create_dir_all(app.path().join("pub")).unwrap();
        resolve(&app.path().join("t.toml"), text, &env)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let found = fault("[ship.a]\nvolumes = [\"x\", \"x\"]\n");
    assert!(found.contains("x twice: each volume needs its own folder"), "{found}");
    let found = fault("[ship.a]\ndir = \"x\"\n[ship.b]\nvolumes = [\"x\", \"y\"]\n");
    assert!(found.contains("volumes in [ship.b] is the folder of [ship.a]"), "{found}");
    let found = fault(&format!("{VOLUMES}[ship.b]\ndir = \"b\"\n"));
    assert!(found.contains("dir in [ship.b] is the folder of [ship.a]"), "{found}");
    let found = fault("[log]\ndir = \"logs\"\n[ship.a]\nvolumes = [\"logs/a\", \"b\"]\n");
    assert!(
        found.contains("volumes in [ship.a] is ") && found.contains(", which overlaps dir in [log] ("),
        "{found}"
    );
    let served = "[[route]]\npath = \"/*\"\nfiles = \"pub\"\n";
    let found = fault(&format!("[ship.a]\nvolumes = [\"pub/a\", \"b\"]\n{served}"));
    assert!(found.contains("volumes in [ship.a] ("), "{found}");
    let found = fault(&format!("{VOLUMES}on_full = \"pub/hook\"\n{served}"));
    assert!(found.contains("on_full in [ship.a] ("), "{found}");
}

#[test]
fn volumes_are_printed_with_their_defaults() {
    let config = load(VOLUMES).unwrap();
    let volumes = config.ships[0].volumes().unwrap();
    assert_eq!((volumes.folders.len(), volumes.on_full()), (2, None));
    assert_eq!(config.ships[0].delete_rule(), DeleteRule::Loaded { sinks: vec!["main".to_owned()] });
    let printed = config.to_string();
    let expected = "\nvolume_bytes = \"1024GiB\"\nvolume_age = \"1h\"\nsame_device = false\nhook_timeout = \"10m\"\ndelete = \"loaded\"\n";
    assert!(printed.contains(expected), "{printed}");
    let all = format!("{VOLUMES}volume_age = \"0ms\"\non_full = \"/bin/hook\"\n");
    let config = load(&all).unwrap();
    assert_eq!(config.ships[0].volumes().unwrap().age_max, None);
    let hook = config.ships[0].volumes().unwrap().on_full().unwrap();
    assert_eq!((hook.program, hook.timeout.as_secs()), ("/bin/hook".into(), 600));
    assert!(config.to_string().contains("\nvolume_age = \"0ms\"\n"), "{config}");
}

const STORE: &str = "[ship.a]\nstore = \"s3://logs/a\"\n";

#[test]
fn faults_of_object_stores_are_told_without_any_secret() {
    check(
        "[ship.a]\nstore = \"s3://logs\"\ndir = \"x\"\n",
        &["t.toml:3:7: dir and store are both in [ship.a], allowed is one of them"],
    );
    check(
        "[ship.a]\ndir = \"x\"\nregion = \"r\"\n",
        &["t.toml:3:10: region in [ship.a] needs store, found dir"],
    );
    check(
        "[ship.a]\nstore = \"gs://logs/a\"\nchecksum = \"crc64nvme\"\n",
        &["t.toml:3:12: checksum in [ship.a] needs an s3:// store, found gs://"],
    );
    let faults =
        load(&format!("{STORE}access_key = \"id\"\nsecret_key = \"sesame\"\n")).unwrap_err().to_string();
    assert!(
        faults.contains("secret_key in [ship.a] is a plain text, allowed is ${NAME} or file:PATH"),
        "{faults}"
    );
    assert!(!faults.contains("sesame"), "{faults}");
    let faults = load(&format!("{STORE}secret_key = \"file:missing\"\n")).unwrap_err().to_string();
    assert!(faults.contains("missing: No such file"), "{faults}");
    let faults = load(&format!("{STORE}endpoint = \"http://192.0.2.1\"\n")).unwrap_err().to_string();
    assert!(faults.contains("store in [ship.a] cannot be used: "), "{faults}");
    let faults = load("[ship.a]\nstore = \"ftp://logs\"\n").unwrap_err().to_string();
    assert!(faults.contains("store in [ship.a]: \"ftp://logs\" is no place of objects"), "{faults}");
    let faults = load(&format!("{STORE}[ship.b]\nstore = \"s3://logs/a\"\n")).unwrap_err().to_string();
    assert!(faults.contains("store in [ship.b] is the place of [ship.a]"), "{faults}");
    load(&format!("{STORE}[ship.b]\nstore = \"s3://logs/b\"\n")).unwrap();
}

#[test]
fn a_secret_is_printed_by_its_source_and_its_file_is_never_served() {
    let dir = app();
    fs::write(dir.path().join("key"), "sesame\n").unwrap();
    fs::create_dir_all(dir.path().join("pub")).unwrap();
    fs::write(dir.path().join("pub/key"), "sesame\n").unwrap();
    let read = |text: &str| resolve(&dir.path().join("t.toml"), text, &env);
    let keys = "access_key = \"id\"\nsecret_key = \"file:key\"\nsession_token = \"${SECRET}\"\n";
    let config = read(&format!("{STORE}{keys}")).unwrap();
    let printed = config.to_string();
    assert!(printed.contains("secret_key = \"file:key\"") && printed.contains("\"${SECRET}\""), "{printed}");
    for secret in ["sesame", "0123456789abcdef"] {
        assert!(!printed.contains(secret) && !format!("{config:?}").contains(secret), "{secret}");
    }
    let served = "[[route]]\npath = \"/f/*\"\nfiles = \"pub\"\n";
    let served = served.to_owned() + STORE + "access_key = \"id\"\nsecret_key = \"file:pub/key\"\n";
    let faults = read(&served).unwrap_err().to_string();
    assert!(faults.contains("secret_key in [ship.a]"), "{faults}");
}
