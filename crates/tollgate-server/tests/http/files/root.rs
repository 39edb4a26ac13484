//! Tests that only regular files inside of the root are served, whatever the target is.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, mknodat, openat2, renameat_with};
use rustix::io::Errno;
use tollgate_server::{Symlinks, TryPath};

use super::found::{get, site};
use crate::site::Site;

/// Content outside of the root that must never be sent.
const CANARY: &str = "CANARY-outside-the-root";

fn with_canaries(site: Site) -> Site {
    site.file("canary.txt", CANARY)
        .file("public-not/canary.txt", CANARY)
        .file("public/sub/inner.txt", "inner")
}

/// Returns targets that lead upwards with dot segments: raw and escaped, once and twice, in overlong UTF-8,
/// and with other separators.
fn targets() -> Vec<String> {
    let dots = [
        "..",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "%252e%252e",
        "%c0%ae%c0%ae",
        "%e0%80%ae%e0%80%ae",
        "..%00",
        "..;",
        "...",
        "....",
        "%2e%2e%2e",
        "..%20",
        "%u002e%u002e",
        "\u{ff0e}\u{ff0e}",
    ];
    let slashes = ["/", "%2f", "%5c", "\\", "%252f", "%c0%af", "//", "/./", "%e2%88%95", ";/", "%00/"];
    let mut targets = Vec::new();
    for dots in dots {
        for slash in slashes {
            let climb = format!("{dots}{slash}");
            for depth in [1, 2, 3, 9] {
                for start in ["/", "/sub/", "//", "/sub/..", "/app/", "/docs/", "/.", "/sub%2f"] {
                    for end in ["canary.txt", "public-not/canary.txt"] {
                        targets.push(format!("{start}{}{end}", climb.repeat(depth)));
                    }
                }
            }
        }
    }
    targets
}

