//! Routes, their hosts, policies and files.

use super::*;

#[test]
fn faults_of_routes_are_told() {
    let route = |text: &str| format!("{SCORES}[[route]]\n{text}");
    check(
        &route(""),
        &[
            "t.toml:3:1: [[route]] needs one handler, found none, allowed is one of script, files, proxy, collect, reply, when",
            "t.toml:3:1: missing key \"path\" in [[route]]",
        ],
    );
    check(
        &route("path = \"/\"\nscript = \"a.luau\"\nreply = {}\n"),
        &[
            "t.toml:3:1: [[route]] needs one handler, found script and reply, allowed is one of script, files, proxy, collect, reply, when",
        ],
    );
    check(
        &route("path = \"/\"\nscript = \"b.luau\"\n"),
        &["t.toml:5:10: script \"b.luau\" is not a file: looked for b.luau"],
    );
    check(
        &route(
            "path = \"x\"\ncollect = false\nstream = \"score\"\nhost = \"a:80\"\nmethods = [\"get\", \"BREW\"]\n",
        ),
        &[
            "t.toml:4:8: path is \"x\", allowed is a path that begins with \"/\"",
            "t.toml:5:11: collect in [[route]] is false, allowed is true: remove the key instead",
            "t.toml:6:10: unknown stream \"score\", did you mean \"scores\"?",
            "t.toml:7:8: host in [[route]] is \"a:80\", allowed is a name or an address without a port",
            "t.toml:8:12: unknown method \"get\", did you mean \"GET\"?",
            "t.toml:8:19: unknown method \"BREW\", allowed: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS",
        ],
    );
    check(
        "[[route]]\npath = \"/\"\nscript = \"a.luau\"\nstream = \"x\"\nmethods = []\n",
        &[
            "t.toml:4:10: unknown stream \"x\": the file has no [stream.NAME]",
            "t.toml:5:11: methods in [[route]] is empty, allowed is a list of methods: remove the key for \
             the default",
        ],
    );
    check(
        &route("path = \"/\"\ncollect = true\n"),
        &["t.toml:3:1: missing key \"stream\" in [[route]]: collect needs a stream for its items"],
    );
    check(
        &route("path = \"/\"\nreply = { status = 100, content_type = \"x\\n\" }\n"),
        &[
            "t.toml:5:20: status in reply of [[route]] is 100, allowed is an integer from 200 to 599",
            "t.toml:5:40: content_type is \"x\\n\", allowed is a media type like \"text/plain\"",
        ],
    );
    check(
        &route("path = \"/\"\nreply = { status = 204, body = \"x\" }\n"),
        &["t.toml:5:32: body has 1 bytes, allowed is none: a reply 204 has no content"],
    );
}

#[test]
fn routes_in_each_others_way_are_told_with_both_lines() {
    let route = |path: &str, more: &str| format!("[[route]]\npath = \"{path}\"\nscript = \"a.luau\"\n{more}");
    check(
        &format!("{}\n{}", route("/a/{x}", ""), route("/a/{y}", "methods = [\"GET\"]\n")),
        &["t.toml:5:1: route \"/a/{y}\" conflicts with the route at line 1: host and path are the same, \
             and methods overlap"],
    );
    check(&format!("{}{}", route("/a", "host = \"x\"\n"), route("/a", "")), &[]);
    check(
        &format!("{}{}", route("/a", "host = \"X\"\n"), route("/a", "host = \"x\"\n")),
        &["t.toml:5:1: route \"/a\" conflicts with the route at line 1: host and path are the same, and \
             methods overlap"],
    );
    check(&format!("{}{}", route("/a", "methods = [\"GET\"]\n"), route("/a", "methods = [\"POST\"]\n")), &[]);
}

#[test]
fn any_page_with_credentials_may_use_collect_and_fixed_replies_alone() {
    let config = load(
        "[stream.s]\ncolumns = [{ name = \"a\", type = \"int\" }]\n\
         [[route]]\npath = \"/s\"\ncollect = true\nstream = \"s\"\n\
         cors = { origins = \"any-with-credentials\" }\n",
    );
    let printed = config.unwrap().to_string();
    let expected = "cors = { origins = \"any-with-credentials\", headers = [\"Content-Type\"], expose = [], \
                    credentials = true, max_age = \"10m\" }";
    assert!(printed.contains(expected), "{printed}");
    assert_eq!(load(&printed).unwrap().to_string(), printed);
    let cors = "cors = { origins = \"any-with-credentials\", credentials = false, expose = [\"ETag\"] }";
    check(
        &format!("[[route]]\npath = \"/\"\nreply = {{}}\n{cors}\n"),
        &[
            "t.toml:4:58: credentials in cors is false, allowed with origins = \"any-with-credentials\" is true: \
             remove the key",
            "t.toml:4:74: expose in cors is not allowed with origins = \"any-with-credentials\": any page could \
             read the field",
        ],
    );
    let cors = "cors = { origins = \"any-with-credentials\" }";
    check(
        &format!("[[route]]\npath = \"/*\"\nfiles = \"/usr\"\n{cors}\n"),
        &["t.toml:4:8: cors has origins = \"any-with-credentials\", allowed are collect and reply without \
             scripts: list the origins"],
    );
}

