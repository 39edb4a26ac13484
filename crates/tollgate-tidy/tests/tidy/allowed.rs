//! The allowed dependencies between crates, and the exceptions to the rules of the tidy test, each with a
//! reason.
//!
//! A list with the note "may only shrink" contains the remaining violations. Remove an entry when its cause
//! is gone.

/// The crates that each crate may use. A crate is listed after the crates that it uses.
pub(crate) const LAYERS: [(&str, &[&str]); 23] = [
    ("tollgate-meter", &[]),
    ("tollgate-value", &[]),
    ("tollgate-xml", &[]),
    ("tollgate-relaxng", &[]),
    ("tollgate-validate", &["tollgate-relaxng", "tollgate-xml"]),
    ("tollgate-http", &["tollgate-value"]),
    ("tollgate-tls", &[]),
    ("tollgate-signature", &[]),
    ("tollgate-auth", &["tollgate-signature"]),
    ("tollgate-types", &[]),
    ("tollgate-faults", &[]),
    ("tollgate-tidy", &[]),
    ("tollgate-queue", &[]),
    ("tollgate-log", &["tollgate-meter", "tollgate-value"]),
    ("tollgate-acme", &["tollgate-tls"]),
    ("tollgate-backend", &["tollgate-http", "tollgate-tls"]),
    (
        "tollgate-script",
        &["tollgate-http", "tollgate-signature", "tollgate-value", "tollgate-xml", "tollgate-validate"],
    ),
    ("tollgate-ship", &["tollgate-log", "tollgate-tls"]),
    ("tollgate-lake", &["tollgate-log", "tollgate-value"]),
    (
        "tollgate-load",
        &[
            "tollgate-lake",
            "tollgate-log",
            "tollgate-meter",
            "tollgate-queue",
            "tollgate-ship",
            "tollgate-tls",
            "tollgate-value",
        ],
    ),
    ("tollgate-files", &["tollgate-http", "tollgate-meter"]),
    (
        "tollgate-server",
        &[
            "tollgate-auth",
            "tollgate-http",
            "tollgate-backend",
            "tollgate-files",
            "tollgate-log",
            "tollgate-meter",
            "tollgate-script",
            "tollgate-signature",
            "tollgate-tls",
            "tollgate-validate",
            "tollgate-value",
            "tollgate-xml",
        ],
    ),
    (
        "tollgate",
        &[
            "tollgate-acme",
            "tollgate-ship",
            "tollgate-http",
            "tollgate-load",
            "tollgate-log",
            "tollgate-meter",
            "tollgate-queue",
            "tollgate-server",
            "tollgate-signature",
            "tollgate-types",
            "tollgate-value",
        ],
    ),
];

/// The crates that only the tests of a crate may use.
pub(crate) const LAYERS_OF_TESTS: [(&str, &[&str]); 4] = [
    // A broker of Kafka.
    ("tollgate-queue", &["tollgate-faults"]),
    ("tollgate-load", &["tollgate-faults"]),
    // Backends that misbehave.
    ("tollgate-server", &["tollgate-faults"]),
    ("tollgate", &["tollgate-faults"]),
];

