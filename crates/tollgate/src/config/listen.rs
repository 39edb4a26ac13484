//! The addresses of `[server]` that accept connections, and the proxies that name their clients: `listen`,
//! `trusted_proxies`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use tollgate_server::{ListenAddress, ListenSpec, Network, TrustedProxies};

use super::defaults;
use super::env::escape;
use super::key::{Facts, inline, keys};
use super::section::{Section, TextOrTable, Written};

/// Default permissions of a Unix socket: owner and group may connect.
const SOCKET_MODE: u32 = 0o660;
/// Maximum bytes of a Unix socket's path (unix(7)).
const SOCKET_PATH_BYTES_MAX: usize = 107;
const ALLOWED: &str = "\"ip:port\" like \"127.0.0.1:8080\", \"unix:PATH\", \"systemd\" or \"systemd:NAME\"";
/// The entry of `trusted_proxies` that means every peer on a Unix socket.
const UNIX: &str = "unix";

const ADDRESS_ALLOWED: &str =
    r#"`"ip:port"` (port 0 takes a free one), `"unix:PATH"`, `"systemd"`, `"systemd:NAME"`"#;

keys! {
    /// The keys of an entry of `listen` that is a table.
    pub(super) KEYS of ListenSpec;
    /// The address to listen on. A text in place of the table is this key alone.
    address [ADDRESS] = other("needed", ADDRESS_ALLOWED);
    /// Whether each connection must begin with a PROXY protocol header of version 2.
    proxy_protocol [PROXY_PROTOCOL] = switch(false);
    /// Whether a TCP connection is accepted only after its first bytes have arrived.
    deferred [DEFERRED] = switch(false);
    /// Whether connections use TLS, with the certificates of `[[certificate]]`.
    tls [TLS] = switch(false);
    /// Whether requests without TLS get a redirect to HTTPS.
    redirect_to_https [REDIRECT_TO_HTTPS] = switch(false);
    /// The permissions of a Unix socket's file.
    mode [MODE] = other(r#"`"0660"`"#, "`0` and three octal digits");
}

/// Reads `listen`.
pub(super) fn listen(section: &mut Section<'_>, key: &Facts, folder: &Path) -> Vec<ListenSpec> {
    let repaired =
        |text: &str| nearest_address(text).map_or_else(|| text.to_owned(), |near| near.to_string());
    let Some(items) = section.items(key.name, repaired) else { return defaults::listen() };
    if items.is_empty() {
        section.fault_of(key.name, "listen in [server] is empty, allowed is a list of \"ip:port\"");
    }
    let mut specs: Vec<ListenSpec> = Vec::new();
    for item in items {
        let (written, spec) = match item {
            TextOrTable::Text(written) => {
                let spec = spec(section, &written, SOCKET_MODE, folder);
                (written, spec)
            }
            TextOrTable::Table(table) => match entry(table, folder) {
                Some(found) => found,
                None => continue,
            },
        };
        let Some(spec) = spec else { continue };
        if specs.iter().any(|earlier| is_same(&earlier.address, &spec.address)) {
            section.fault_at(&written.span, format!("listen has \"{}\" twice", spec.address));
        } else {
            specs.push(spec);
        }
    }
    specs
}

/// Reads an entry that is a table.
fn entry(mut table: Section<'_>, folder: &Path) -> Option<(Written<String>, Option<ListenSpec>)> {
    let address = table.needed_text(ADDRESS.name);
    let proxy_protocol = table.switch(PROXY_PROTOCOL.name).is_some_and(|written| written.value);
    let deferred = table.switch(DEFERRED.name);
    let tls = table.switch(TLS.name);
    let redirect = table.switch(REDIRECT_TO_HTTPS.name);
    let mode = table.text(MODE.name);
    let bits = mode.as_ref().map_or(SOCKET_MODE, |mode| {
        let bits = Some(&mode.value).filter(|digits| digits.len() == 4 && digits.starts_with('0'));
        bits.and_then(|digits| u32::from_str_radix(digits, 8).ok()).unwrap_or_else(|| {
            let text = format!("mode in listen is {:?}, allowed is \"0\" and three octal digits", mode.value);
            table.fault_at(&mode.span, text);
            SOCKET_MODE
        })
    });
    let spec = address.as_ref().and_then(|address| spec(&table, address, bits, folder));
    if let (Some(mode), Some(ListenSpec { address: ListenAddress::Tcp(_) | ListenAddress::Systemd(_), .. })) =
        (&mode, &spec)
    {
        table.fault_at(&mode.span, "mode in listen is allowed only for a Unix socket: remove it");
    }
    if let Some(ListenSpec { address: ListenAddress::Unix { .. }, .. }) = &spec {
        for (key, written) in [(&DEFERRED, &deferred), (&TLS, &tls)] {
            if let Some(written) = written.as_ref().filter(|written| written.value) {
                let text = format!("{} in listen is allowed only for TCP, found a Unix socket", key.name);
                table.fault_at(&written.span, format!("{text}: remove it"));
            }
        }
    }
    let is_on = |written: &Option<Written<bool>>| written.as_ref().is_some_and(|written| written.value);
    if let Some(redirect) = redirect.as_ref().filter(|redirect| redirect.value && is_on(&tls)) {
        let text = "redirect_to_https in listen is not allowed with tls = true: remove one of both";
        table.fault_at(&redirect.span, text);
    }
    table.finish();
    let (deferred, tls, redirect_to_https) = (is_on(&deferred), is_on(&tls), is_on(&redirect));
    Some((address?, spec.map(|spec| ListenSpec { proxy_protocol, deferred, tls, redirect_to_https, ..spec })))
}

fn spec(section: &Section<'_>, written: &Written<String>, mode: u32, folder: &Path) -> Option<ListenSpec> {
    let text = &written.value;
    let address = match (text.strip_prefix("unix:"), text.strip_prefix("systemd:")) {
        (Some(path), _) if !path.is_empty() => {
            let path = folder.join(path);
            let bytes = path.as_os_str().len();
            if bytes > SOCKET_PATH_BYTES_MAX {
                let allowed = format!("limit {SOCKET_PATH_BYTES_MAX} bytes");
                section.fault_at(&written.span, format!("path of \"{text}\" has {bytes} bytes, {allowed}"));
            }
            Some(ListenAddress::Unix { path, mode })
        }
        (None, Some(name)) if !name.is_empty() => Some(ListenAddress::Systemd(Some(name.to_owned()))),
        _ if text == "systemd" => Some(ListenAddress::Systemd(None)),
        _ => text.parse().ok().map(ListenAddress::Tcp),
    };
    if address.is_none() {
        let allowed = nearest_address(text).map_or_else(|| ALLOWED.to_owned(), near_hint);
        section.fault_at(&written.span, format!("listen has {text:?}, allowed is {allowed}"));
    }
    address.map(ListenSpec::new)
}

/// Returns the address that a text without an IP address means: `8080`, `:8080`, `localhost:8080`, `*:8080`.
pub(crate) fn nearest_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let ip = match host {
        "" | "localhost" => Ipv4Addr::LOCALHOST,
        "*" => Ipv4Addr::UNSPECIFIED,
        _ => return None,
    };
    Some((ip, port.parse().ok()?).into())
}

