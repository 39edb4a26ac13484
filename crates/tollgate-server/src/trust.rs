//! Trusted proxies, and the client that they name in a request.
//!
//! Each proxy appends the address of its peer, so the list is read from its end. The first address from the
//! end that is not a trusted proxy is the client. Entries before that address may come from the client, so
//! they are not trusted.
//!
//! If an entry is not an address, the search ends, and the proxy that wrote the entry counts as the client.
//! The entry that names the client also tells the scheme of the client's request.
//!
//! The list is read byte by byte from the right. Bytes from a client, for example an open quote, therefore do
//! not change how later entries are read.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use tollgate_http::{RequestHead, UriScheme};

/// Proxies that may name the client of a request, and the header in which they do so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    /// The addresses of the proxies.
    pub networks: Vec<Network>,
    /// Whether peers on a Unix socket are proxies, too.
    pub unix: bool,
    /// The header that the proxies write.
    pub header: ClientHeader,
}

/// A header that names clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientHeader {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

impl ClientHeader {
    /// All header fields that can name a client.
    pub const ALL: [Self; 2] = [Self::XForwardedFor, Self::Forwarded];

    /// Returns the name of the header, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }

    /// Returns the entries of the list in a request, the last one first. Empty members are ignored (RFC 9110
    /// section 5.6.1.2).
    fn entries(self, head: &RequestHead) -> impl Iterator<Item = &[u8]> {
        let is_ours = |name: &[u8]| name.eq_ignore_ascii_case(self.name().as_bytes());
        let lines: Vec<_> =
            head.raw_fields().filter(|(name, _)| is_ours(name)).map(|(_, value)| value).collect();
        entries(lines.into_iter().rev())
    }

    /// Returns the last entries in their order, beginning after the last entry with an open quote. An open
    /// quote would hide the text after it from the next reader.
    pub(crate) fn closed_entries(self, head: &RequestHead) -> Vec<&[u8]> {
        let mut closed: Vec<_> = self.entries(head).take_while(|entry| is_closed(entry)).collect();
        closed.reverse();
        closed
    }

    fn address(self, entry: &[u8]) -> Option<IpAddr> {
        match self {
            Self::XForwardedFor => node_address(entry),
            Self::Forwarded => forwarded_for(entry),
        }
    }
}

/// The header field in which proxies tell the scheme of a request.
const FORWARDED_PROTO: &str = "x-forwarded-proto";
/// Length in bits of the prefix of an IPv4 address that is mapped into IPv6 (RFC 4291 section 2.5.5.2).
const MAPPED_PREFIX: u8 = 96;

/// A range of addresses, such as `10.0.0.0/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= bits).ok_or(())?
            }
            Some(_) => return Err(()),
        };
        // An address with bits after the prefix is a mistake in the configuration.
        if masked(address, prefix) == address { Ok(Self { address, prefix }.canonical()) } else { Err(()) }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Network {
    /// Converts a network of mapped addresses to IPv4, because peers never have mapped addresses.
    fn canonical(self) -> Self {
        match (self.address.to_canonical(), self.prefix.checked_sub(MAPPED_PREFIX)) {
            (address @ IpAddr::V4(_), Some(prefix)) if self.address.is_ipv6() => Self { address, prefix },
            _ => self,
        }
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && masked(address, self.prefix) == self.address
    }
}

/// Returns an address without the bits after its prefix.
pub(crate) fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4((four.to_bits() & mask).into())
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6((six.to_bits() & mask).into())
        }
    }
}

impl TrustedProxies {
    /// Returns whether the peer of a connection is a trusted proxy. `None` stands for a Unix socket.
    pub(crate) fn trusts(&self, peer: Option<IpAddr>) -> bool {
        match peer {
            Some(peer) => self.networks.iter().any(|network| network.contains(peer)),
            None => self.unix,
        }
    }

    /// Returns the client of a request that came from the proxy `peer`.
    pub(crate) fn client(&self, head: &RequestHead, peer: Option<IpAddr>) -> Option<IpAddr> {
        self.client_of(self.header.entries(head), peer)
    }