/// Two files of a crate that may import each other.
pub(crate) struct Pair {
    pub(crate) name: &'static str,
    pub(crate) files: [&'static str; 2],
    pub(crate) reason: &'static str,
}

pub(crate) const PAIRS: [Pair; 0] = [];

/// Number of files in each import cycle of a crate, without allowed pairs. May only shrink.
pub(crate) const CYCLES_NOT_YET_DISSOLVED: [(&str, &[usize]); 0] = [];

/// The modules that the root of a crate declares, from the lowest layer to the highest. A module may import
/// modules of earlier lines. A crate that is not listed has no order of modules yet.
pub(crate) const MODULES: [(&str, &[&[&str]]); 10] = [
    (
        "tollgate-xml",
        &[
            // Characters, places and bounds.
            &["characters", "limits", "position"],
            &["error", "escape"],
            &["name", "reference", "scope"],
            // What a reader reports, and the markup that it reads.
            &["attributes", "elements", "writer"],
            &["events"],
            &["markup", "path", "tag"],
            &["decoder"],
            &["reader"],
            &["lib"],
        ],
    ),
    (
        "tollgate-relaxng",
        &[
            &["error", "limits", "name", "source"],
            &["datatype"],
            // The files of a schema.
            &["syntax"],
            &["pattern"],
            &["automaton", "compile"],
            &["schema"],
            &["validate"],
            &["lib"],
        ],
    ),
    (
        "tollgate-http",
        &[
            &[
                "cookie",
                "date",
                "grammar",
                "html",
                "limits",
                "method",
                "scheme",
                "span",
                "status",
                "structured",
                "version",
            ],
            &["authority", "error", "query"],
            // The parts of a head.
            &["field", "framing", "path", "target"],
            &["connection", "form_data", "reply"],
            &["chunked", "range", "reply_head", "request"],
            // Modules that decide on a request head, or process a whole head.
            &["conditional", "route"],
            &["digest", "negotiate"],
            &["lib"],
        ],
    ),
    (
        "tollgate-backend",
        &[
            &["budget", "reachability", "streamed", "tls"],
            &["address", "failure", "outgoing"],
            &["options"],
            &["breaker", "limit"],
            &["snapshot", "target"],
            &["link", "resolver"],
            // A backend is shared by all workers. Each worker has its own pools.
            &["backend", "exchange", "pool"],
            &["upstream"],
            // Modules that process one request.
            &["attempt"],
            &["incoming"],
            &["send"],
            &["lib"],
        ],
    ),
    (
        "tollgate-script",
        &[
            // Values, texts and files. These modules are independent of most others.
            &["body", "clock", "conversion", "database", "disk", "error", "fetch"],
            &["id", "interned", "keeper", "marks", "memory", "nearest"],
            &["record", "shared", "text", "thread_time", "ticker", "tls"],
            &["collector", "pipe", "route_choice", "stretch"],
            &["arguments", "caller", "emitted", "form_parts", "options", "require", "trace", "xml_elements"],
            &["times"],
            &["precondition", "request", "uploads", "waits"],
            &["reach", "sys"],
            // The request of the running call, and the time budget of the call.
            &["active", "budget"],
            &["json", "xml"],
            &["reply"],
            // The functions of a script.
            &["api"],
            &["vm"],
            &["pace", "script"],
            &["call", "loading"],
            // Types that the server holds.
            &["loaded_script"],
            &["host"],
            &["hook", "renewal", "testing"],
            &["lib"],
        ],
    ),
    (
        "tollgate-log",
        &[
            // Names, errors and the disk.
            &["appended", "descriptors", "id"],
            &["awaited", "duty", "error", "queue_age"],
            &["reader", "storage"],
            &["column_type", "meter", "note_file", "room"],
            &["deleted"],
            &["schema", "value"],
            // The format, from a record to a segment.
            &["array_buffer", "record"],
            &["batch", "row_body"],
            &["segment"],
            &["accepted", "options", "scan", "segment_writer"],
            &["digest", "worker_batch"],
            &["inspect", "pending_acks", "recover", "seal"],
            // Readers of the log, and events of sealed segments.
            &["cursor", "event", "verify"],
            &["repair", "segment_list"],
            // The log of this process run.
            &["commit"],
            &["append", "retain", "status"],
            &["log"],
            &["lib"],
        ],
    ),
    (
        "tollgate-files",
        &[
            // Modules that know only their own subject.
            &["compress", "digest", "disk_jobs", "file_slice", "folder_bounds", "request", "stamp"],
            &["tally", "two_generation_cache"],
            &["opened", "options", "reply"],
            &["lookup_context", "media"],
            // The file at a path.
            &["root"],
            &["listing", "source"],
            // The form in which a file is sent.
            &["representation"],
            &["compressed", "pending_read", "selected"],
            &["digests"],
            &["resource"],
            // State that is kept between requests.
            &["cache"],
            &["descriptor_cache"],
            &["files"],
            // Modules that process one request.
            &["path_lookup"],
            &["answer", "named"],
            &["lib"],
        ],
    ),
    (
        "tollgate-load",
        &[
            &["clock", "error", "footer", "live", "sqlite_files", "sys"],
            &["sink"],
            // The leases of several loaders. A load notes there which logs another loader has.
            &["lease"],
            &["load", "query", "topic"],
            &["audit"],
            &["lib"],
        ],
    ),
    (
        "tollgate",
        &[
            // The common parts of all commands: the configuration, arguments, output.
            &["colour"],
            &["config", "notify", "progress", "sys", "wall"],
            &["tracing_lines"],
            &["cli"],
            &[
                "certificates",
                "descriptors",
                "loader",
                "print",
                "retyped",
                "store",
                "temporary",
                "version",
                "watch",
            ],
            &["acme", "common_log", "leases", "load_end"],
            &["access_log", "load_topics", "local_tls", "otlp"],
            &["panic", "ships", "sinks"],
            &["board"],
            // Other processes and operators.
            &["control", "observe"],
            &["upgrade"],
            &["admin", "certificate_watch", "destinations", "event", "load_from"],
            &["load_report"],
            // Commands, except those of the server.
            &["audit", "auth", "log", "manual", "new", "sql", "test"],
            // A checked sample prints values like the log.
            &["check"],
            &["dev", "load", "status", "types"],
            &["cert"],
            &["ship_plan", "ship_volumes"],
            &["orders", "reload", "ship"],
            &["serve"],
            &["main"],
        ],
    ),
    (
        "tollgate-server",
        &[
            // Modules that use no other module of this crate.
            &[
                "access_queue",
                "clock",
                "error",
                "identity",
                "item_summary",
                "origin",
                "scratch",
                "session",
                "sys",
                "task_turn",
                "trust",
            ],
            &["deadline", "options"],
            &["listen", "observe"],
            // The line of a request in the access log, which names the route.
            &["access_log"],
            // The interface to the log.
            &["recorder"],
            &["reply"],
            // The handlers of a request, and the gates that refuse it.
            &["choice", "cors", "dev", "https", "overload", "row", "spool", "upload", "validation", "verify"],
            // Proof of the caller, which counts failures like a rate.
            &["auth"],
            &["app", "handler"],
            &["service"],
            // Hooks use the backends of a service.
            &["dns_hook"],
            &["check"],
            // The parts that connections share, the search for the route of a request, and connections.
            &["worker"],
            &["admit", "reload", "vm_keeper"],
            &["conn"],
            // Tests of an app decode a captured body like a connection.
            &["accept", "stream_server", "testing"],
            &["worker_thread"],
            &["server"],
            &["lib"],
        ],
    ),
];

/// Files with `unsafe` outside of a folder `sys`. There is no such file.
pub(crate) const UNSAFE: [(&str, &str); 0] = [];

/// Lines of source that are too wide: in comments, and in code with literals that rustfmt does not break. May
/// only shrink.
pub(crate) const WIDE_LINES: [(&str, usize, usize); 7] = [
    ("tollgate", 0, 190),
    ("tollgate-backend", 0, 1),
    ("tollgate-http", 0, 9),
    ("tollgate-load", 0, 53),
    ("tollgate-log", 1, 5),
    ("tollgate-script", 0, 61),
    ("tollgate-server", 0, 62),
];

/// Number of lines of text that are too wide. May only shrink.
pub(crate) const WIDE_LINES_OF_TEXT: [(&str, usize); 3] =
    [("docs", 22), ("tollgate", 2), ("tollgate-log", 4)];

/// Lines that may name a folder which exists only on one machine.
pub(crate) const LOCAL_PATHS: [(&str, &str); 1] =
    [("crates/tollgate/src/config/env.rs", "the value of HOME in a test that expands it")];

/// Names of public types that two files of a crate define. May only shrink.
pub(crate) const NAMES_DEFINED_TWICE: [(&str, &[&str]); 0] = [];
