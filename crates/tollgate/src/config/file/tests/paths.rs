//! Faults of paths, and of lists and names that are empty after their faulty parts are removed.

use super::*;

#[test]
fn an_empty_path_is_told_and_taken_for_no_folder() {
    let folder = "allowed is the path of a folder, or \".\" for the folder of the configuration";
    let file = "allowed is the path of a file";
    check("[log]\ndir = \"\"\n", &[&format!("t.toml:2:7: dir in [log] is \"\", {folder}")]);
    check(
        "[server]\nspool_dir = \"\"\n",
        &[&format!("t.toml:2:13: spool_dir in [server] is \"\", {folder}")],
    );
    check("[sink.a]\nsqlite = \"\"\n", &[&format!("t.toml:2:10: sqlite in [sink.a] is \"\", {file}")]);
    check(
        "[database.a]\nsqlite = \"\"\n",
        &[&format!("t.toml:2:10: sqlite in [database.a] is \"\", {file}")],
    );
    check(
        "[script]\nfile_dir = \"\"\nupload_dir = \"\"\n",
        &[
            &format!("t.toml:2:12: file_dir is \"\", {folder}"),
            &format!("t.toml:3:14: upload_dir is \"\", {folder}"),
        ],
    );
    let route = |files: &str| format!("[[route]]\npath = \"/*\"\nfiles = {files}\n");
    check(&route("\"\""), &[&format!("t.toml:3:9: files is \"\", {folder}")]);
    check(&route("{ dir = \"\" }"), &[&format!("t.toml:3:17: dir in files is \"\", {folder}")]);
}

#[test]
fn a_list_of_which_only_faults_are_left_is_not_told_as_empty() {
    let absent =
        |place: &str, key: &str| format!("t.toml:{place}: {key}: environment variable NOPE is not set");
    check("[server]\nlisten = [\"${NOPE}\"]\n", &[&absent("2:11", "listen in [server]")]);
    check("[backend.b]\nurls = [\"${NOPE}\"]\n", &[&absent("2:9", "urls in [backend.b]")]);
    let route = "[[route]]\npath = \"/\"\nreply = {}\nmethods = [\"${NOPE}\"]\n";
    check(route, &[&absent("4:12", "methods in [[route]]")]);
    check(
        "[server]\nlisten = []\n",
        &["t.toml:2:10: listen in [server] is empty, allowed is a list of \"ip:port\""],
    );
}

#[test]
fn a_name_where_there_is_none_to_name_is_told_as_such() {
    check(
        "[sink.a]\nsqlite = \"a.db\"\nstreams = [\"scores\"]\n",
        &["t.toml:3:12: unknown stream \"scores\" in [sink.a]: the file has no [stream.NAME]"],
    );
    check(
        "[script]\ndatabases = [\"main\"]\n",
        &["t.toml:2:14: unknown database \"main\": none is declared"],
    );
}