    /// Returns the scheme by which the client of a proxy asked. `None`: the proxy did not tell it.
    pub(crate) fn scheme(&self, head: &RequestHead) -> Option<UriScheme> {
        match self.header {
            ClientHeader::XForwardedFor => {
                let is_meant = |name: &[u8]| name.eq_ignore_ascii_case(FORWARDED_PROTO.as_bytes());
                let mut values = head.raw_fields().filter(|(name, _)| is_meant(name));
                match (values.next(), values.next()) {
                    (Some((_, value)), None) => UriScheme::from_name(value),
                    // A proxy that adds its value to the value of a client makes a list, which tells nothing.
                    _ => None,
                }
            }
            ClientHeader::Forwarded => self.scheme_in(self.header.entries(head)),
        }
    }

    /// Returns the scheme in the entry that names the client. The entries are in order from the last to the
    /// first.
    fn scheme_in<'a>(&self, mut entries: impl Iterator<Item = &'a [u8]>) -> Option<UriScheme> {
        let is_of_proxy = |entry| forwarded_for(entry).is_some_and(|address| self.trusts(Some(address)));
        let mut entry = entries.next()?;
        while is_of_proxy(entry)
            && let Some(earlier) = entries.next()
        {
            entry = earlier;
        }
        UriScheme::from_name(unquoted(forwarded_value(entry, b"proto")?))
    }

    /// Returns the client that `entries` name. The entries are in order from the last to the first.
    fn client_of<'a>(&self, entries: impl Iterator<Item = &'a [u8]>, peer: Option<IpAddr>) -> Option<IpAddr> {
        let mut client = peer;
        for entry in entries {
            let Some(address) = self.header.address(entry) else { return client };
            client = Some(address);
            if !self.trusts(client) {
                return client;
            }
        }
        client
    }
}

/// Returns the entries of `lines`. Lines and entries are in order from the last to the first.
fn entries<'a>(lines: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a [u8]> {
    lines.flat_map(EntriesFromTheEnd::of).filter(|entry| !entry.is_empty())
}

/// Returns whether all quoted strings of an entry are closed (RFC 9110 section 5.6.4).
fn is_closed(entry: &[u8]) -> bool {
    let mut is_quoted = false;
    let mut bytes = entry.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' if is_quoted => _ = bytes.next(),
            _ => {}
        }
    }
    !is_quoted
}

/// The entries of a line, the last one first. Commas inside quotes do not separate entries.
struct EntriesFromTheEnd<'a> {
    left: Option<&'a [u8]>,
}

impl<'a> EntriesFromTheEnd<'a> {
    fn of(line: &'a [u8]) -> Self {
        Self { left: Some(line) }
    }
}

impl<'a> Iterator for EntriesFromTheEnd<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.left?;
        let mut is_quoted = false;
        let comma = line.iter().rposition(|byte| {
            is_quoted ^= *byte == b'"';
            *byte == b',' && !is_quoted
        });
        let (left, entry) = match comma {
            Some(at) => (Some(&line[..at]), &line[at + 1..]),
            None => (None, line),
        };
        self.left = left;
        Some(entry.trim_ascii())
    }
}

/// Returns the address in the `for` of an entry of `Forwarded` (RFC 7239 section 4). Returns `None` if the
/// entry does not have exactly one `for`, or if the value is not an address.
fn forwarded_for(entry: &[u8]) -> Option<IpAddr> {
    node_address(unquoted(forwarded_value(entry, b"for")?))
}

/// Returns the value of a parameter of an entry of `Forwarded`. Returns `None` if the entry does not have
/// exactly one such parameter.
fn forwarded_value<'a>(entry: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut is_quoted = false;
    let pairs = entry.split(|byte| {
        is_quoted ^= *byte == b'"';
        *byte == b';' && !is_quoted
    });
    let mut found = pairs.filter_map(|pair| {
        let pair = pair.trim_ascii();
        let at = pair.iter().position(|byte| *byte == b'=')?;
        pair[..at].eq_ignore_ascii_case(name).then(|| &pair[at + 1..])
    });
    let (value, None) = (found.next()?, found.next()) else { return None };
    Some(value)
}

fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ .., b'"'] => inner,
        _ => value,
    }
}

/// Parses an address, with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`, `192.0.2.1:_hidden`.
fn node_address(node: &[u8]) -> Option<IpAddr> {
    let node = without_obfuscated_port(str::from_utf8(node).ok()?);
    let bracketed = || node.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let with_port = || node.parse::<SocketAddr>().ok().map(|address| address.ip());
    node.parse().ok().or_else(bracketed).or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

/// Removes an obfuscated port (RFC 7239 section 6.3).
fn without_obfuscated_port(node: &str) -> &str {
    let is_obfuscated = |port: &str| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    match node.rsplit_once(":_") {
        Some((name, port)) if is_obfuscated(port) && (name.ends_with(']') || !name.contains(':')) => name,
        _ => node,
    }
}

/// Length in bits of the prefix by which IPv6 clients are distinguished. One client can use any number of
/// addresses within its network.
const IPV6_CLIENT_PREFIX: u8 = 64;

/// Returns the address under which the connections and requests of a client are counted.
pub(crate) fn client_key(client: IpAddr) -> IpAddr {
    if client.is_ipv4() { client } else { masked(client, IPV6_CLIENT_PREFIX) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn proxies(header: ClientHeader) -> TrustedProxies {
        let networks = ["10.0.0.0/8", "fd00::/8", "192.0.2.7"].map(|text| text.parse().unwrap()).into();
        TrustedProxies { networks, unix: false, header }
    }

    fn client(header: ClientHeader, lines: &[&str]) -> String {
        let lines = lines.iter().rev().map(|line| line.as_bytes());
        proxies(header).client_of(entries(lines), Some([10, 0, 0, 1].into())).unwrap().to_string()
    }

    #[test]
    fn networks_are_written_without_bits_behind_their_prefix() {
        for sound in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "::1", "192.0.2.1/32", "2001:db8::/33"] {
            assert!(sound.parse::<Network>().is_ok(), "{sound}");
        }
        for wrong in ["", "10.0.0.1/8", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "x", "10.0.0"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains([8, 8, 8, 8].into()));
        assert!(!"0.0.0.0/0".parse::<Network>().unwrap().contains("::1".parse().unwrap()));
    }

    #[test]
    fn a_network_of_ipv4_may_be_written_as_one_of_ipv6() {
        let check = |text: &str, expect: &str| {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), expect, "{text}");
        };
        check("::ffff:192.0.2.7", "192.0.2.7/32");
        check("::ffff:10.0.0.0/104", "10.0.0.0/8");
        check("::ffff:0:0/96", "0.0.0.0/0");
        check("::/0", "::/0");
        assert!("::ffff:10.0.0.1/104".parse::<Network>().is_err());
    }

    #[test]
    fn the_last_address_that_is_no_proxy_is_the_client() {
        let check = |lines: &[&str], expect| assert_eq!(client(ClientHeader::XForwardedFor, lines), expect);
        check(&[], "10.0.0.1");
        check(&["203.0.113.9"], "203.0.113.9");
        check(&["1.1.1.1, 203.0.113.9"], "203.0.113.9");
        check(&["1.1.1.1, 203.0.113.9, 10.0.0.2,192.0.2.7"], "203.0.113.9");
        check(&["1.1.1.1", "203.0.113.9", "10.0.0.2"], "203.0.113.9");
        check(&["10.0.0.3, 10.0.0.2"], "10.0.0.3");
        check(&["203.0.113.9:1234"], "203.0.113.9");
        check(&["[2001:db8::1]:1234, fd00::5"], "2001:db8::1");
        check(&["::ffff:203.0.113.9"], "203.0.113.9");
        for unreadable in ["", "unknown", "1.1.1.1, x", "1.1.1.1 2.2.2.2"] {
            check(&[unreadable], "10.0.0.1");
        }
        check(&["1.1.1.1, unknown, 10.0.0.2"], "10.0.0.2");
    }

    #[test]
    fn an_empty_member_of_a_list_says_nothing() {
        for line in ["203.0.113.9,", "203.0.113.9, , 10.0.0.2", ",203.0.113.9,\t,", " , 203.0.113.9"] {
            assert_eq!(
                client(ClientHeader::XForwardedFor, &["1.1.1.1", line, "", " ,"]),
                "203.0.113.9",
                "{line}"
            );
        }
    }

    #[test]
    fn forwarded_names_the_client_by_for() {
        let check = |lines: &[&str], expect| assert_eq!(client(ClientHeader::Forwarded, lines), expect);
        check(&["for=203.0.113.9"], "203.0.113.9");
        check(&["For=\"[2001:db8::1]:47\";proto=https; by=10.0.0.1"], "2001:db8::1");
        check(&["for=1.1.1.1, for=203.0.113.9;host=\"a,b\", for=10.0.0.2"], "203.0.113.9");
        check(&["for=_hidden, for=10.0.0.2"], "10.0.0.2");
        check(&["for=\"203.0.113.9:_a.b-C_9\", for=\"[fd00::5]:_x\""], "203.0.113.9");
        for no_node in ["\"203.0.113.9:_\"", "\"203.0.113.9:_a b\"", "\"::1:_a\"", "\"_a:_b\""] {
            check(&[&format!("for={no_node}")], "10.0.0.1");
        }
        check(&["for=203.0.113.9;host=\"x;for=1.1.1.1\""], "203.0.113.9");
        check(&["proto=https"], "10.0.0.1");
        check(&["for=1.1.1.1;for=2.2.2.2"], "10.0.0.1");
    }

    #[test]
    fn the_entry_that_names_the_client_tells_the_scheme() {
        let check = |line: &str, expect| {
            let found = proxies(ClientHeader::Forwarded).scheme_in(entries([line.as_bytes()].into_iter()));
            assert_eq!(found, expect, "{line}");
        };
        check("for=203.0.113.9;proto=https", Some(UriScheme::Https));
        check("for=203.0.113.9;Proto=\"HTTP\"", Some(UriScheme::Http));
        check("for=unknown;proto=https, for=10.0.0.2;proto=http", Some(UriScheme::Https));
        check("proto=https, for=203.0.113.9;proto=http, for=10.0.0.2", Some(UriScheme::Http));
        check("for=10.0.0.3;proto=https", Some(UriScheme::Https));
        for unknown in
            ["", "for=203.0.113.9", "proto=https, for=203.0.113.9", "proto=ftp", "proto=http;proto=http"]
        {
            check(unknown, None);
        }
    }

    #[test]
    fn an_open_quote_of_a_client_hides_nothing_that_a_proxy_wrote() {
        let lines = ["for=\"1.1.1.1, for=203.0.113.9"];
        assert_eq!(client(ClientHeader::Forwarded, &lines), "203.0.113.9");
    }

    proptest! {
        #[test]
        fn the_entry_of_a_proxy_counts_whatever_a_client_wrote_before_it(
            written in "[ -~]{0,40}", is_forwarded: bool, hops in 0..3usize,
        ) {
            let (header, entry) = match is_forwarded {
                true => (ClientHeader::Forwarded, "for=\"203.0.113.9:80\""),
                false => (ClientHeader::XForwardedFor, "203.0.113.9"),
            };
            let hop = if is_forwarded { ", for=10.2.2.2" } else { ", 10.2.2.2" };
            let line = format!("{written}, {entry}{}", hop.repeat(hops));
            prop_assert_eq!(client(header, &[&line]), "203.0.113.9");
        }

        #[test]
        fn any_bytes_are_read_without_panic(lines in proptest::collection::vec(any::<Vec<u8>>(), 0..4)) {
            for header in ClientHeader::ALL {
                let _ = proxies(header).client_of(entries(lines.iter().map(Vec::as_slice)), None);
            }
        }
    }
}