#[test]
fn faults_of_cors_say_what_browsers_take() {
    let route = |cors: &str| format!("[[route]]\npath = \"/\"\nreply = {{}}\ncors = {cors}\n");
    check(
        &route("\"https://a.example\""),
        &[
            "t.toml:4:8: cors in [[route]] is the string \"https://a.example\", allowed is \"*\" or a table { origins = \
             [...], ... }",
        ],
    );
    check(
        &route("true"),
        &["t.toml:4:8: cors in [[route]] is true, allowed is \"*\" or a table { origins = [...], ... }"],
    );
    check(&route("{}"), &["t.toml:4:8: missing key \"origins\" in cors"]);
    check(
        &route("{ origins = [], max_age = \"1500ms\", method = [] }"),
        &[
            "t.toml:4:20: origins in cors is empty, allowed is a list of origins, or [\"*\"]",
            "t.toml:4:34: max_age in cors is \"1500ms\", allowed are whole seconds",
            "t.toml:4:44: unknown key \"method\" in cors, did you mean \"methods\"?",
        ],
    );
    check(
        &route("{ origins = [\"*\"], headers = [\"*\"], expose = [\"*\"], credentials = true }"),
        &[
            "t.toml:4:21: origins in cors is \"*\", allowed with credentials is a list of names: browsers \
             refuse \"*\" there",
            "t.toml:4:38: headers in cors is \"*\", allowed with credentials is a list of names: browsers \
             refuse \"*\" there",
            "t.toml:4:54: expose in cors is \"*\", allowed with credentials is a list of names: browsers \
             refuse \"*\" there",
        ],
    );
    check(
        &route("{ origins = [\"null\", \"a.example\"], methods = [\"TRACE\"], headers = [\"a b\", \"*\"] }"),
        &[
            "t.toml:4:21: origins in cors has \"null\", which is the origin of every sandboxed page and \
             every local file: allow \"*\" instead",
            "t.toml:4:29: origins in cors has \"a.example\", allowed is scheme, host and port as browsers write them: \
             \"https://app.example.org\"",
            "t.toml:4:54: unknown method \"TRACE\", allowed: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS",
            "t.toml:4:75: headers in cors has \"a b\", allowed is the name of a header, or \"*\" alone",
            "t.toml:4:82: headers in cors has \"*\", allowed is the name of a header, or \"*\" alone",
        ],
    );
}

#[test]
fn the_server_itself_is_for_options_alone() {
    check(
        &format!(
            "{SCORES}[[route]]\npath = \"*\"\ncollect = true\nstream = \"scores\"\nmethods = [\"GET\"]\n"
        ),
        &[
            "t.toml:3:1: path \"*\" has collect, allowed are script and reply: the path is only for OPTIONS",
            "t.toml:7:11: methods of path \"*\" are GET, allowed is OPTIONS: the path stands for the whole \
             server",
        ],
    );
    check(
        "[[route]]\npath = \"*\"\nreply = {}\nmethods = [\"FOO\"]\n",
        &["t.toml:4:12: unknown method \"FOO\", allowed: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS"],
    );
    check(
        "[[route]]\npath = \"*\"\nreply = {}\n[[route]]\npath = \"*\"\nscript = \"a.luau\"\n",
        &["t.toml:4:1: route \"*\" conflicts with the route at line 1: host and path are the same, and \
             methods overlap"],
    );
    check("[[route]]\npath = \"*\"\nmethods = [\"OPTIONS\"]\nreply = {}\n", &[]);
}