/// Returns the end of a fault of a text that means an address.
pub(crate) fn near_hint(near: SocketAddr) -> String {
    let every = SocketAddr::from((Ipv4Addr::UNSPECIFIED, near.port()));
    let others = if near == every { String::new() } else { format!(", or \"{every}\" for all interfaces") };
    format!("an IP address and a port: write \"{near}\"{others}")
}

/// Returns whether two entries listen on the same address. Port 0 is never the same, because the system
/// chooses a new port each time.
pub(super) fn is_same(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (one, other) {
        (ListenAddress::Tcp(one), ListenAddress::Tcp(other)) => one == other && one.port() != 0,
        (ListenAddress::Unix { path: one, .. }, ListenAddress::Unix { path: other, .. }) => one == other,
        _ => one == other,
    }
}

/// Reads `trusted_proxies`.
pub(super) fn read_proxies(section: &mut Section<'_>, key: &Facts, proxies: &mut TrustedProxies) {
    for text in section.texts(key.name).unwrap_or_default() {
        match text.value.parse::<Network>() {
            _ if text.value == UNIX => proxies.unix = true,
            Ok(network) => proxies.networks.push(network),
            Err(()) => section.fault_at(
                &text.span,
                format!(
                    "trusted_proxies has {:?}, allowed is a network like \"10.0.0.0/8\" with zero bits after \
                     its prefix, an address, or \"{UNIX}\"",
                    text.value
                ),
            ),
        }
    }
}

/// Writes an entry of `listen` so that it reads back to the same.
pub(super) fn show(spec: &ListenSpec) -> String {
    let address = toml::Value::String(escape(&spec.address.to_string())).to_string();
    let mode = match &spec.address {
        ListenAddress::Unix { mode, .. } if *mode != SOCKET_MODE => Some(format!("\"{mode:04o}\"")),
        _ => None,
    };
    let proxy_protocol = spec.proxy_protocol.then(|| true.to_string());
    let deferred = spec.deferred.then(|| true.to_string());
    let tls = spec.tls.then(|| true.to_string());
    let redirect = spec.redirect_to_https.then(|| true.to_string());
    if [&mode, &proxy_protocol, &deferred, &tls, &redirect].into_iter().all(Option::is_none) {
        return address;
    }
    let own = [
        (ADDRESS.name, Some(address)),
        (PROXY_PROTOCOL.name, proxy_protocol),
        (DEFERRED.name, deferred),
        (TLS.name, tls),
        (REDIRECT_TO_HTTPS.name, redirect),
        (MODE.name, mode),
    ];
    inline(KEYS, spec, &own)
}

/// Writes `trusted_proxies`.
pub(super) fn show_proxies(proxies: &TrustedProxies) -> String {
    let networks = proxies.networks.iter().map(ToString::to_string);
    let all: Vec<_> = networks.chain(proxies.unix.then(|| UNIX.to_owned())).collect();
    let quoted: Vec<_> = all.iter().map(|text| format!("\"{text}\"")).collect();
    format!("[{}]", quoted.join(", "))
}