#[test]
fn no_target_leads_out_of_the_root_and_none_is_our_fault() {
    let server = with_canaries(site())
        .files("/docs/*", |spec| spec.symlinks = Symlinks::Inside)
        .handler("/app/*", "return req.path_info")
        .start();
    let absolute = server.folder().join("canary.txt");
    let absolute = absolute.to_str().unwrap();
    let mut all = targets();
    all.extend([
        absolute.to_owned(),
        format!("/{absolute}"),
        format!("/sub/{absolute}"),
        format!("/file://{absolute}"),
    ]);
    all.extend(
        ["/proc/self/environ", "/etc/passwd", "/C:/canary.txt", "/sub/inner.txt/../../canary.txt"]
            .map(str::to_owned),
    );
    let mut peer = server.connect();
    for target in &all {
        peer.send([b"GET ", target.as_bytes(), b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
        let reply = peer.reply(false);
        assert!(!reply.content.contains(CANARY), "{target}: {reply:?}");
        assert!(reply.status < 500, "{target}: {reply:?}");
        assert!(reply.status != 200 || reply.head.contains("text/plain"), "{target}: {reply:?}");
        if reply.field("connection") == Some("close") {
            peer = server.connect();
        }
    }
    assert!(all.len() > 10_000);
}

#[test]
fn links_are_not_there_unless_they_stay_inside() {
    let linked = |symlinks| {
        let site = with_canaries(Site::new())
            .file("public/real.txt", "real")
            .files("/*", |spec| spec.symlinks = symlinks);
        let public = site.folder().join("public");
        symlink("real.txt", public.join("inside.txt")).unwrap();
        symlink("sub", public.join("folder")).unwrap();
        symlink("../canary.txt", public.join("outside.txt")).unwrap();
        symlink(site.folder().join("canary.txt"), public.join("absolute.txt")).unwrap();
        symlink("..", public.join("up")).unwrap();
        symlink("/proc/self/root", public.join("proc")).unwrap();
        symlink("loop", public.join("loop")).unwrap();
        site.start()
    };
    let check = |symlinks, inside: u16| {
        let server = linked(symlinks);
        for (target, status) in [("/real.txt", 200), ("/inside.txt", inside), ("/folder/inner.txt", inside)] {
            assert_eq!(get(&server, target).status, status, "{symlinks:?} {target}");
        }
        for target in ["/outside.txt", "/absolute.txt", "/up/canary.txt", "/proc/etc/passwd", "/loop"] {
            assert_eq!(get(&server, target).status, 404, "{symlinks:?} {target}");
        }
    };
    check(Symlinks::Refuse, 404);
    check(Symlinks::Inside, 200);
}

#[test]
fn pipes_sockets_and_devices_are_not_there_and_nobody_waits_for_them() {
    let site = site();
    let public = site.folder().join("public");
    let mode = Mode::from_raw_mode(0o644);
    mknodat(CWD, public.join("pipe"), FileType::Fifo, mode, 0).unwrap();
    let _socket = UnixListener::bind(public.join("socket")).unwrap();
    // The result is ignored: without the right to create devices, the file is missing.
    let _ = mknodat(CWD, public.join("null"), FileType::CharacterDevice, mode, rustix::fs::makedev(1, 3));
    let server = site.start();
    for target in ["/pipe", "/socket", "/null"] {
        assert_eq!(get(&server, target).status, 404, "{target}");
    }
    assert_eq!(get(&server, "/a.txt").status, 200);
}

#[test]
fn a_folder_that_turns_into_a_link_never_shows_what_it_leads_to() {
    for symlinks in Symlinks::ALL {
        let site = with_canaries(Site::new()).files("/*", |spec| spec.symlinks = symlinks);
        let (public, outside) = (site.folder().join("public"), site.folder().join("public-not"));
        fs::write(public.join("sub/canary.txt"), "inner").unwrap();
        symlink(&outside, public.join("link")).unwrap();
        let server = site.start();
        let is_over = AtomicBool::new(false);
        let mut statuses = [0; 600];
        thread::scope(|scope| {
            let _end = End(&is_over);
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let (one, other) = (public.join("sub"), public.join("link"));
                    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let mut peer = server.connect();
            for _ in 0..2000 {
                peer.send("GET /sub/canary.txt HTTP/1.1\r\nHost: a\r\n\r\n");
                let reply = peer.reply(false);
                statuses[usize::from(reply.status)] += 1;
                assert!(!reply.content.contains(CANARY), "{reply:?}");
            }
        });
        assert_eq!(statuses[500], 0);
        assert!(
            statuses[200] > 0 && statuses[404] > 0,
            "the two were never exchanged: {:?}",
            &statuses[200..]
        );
    }
}

#[test]
fn an_uncached_path_is_looked_up_by_a_thread_and_served_the_same() {
    // In this file system, a lookup never succeeds from memory alone.
    let root = Path::new("/sys/kernel");
    let folder = rustix::fs::open(root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let known = openat2(&folder, "mm", flags, Mode::empty(), ResolveFlags::CACHED);
    assert_eq!(known.unwrap_err(), Errno::AGAIN);
    let requested = |end: &str| TryPath::Requested(end.to_owned());
    let server = Site::new()
        .file("public/a.txt", "alpha")
        .files("/*", |_| {})
        .files("/sys/*", |spec| {
            spec.root = root.to_owned();
            spec.candidates = vec![requested(".html"), requested(""), requested(".txt")];
        })
        .files("/seen/*", |spec| (spec.root, spec.listing) = (root.to_owned(), true))
        .start();
    let request = |method: &str, target: &str| format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = server.connect();
    for _ in 0..3 {
        let all = [
            ("HEAD", "/sys/uevent_seqnum", 200),
            ("GET", "/a.txt", 200),
            ("GET", "/sys/no/such", 404),
            ("GET", "/sys/mm", 308),
            ("GET", "/sys/mm/", 404),
            ("GET", "/seen/mm/", 200),
            ("GET", "/sys/../seen/../a.txt", 200),
        ];
        peer.send(all.map(|(method, target, _)| request(method, target)).concat());
        for (method, target, status) in all {
            assert_eq!(peer.reply(method == "HEAD").status, status, "{target}");
        }
    }
}

/// Ends a thread when this value is dropped, even after a failed check.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