#[test]
fn one_host_in_two_spellings_is_one_host() {
    check(
        "[[route]]\nhost = \"[::1]\"\npath = \"/\"\nreply = {}\n[[route]]\nhost = \"[0::1]\"\npath = \"/\"\nreply = {}\n\
         [[route]]\nhost = \"A.example.\"\npath = \"/\"\nreply = {}\n[[route]]\nhost = \"a.example\"\npath = \"/\"\nreply = {}\n",
        &[
            "t.toml:5:1: route \"/\" conflicts with the route at line 1: host and path are the same, and \
             methods overlap",
            "t.toml:13:1: route \"/\" conflicts with the route at line 9: host and path are the same, and \
             methods overlap",
        ],
    );
}

#[test]
fn files_are_a_folder_or_a_table_and_read_back_to_the_same() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("public")).unwrap();
    let file = folder.path().join("tollgate.toml");
    let printed = |files: &str| {
        std::fs::write(&file, format!("[[route]]\npath = \"/*\"\nfiles = {files}\n")).unwrap();
        Config::load(&file).unwrap().to_string()
    };
    let line = |files: &str| {
        let printed = printed(files);
        let line = printed.lines().find_map(|line| line.strip_prefix("files = ")).unwrap();
        let dir = folder.path().join("public").display().to_string();
        line.replace(&dir, "PUBLIC")
    };
    assert_eq!(
        line("\"public\""),
        "{ dir = \"PUBLIC\", index = [\"index.html\"], listing = false, try = [\"{path}\"], dotfiles = false, \
         symlinks = \"refuse\", charset = \"utf-8\", types = {}, etag = \"stat\", cache_control = {}, expires = false, headers = {}, errors = {}, \
         precompressed = true, compress = false, compress_cache_bytes_max = \"16MiB\", sendfile = true, recheck = \"1s\" }"
    );
    let whole = "{ dir = \"public\", index = [\"a.html\", \"b.html\"], listing = true, try = [\"{path}\", \"{path}.html\", \"/app.html\"], \
         dotfiles = true, symlinks = \"inside\", charset = \"off\", types = { \"x\" = \"a/b\" }, etag = \"content\", \
         cache_control = { \"text/html\" = \"no-cache\", \"*/*\" = \"max-age=9\" }, expires = true, headers = { \"X-A\" = \"$${b}\" }, \
         errors = { \"404\" = \"404.html\" }, precompressed = false, compress = true, compress_cache_bytes_max = \"1MiB\", \
         sendfile = false, recheck = \"0ms\" }";
    assert_eq!(line(whole).replace("PUBLIC", "public"), whole);
    let once = printed(whole);
    std::fs::write(&file, &once).unwrap();
    assert_eq!(Config::load(&file).unwrap().to_string(), once);
    assert!(
        line("{ dir = \"public\", cache_control = \"no-store\" }").contains("{ \"*/*\" = \"no-store\" }")
    );
}

#[test]
fn faults_of_files_are_told() {
    let route = |path: &str, files: &str| format!("[[route]]\npath = \"{path}\"\nfiles = {files}\n");
    check(
        &route("/x", "\"no-such\""),
        &[
            "t.toml:2:8: path is \"/x\", allowed with files is a path that ends in \"/*\"",
            "t.toml:3:9: files is \"no-such\", which is not a folder: looked for no-such",
        ],
    );
    check(
        &(route("/*", "\"no-such\"") + "methods = [\"GET\", \"POST\", \"OPTIONS\"]\n"),
        &[
            "t.toml:3:9: files is \"no-such\", which is not a folder: looked for no-such",
            "t.toml:4:11: methods in [[route]] are GET, POST, OPTIONS, allowed with files are GET and HEAD: \
             other methods need a script in before",
        ],
    );
    check(
        "[stream.s]\ncolumns = [{ name = \"a\", type = \"text\", from = \"record.a\" }]\n[[route]]\npath = \"/c\"\nstream = \"s\"\ncollect = true\nmethods = [\"GET\", \"POST\"]\n",
        &["t.toml:7:11: methods in [[route]] are GET, POST, allowed with collect is POST: other methods \
             need a script in before"],
    );
    check(
        &route("/*", "true"),
        &["t.toml:3:9: files in [[route]] is true, allowed is a folder, or a table { dir = \"...\", ... }"],
    );
    check(&route("/*", "{}"), &["t.toml:3:9: missing key \"dir\" in files"]);
    check(
        &route(
            "/*",
            "{ dir = \"/usr\", indx = [], try = [\"x\"], types = { \".a\" = \"b/c\" }, headers = { ETag = \"1\" }, \
             errors = { 200 = \"a\", 404 = \"../a\" }, cache_control = { html = \"no-cache\" }, etag = \"weak\", compress_cache_bytes_max = \"1KiB\", listing = 1 }",
        ),
        &[
            "t.toml:3:25: unknown key \"indx\" in files, did you mean \"index\"?",
            "t.toml:3:43: try in files has \"x\", allowed are \"{path}\", the same with an ending like \"{path}.html\", and \
             \"/FILE\"",
            "t.toml:3:66: types in files has \".a\", allowed is an extension without its dot, the name of a file, or \"*\"",
            "t.toml:3:94: headers in files has \"ETag\", which only the server writes: remove it",
            "t.toml:3:118: errors in files has \"200\", allowed: 403, 404, 412, 416, 500, 503",
            "t.toml:3:129: errors in files has \"../a\", allowed is the path of a file in the folder",
            "t.toml:3:164: cache_control in files has \"html\", allowed are media types, \"image/*\" and \"*/*\"",
            "t.toml:3:185: etag in files is \"weak\", allowed: stat, content, off",
            "t.toml:3:220: compress_cache_bytes_max in files is \"1KiB\", allowed is a size from 64KiB to 4GiB like \"64MiB\", \
             units B, KiB, MiB, GiB",
            "t.toml:3:238: listing in files is the integer 1, allowed is true or false",
        ],
    );
}

