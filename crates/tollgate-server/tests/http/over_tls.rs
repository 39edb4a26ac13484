//! Runs the tests over TLS. With `TOLLGATE_HTTP_OVER_TLS=1`, the first address of each site uses TLS, and its
//! tests speak to a [pump](crate::pump) that carries their connections over TLS.
//!
//! A test of [`PLAIN_ONLY`] runs without TLS also then, and its name is printed with the reason.

use std::collections::HashSet;
use std::env;
use std::io::{Write, stderr};
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::thread;

use rustls::ClientConfig;
use tollgate_server::{CertificateFiles, ListenAddress, ServerOptions, ServerTls, ServerTlsOptions};
use tollgate_tls::Certificate;

use crate::terminator::Authority;
use crate::tls_client::trusting;

/// Tests that cannot hold over TLS, each with the reason.
const PLAIN_ONLY: &[(&str, &str)] = &[
    ("access_log::each_refused_connection_has_a_line", REFUSED),
    (
        "arriving::a_silent_connection_of_a_deferred_address_does_not_count_at_once",
        "a client of TLS is not silent: it begins its handshake",
    ),
    (
        "closing::replies_that_were_not_taken_yet_arrive_though_the_client_asks_on_in_a_drain",
        "the pump takes the bytes that the client leaves, so the server ends early",
    ),
    ("connections::draining_answers_what_came_and_closes_what_is_idle", SENT),
    ("deadlines::a_client_that_takes_nothing_of_its_reply_is_cut_off", SENT),
    ("limits::a_connection_that_waits_to_be_accepted_without_a_request_is_not_refused", REFUSED),
    ("limits::bytes_of_a_connection_refused_before_it_is_accepted_do_not_reset_it", REFUSED),
    (
        "limits::bytes_of_a_reply_that_a_peer_does_not_take_do_not_wait_in_the_kernel",
        "it counts the bytes of sockets, of which the pump has two for a connection",
    ),
    ("limits::connections_beyond_the_limit_are_told_so_and_closed", REFUSED),
    ("limits::connections_refused_before_they_are_accepted_count_among_the_connections", REFUSED),
    ("limits::connections_that_wait_to_be_accepted_are_refused_too_when_the_worker_is_behind", REFUSED),
    ("limits::each_refused_connection_gets_the_reason_however_many_they_are", REFUSED),
    ("listening::a_drain_does_not_wait_for_proxy_headers_that_did_not_begin_to_come", PROXY_HEADER),
    ("listening::a_proxy_header_cut_at_any_byte_reads_the_same", PROXY_HEADER),
    ("listening::a_proxy_header_that_does_not_come_in_time_ends_the_connection", PROXY_HEADER),
    ("listening::nothing_is_read_as_a_request_without_a_proxy_header", PROXY_HEADER),
    ("listening::the_proxy_header_tells_whose_the_connection_is", PROXY_HEADER),
    ("proxying::a_target_is_sent_as_it_came_but_for_what_no_uri_has", SCHEME),
    ("request_line::a_trusted_proxy_tells_the_scheme_of_a_target", SCHEME),
    ("request_line::an_absolute_target_is_served_and_its_host_agrees_with_the_field", SCHEME),
    ("request_line::an_asterisk_is_a_target_for_options_alone", SCHEME),
    ("request_line::an_https_target_on_a_plain_connection_is_misdirected", SCHEME),
    ("routing::a_named_host_comes_before_none_whatever_its_case_port_or_spelling", SCHEME),
    ("routing::the_application_answers_for_the_server_when_a_route_registers_for_it", SCHEME),
    ("to_https::a_post_is_redirected_and_not_recorded_and_its_connection_stays", REDIRECT),
    ("to_https::a_request_without_tls_is_led_to_the_same_resource_over_tls", REDIRECT),
    ("to_https::each_reply_over_tls_announces_the_policy_once", SCHEME),
    ("to_https::the_kind_and_the_port_of_a_redirect_are_set", REDIRECT),
    ("to_https::tokens_of_acme_the_server_itself_and_https_by_a_proxy_are_not_redirected", REDIRECT),
    ("verified::the_url_of_a_request_is_the_one_that_a_trusted_proxy_names", SCHEME),
];
const PROXY_HEADER: &str =
    "a PROXY header comes before TLS, and the pump would send it within TLS; see `tls`";
const REDIRECT: &str = "only an address without TLS redirects to HTTPS";
const REFUSED: &str = "a refused connection gets no reply over TLS, because a reply would need a handshake";
const SCHEME: &str = "its targets or fields have the scheme of a connection without TLS";
const SENT: &str = "bytes that the test sent may not have passed the pump when the drain begins";

/// The certificate of all sites, and the client of all pumps. The sites share them, so that most handshakes
/// resume a session.
struct Shared {
    certificate: Certificate,
    client: Arc<ClientConfig>,
}

static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let authority = Authority::new();
    let side = authority.server();
    let files = CertificateFiles { certificate: side.certificate, key: side.key };
    let client = trusting(&authority, &side.versions).with_no_client_auth();
    Shared { certificate: Certificate::read(&files).unwrap(), client: Arc::new(client) }
});

/// Makes the first address of a site use TLS, if the tests run over TLS. Returns the client for this address.
pub(crate) fn put_on(options: &mut ServerOptions) -> Option<Arc<ClientConfig>> {
    let first = options.listen.first_mut()?;
    let is_plain = matches!(first.address, ListenAddress::Tcp(_)) && !first.tls;
    if !is_plain || !is_over_tls() {
        return None;
    }
    first.tls = true;
    let tls = ServerTls::load(ServerTlsOptions::default()).unwrap();
    tls.set_issued(vec![SHARED.certificate.clone()]).unwrap();
    options.tls = Some(Arc::new(tls));
    Some(SHARED.client.clone())
}

/// Returns whether the present test runs over TLS.
///
/// The name of the test is the name of its thread.
fn is_over_tls() -> bool {
    if env::var_os("TOLLGATE_HTTP_OVER_TLS").is_none() {
        return false;
    }
    let thread = thread::current();
    let test = thread.name().expect("a site is started by the thread of its test");
    assert_ne!(test, "main", "a single test thread has no name of a test: set RUST_TEST_THREADS=2");
    let Some((_, reason)) = PLAIN_ONLY.iter().find(|(name, _)| *name == test) else { return true };
    // The macro `eprintln` would write to the captured output.
    stderr().write_all(format!("without TLS: {test}: {reason}\n").as_bytes()).unwrap();
    false
}

#[test]
fn each_test_that_does_not_run_over_tls_exists() {
    let listing = Command::new(env::current_exe().unwrap()).arg("--list").output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    let names: HashSet<_> = listing.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    assert!(names.contains("over_tls::each_test_that_does_not_run_over_tls_exists"), "{listing}");
    for (name, _) in PLAIN_ONLY {
        assert!(names.contains(name), "{name} is not a test");
    }
}
