//! Notes on values that are allowed, but may have an effect that their author does not expect.

use std::fs::{self, Metadata};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tollgate_load::SinkKind;
use tollgate_log::ColumnType;
use tollgate_queue::{Sasl, Security};
use tollgate_server::{
    BackendOptions, ColumnSpec, HandlerSpec, RouteSpec, ServerOptions, Source, StreamSpec,
};

use crate::certificates::Certificates;
use crate::config::{Config, ShipConfig, show_size};
use crate::print::printed_name;
use crate::wall;

/// Maximum number of writable files of one folder that are listed. Further files are only counted.
const WRITABLE_SHOWN: usize = 3;

/// Returns one line for each note.
pub(super) fn notes(config: &Config) -> Vec<String> {
    let server = &config.server;
    let backends = server.backends.iter().enumerate();
    let places = backends.filter_map(|(index, backend)| note_of_one_place(server, index, backend));
    let pages = server.routes.iter().flat_map(notes_of_pages);
    let connections = config.connections_note.iter().map(|note| format!("note: {note}"));
    let columns = server.streams.iter().flat_map(notes_of_reserved);
    let times = server.streams.iter().flat_map(notes_of_times);
    let dots = server.streams.iter().flat_map(notes_of_dots);
    let secrets = config.sinks.iter().filter_map(|sink| match &sink.options.kind {
        SinkKind::Kafka(kafka) => note_of_secret(&sink.options.name, &kafka.broker.security),
        _ => None,
    });
    places
        .chain(pages)
        .chain(columns)
        .chain(times)
        .chain(dots)
        .chain(secrets)
        .chain(notes_of_writable(config))
        .chain(notes_of_certificates(config))
        .chain(connections)
        .collect()
}

/// Returns a note for each column that `log cat` cannot print under its own name.
fn notes_of_reserved(stream: &StreamSpec) -> impl Iterator<Item = String> {
    stream.columns.iter().filter_map(|column| {
        let (stream, name, printed) = (&stream.name, &column.name, printed_name(&column.name));
        (printed != *name).then(|| {
            format!(
                "note: column {name:?} of [stream.{stream}] is printed as {printed:?} by log cat and log \
                 tail, in json and csv: the name is reserved there"
            )
        })
    })
}

/// Returns a note for each column of times that clients or scripts write, if the column has no unit.
fn notes_of_times(stream: &StreamSpec) -> impl Iterator<Item = String> {
    let is_meant = |column: &&ColumnSpec| {
        let is_field = matches!(column.source, Source::RecordField(_));
        column.kind.scalar() == ColumnType::Timestamp && is_field && column.times.unit.is_none()
    };
    stream.columns.iter().filter(is_meant).map(|column| {
        let (stream, name) = (&stream.name, &column.name);
        format!(
            "note: column {name:?} of [stream.{stream}] has no unit, so a number in it is microseconds, and \
             numbers before 1975 are rejects: set unit = \"s\", \"ms\", \"us\" or \"ns\""
        )
    })
}

/// Returns a note for each source with a name that has a dot, because the author may mean a nested field. A
/// JSON Pointer has only one meaning.
fn notes_of_dots(stream: &StreamSpec) -> impl Iterator<Item = String> {
    let columns = stream.columns.iter().map(|column| (format!("column {:?}", column.name), &column.source));
    let key = stream.key.iter().map(|key| ("the key".to_owned(), &key.source));
    columns.chain(key).filter_map(|(what, source)| {
        let (nested, same) = (source.dotted()?, source.pointer()?);
        let (stream, from) = (&stream.name, source.name());
        Some(format!(
            "note: {what} of [stream.{stream}] reads {from:?}: the dot is a part of the field's name. Write \
             {nested:?} for a nested field, or {same:?} for this field"
        ))
    })
}

/// Returns a note on a secret that a Kafka sink sends as it is, to every listener of the network.
fn note_of_secret(sink: &str, security: &Security) -> Option<String> {
    let (mechanism, secret, remedy) = match security.sasl.as_ref().filter(|_| security.tls.is_none())? {
        Sasl::Plain { .. } => ("plain", "password", "set tls = true, or sasl = \"scram-sha-512\""),
        Sasl::OauthBearer { .. } => ("oauthbearer", "token", "set tls = true"),
        Sasl::ScramSha256 { .. } | Sasl::ScramSha512 { .. } => return None,
    };
    Some(format!("note: sasl = {mechanism:?} in [sink.{sink}] sends the {secret} unencrypted: {remedy}"))
}

/// Returns notes on folders and files of records and bodies if every user of the machine can write to them. A
/// server does not change the permissions of existing files.
fn notes_of_writable(config: &Config) -> Vec<String> {
    let databases = config.sinks.iter().filter_map(|sink| sink.sqlite());
    let mut writable = Writable::default();
    for database in databases {
        writable.look(database.parent().unwrap_or(Path::new(".")));
        for end in ["", "-wal", "-shm"] {
            let mut path = database.as_os_str().to_owned();
            path.push(end);
            writable.look(Path::new(&path));
        }
    }
    config.ships.iter().flat_map(ShipConfig::folders).for_each(|folder| writable.look(folder));
    writable.look(&config.server.spool.dir);
    writable.look(&config.log.dir);
    writable.look_into(&config.log.dir);
    writable.notes()
}