#[test]
fn keys_of_files_that_differ_in_case_only_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.toml");
    fs::create_dir(folder.path().join("public")).unwrap();
    let text = "[[route]]\npath = \"/*\"\n[route.files]\ndir = \"public\"\n\
        types = { a = \"text/plain\", A = \"text/html\" }\n\
        cache_control = { \"text/css\" = \"no-cache\", \"Text/CSS\" = \"no-store\" }\n\
        headers = { \"X-A\" = \"1\", \"X-B\" = \"2\", \"x-a\" = \"3\" }\n";
    let error = resolve(&file, text, &env).unwrap_err();
    let found: Vec<_> = error.faults.iter().map(|fault| (fault.line, fault.text.as_str())).collect();
    let only = "allowed is one of them: upper and lower case are equal here";
    let expected = [
        (5, format!("types in files has \"a\" and \"A\", {only}")),
        (6, format!("cache_control in files has \"text/css\" and \"Text/CSS\", {only}")),
        (7, format!("headers in files has \"X-A\" and \"x-a\", {only}")),
    ];
    assert_eq!(found, expected.each_ref().map(|(line, text)| (*line, text.as_str())));
}

#[test]
fn a_folder_that_the_server_writes_to_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.toml");
    std::fs::write(&file, "[[route]]\npath = \"/*\"\nfiles = \".\"\n").unwrap();
    let error = Config::load(&file).unwrap_err().to_string();
    assert!(error.contains("where clients could fetch files of the server: dir in [log] ("), "{error}");
}

#[test]
fn faults_of_limits_are_told() {
    let route = |text: &str| format!("[[route]]\npath = \"/\"\nreply = {{}}\n{text}\n");
    let by = "request.remote_addr, request.auth.name, request.header.NAME, request.cookie.NAME, \
              request.query.NAME, route";
    let rate = "1 to 1000000 in a second, a minute or an hour, like \"100/s\", \"10/m\", \"5/h\"";
    check(
        &route("concurrency_max = 0"),
        &[
            "t.toml:4:19: concurrency_max in [[route]] is 0, allowed is \"off\" or an integer from 1 to 16777216",
        ],
    );
    check(
        &route("rate_limit = 5"),
        &["t.toml:4:14: rate_limit in [[route]] is the integer 5, allowed is a table { rate = \"100/s\", \
             ... }, or a list of such tables"],
    );
    check(
        &route("rate_limit = { rate = \"9/s\", by = \"request.header.x_key\" }"),
        &["t.toml:4:35: by is \"request.header.x_key\": field names with _ are refused, did you mean \
           \"request.header.x-key\"?"],
    );
    check(&route("rate_limit = {}"), &["t.toml:4:14: missing key \"rate\" in rate_limit"]);
    check(
        &route("rate_limit = { rate = \"9\", by = \"request.path\", burst = 0, keys_max = 1, per = 1 }"),
        &[
            &format!("t.toml:4:23: rate is \"9\", allowed is {rate}"),
            &format!("t.toml:4:33: by is \"request.path\", allowed is one of: {by}"),
            "t.toml:4:57: burst in rate_limit is 0, allowed is an integer from 1 to 1000000",
            "t.toml:4:71: keys_max in rate_limit is 1, allowed is an integer from 64 to 16777216",
            "t.toml:4:74: unknown key \"per\" in rate_limit, allowed: rate, burst, by, keys_max",
        ],
    );
}