/// The files and folders found so far that other users can write to.
#[derive(Default)]
struct Writable {
    found: Vec<PathBuf>,
    more: Vec<(PathBuf, usize)>,
}

impl Writable {
    fn look(&mut self, path: &Path) {
        let is_writable = fs::metadata(path).is_ok_and(|found| is_writable_by_others(&found));
        if is_writable && !self.found.iter().any(|known| known == path) {
            self.found.push(path.to_owned());
        }
    }

    /// Checks the files in a folder and in its subfolders.
    fn look_into(&mut self, folder: &Path) {
        let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        let (folders, mut files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
        files.retain(|path| fs::metadata(path).is_ok_and(|found| is_writable_by_others(&found)));
        if files.len() > WRITABLE_SHOWN {
            self.more.push((folder.to_owned(), files.split_off(WRITABLE_SHOWN).len()));
        }
        self.found.extend(files);
        for folder in folders {
            self.look(&folder);
            self.look_into(&folder);
        }
    }

    fn notes(self) -> Vec<String> {
        let found = self
            .found
            .iter()
            .map(|path| format!("note: every user can write to {0}: chmod o-w {0}", path.display()));
        let more = self.more.iter().map(|(folder, count)| {
            format!("note: every user can write to {count} more files in {}", folder.display())
        });
        found.chain(more).collect()
    }
}

/// Returns whether users other than owner and group can write. A folder with the sticky bit, such as `/tmp`,
/// does not count, because users cannot change each other's files in it.
fn is_writable_by_others(found: &Metadata) -> bool {
    let mode = found.permissions().mode();
    let is_shared_folder = found.is_dir() && mode & STICKY != 0;
    mode & OTHERS_WRITE != 0 && !is_shared_folder
}

/// Bits of `st_mode` (inode(7)).
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Returns a note for each certificate that has expired or should be renewed.
fn notes_of_certificates(config: &Config) -> Vec<String> {
    let tls = config.server.tls.as_deref();
    let served = tls.map(Certificates::of).unwrap_or_default().served;
    served.iter().filter_map(|served| served.due(wall::now())).map(|text| format!("note: {text}")).collect()
}

/// Returns a note for each missing page. A missing page is allowed, because a later release of the folder may
/// add it. Until then the server's own text is sent.
fn notes_of_pages(route: &RouteSpec) -> Vec<String> {
    let HandlerSpec::Files(files) = &route.handler else { return Vec::new() };
    let pages = files.error_pages.iter().map(|(status, page)| (status, files.root.join(page)));
    let missing = pages.filter(|(_, page)| !page.is_file());
    let note = |(status, page): (&u16, PathBuf)| {
        format!("note: the page for {status} of route {:?} does not exist: {}", route.path, page.display())
    };
    missing.map(note).collect()
}

/// Returns a note for a backend with one connection. Streamed bodies use at most half of the connections.
/// Half of one connection, rounded down, is zero.
fn note_of_one_place(server: &ServerOptions, index: usize, backend: &BackendOptions) -> Option<String> {
    let memory_max = server.connection.body_memory_max as u64;
    let is_meant = |route: &&RouteSpec| route.body_bytes_max > memory_max && would_stream(route, index);
    let routes: Vec<_> =
        server.routes.iter().filter(is_meant).map(|route| format!("{:?}", route.path)).collect();
    if backend.concurrency_max > 1 || routes.is_empty() {
        return None;
    }
    Some(format!(
        "note: concurrency_max in [backend.{}] is 1, so bodies longer than body_memory_max ({}) are spooled \
         and do not stream. Set it to at least 2 to stream them. Routes: {}",
        backend.name,
        show_size(memory_max),
        routes.join(", ")
    ))
}

/// Returns whether long bodies of the route are sent to this backend while they arrive, if connections are
/// free.
fn would_stream(route: &RouteSpec, backend: usize) -> bool {
    let needs_whole = route.stream.is_some() || !route.before.is_empty() || !route.after.is_empty();
    let has_bodies = route.methods.is_none_or(|methods| methods.iter().any(|method| !method.is_safe()));
    route.handler.proxies().any(|proxy| proxy.backend == backend) && !needs_whole && has_bodies
}

#[cfg(test)]
mod tests {
    use tollgate_queue::Tls;

    use super::*;

    #[test]
    fn a_secret_that_a_kafka_sink_sends_unencrypted_is_noted() {
        let (user, password) = ("u".to_owned(), "hunter2".to_owned());
        let plain = Sasl::Plain { user: user.clone(), password: password.clone() };
        let scram = Sasl::ScramSha512 { user, password };
        let token = Sasl::OauthBearer { token_file: "token".into() };
        let tls = || Some(Tls { ca: None, identity: None });
        let of_plain = "note: sasl = \"plain\" in [sink.bus] sends the password unencrypted: set tls = true, \
                        or sasl = \"scram-sha-512\"";
        let of_token =
            "note: sasl = \"oauthbearer\" in [sink.bus] sends the token unencrypted: set tls = true";
        for (tls, sasl, expected) in [
            (None, Some(plain.clone()), Some(of_plain)),
            (None, Some(token.clone()), Some(of_token)),
            (None, Some(scram), None),
            (None, None, None),
            (tls(), Some(plain), None),
            (tls(), Some(token), None),
        ] {
            assert_eq!(note_of_secret("bus", &Security { tls, sasl }).as_deref(), expected);
        }
    }
}
