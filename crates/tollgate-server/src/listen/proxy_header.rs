//! The header of the PROXY protocol, version 2, which a proxy sends before the client's first byte.
//!
//! The parser is strict: it accepts the binary form, the commands LOCAL and PROXY, TCP over IPv4 and IPv6,
//! and Unix stream sockets. Extensions (TLVs) have to fill the remaining bytes exactly. Only the checksum
//! among them is read.
//!
//! | offset | bytes | meaning |
//! | --- | --- | --- |
//! | 0 | 12 | signature |
//! | 12 | 1 | version (high half, 2) and command (low half) |
//! | 13 | 1 | family and protocol |
//! | 14 | 2 | bytes that follow, big-endian |
//! | 16 | | source and destination address, source and destination port, extensions |
//!
//! Source: "The PROXY protocol", version 2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const FIXED_BYTES: usize = 16;
/// Maximum number of bytes after the fixed part of a header. Real headers have a few hundred bytes, or a few
/// thousand with a certificate.
const REST_BYTES_MAX: usize = 16 << 10;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;

const CRC32C: u8 = 0x03;

/// A complete header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProxyHeader {
    pub(crate) bytes_len: usize,
    pub(crate) source: ProxySource,
}

/// The origin of a connection according to its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxySource {
    /// The proxy itself, as in a health check.
    Proxy,
    Client(IpAddr),
    /// A Unix socket, which has no address.
    UnixClient,
}

/// Reason why a connection does not begin with a valid header. Either the proxy is at fault, or a client
/// bypasses the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProxyHeaderError {
    #[error("connection does not begin with a PROXY protocol header of version 2")]
    Signature,
    #[error("PROXY header has version and command {0:#04x}, allowed are 0x20 and 0x21")]
    Command(u8),
    #[error("PROXY header has family and protocol {0:#04x}, allowed are 0x11, 0x21 and 0x31")]
    SocketFamily(u8),
    #[error("PROXY header exceeds limit: {0} bytes, limit {REST_BYTES_MAX} bytes")]
    TooLong(usize),
    #[error("PROXY header ends inside its addresses")]
    AddressesShort,
    #[error("PROXY header has another length than its extensions")]
    Extensions,
    #[error("PROXY header has a wrong checksum")]
    Checksum,
}

/// Parses a header from the first bytes of a connection. Returns `None` if more bytes are needed.
///
/// # Errors
/// The bytes cannot be the beginning of a header. A wrong signature is reported at its first wrong byte. A
/// wrong command or length is reported after the fixed part, and any other error after the complete header.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let begun = bytes.len().min(SIGNATURE.len());
    if bytes[..begun] != SIGNATURE[..begun] {
        return Err(ProxyHeaderError::Signature);
    }
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED_BYTES>() else { return Ok(None) };
    let [.., command, family, high, low] = *fixed;
    if !matches!(command, LOCAL | PROXY) {
        return Err(ProxyHeaderError::Command(command));
    }
    let rest_len = usize::from(u16::from_be_bytes([high, low]));
    if rest_len > REST_BYTES_MAX {
        return Err(ProxyHeaderError::TooLong(rest_len));
    }
    let Some(rest) = rest.get(..rest_len) else { return Ok(None) };
    let source = match command {
        // The command LOCAL means that the addresses in the header are ignored.
        LOCAL => ProxySource::Proxy,
        _ => proxied(fixed, family, rest)?,
    };
    Ok(Some(ProxyHeader { bytes_len: FIXED_BYTES + rest_len, source }))
}

fn proxied(fixed: &[u8], family: u8, rest: &[u8]) -> Result<ProxySource, ProxyHeaderError> {
    let (addresses_len, source) = match family {
        TCP4 => (12, rest.first_chunk().map(|source: &[u8; 4]| Ipv4Addr::from(*source).into())),
        TCP6 => (36, rest.first_chunk().map(|source: &[u8; 16]| Ipv6Addr::from(*source).to_canonical())),
        UNIX_STREAM => (216, None),
        _ => return Err(ProxyHeaderError::SocketFamily(family)),
    };
    let (addresses, extensions) =
        rest.split_at_checked(addresses_len).ok_or(ProxyHeaderError::AddressesShort)?;
    if let Some((before, checksum, after)) = find_checksum(extensions)?
        && checksum != checksum_of(&[fixed, addresses, before, &[0; 4], after])
    {
        return Err(ProxyHeaderError::Checksum);
    }
    Ok(source.map_or(ProxySource::UnixClient, ProxySource::Client))
}

/// The bytes before a checksum, the checksum, and the bytes after it.
type Checked<'a> = (&'a [u8], u32, &'a [u8]);

/// Checks the form of all extensions, and finds the checksum.
fn find_checksum(extensions: &[u8]) -> Result<Option<Checked<'_>>, ProxyHeaderError> {
    let mut found = None;
    let mut left = extensions;
    while let Some((&[kind, high, low], rest)) = left.split_first_chunk::<3>() {
        let bytes_len = usize::from(u16::from_be_bytes([high, low]));
        let (value, behind) = rest.split_at_checked(bytes_len).ok_or(ProxyHeaderError::Extensions)?;
        if kind == CRC32C {
            let stored = <[u8; 4]>::try_from(value).map_err(|_| ProxyHeaderError::Extensions)?;
            let before = &extensions[..extensions.len() - rest.len()];
            if found.replace((before, u32::from_be_bytes(stored), behind)).is_some() {
                return Err(ProxyHeaderError::Extensions);
            }
        }
        left = behind;
    }
    if left.is_empty() { Ok(found) } else { Err(ProxyHeaderError::Extensions) }
}

fn checksum_of(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |checksum, part| crc32c::crc32c_append(checksum, part))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    fn with_checksum(family: u8, addresses: &[u8], behind: &[u8]) -> Vec<u8> {
        let rest = [addresses, &[4, 0, 1, 9, CRC32C, 0, 4, 0, 0, 0, 0], behind].concat();
        let mut header = header(PROXY, family, &rest);
        let at = FIXED_BYTES + addresses.len() + 7;
        let checksum = crc32c::crc32c(&header);
        header[at..at + 4].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    fn check(bytes: &[u8], expect: Result<ProxySource, ProxyHeaderError>) {
        let found = parse(bytes).map(|header| header.expect("a whole header").source);
        assert_eq!(found, expect, "{}", bytes.escape_ascii());
    }

    const FOUR: [u8; 12] = [10, 1, 2, 3, 10, 9, 9, 9, 0x12, 0x34, 0, 80];

    #[test]
    fn clients_of_each_family_are_told() {
        check(&header(PROXY, TCP4, &FOUR), Ok(ProxySource::Client("10.1.2.3".parse().unwrap())));
        let mut six = [0; 36];
        six[..16].copy_from_slice(&"2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        check(&header(PROXY, TCP6, &six), Ok(ProxySource::Client("2001:db8::7".parse().unwrap())));
        check(&header(PROXY, UNIX_STREAM, &[b'a'; 216]), Ok(ProxySource::UnixClient));
        check(&header(LOCAL, 0, &[]), Ok(ProxySource::Proxy));
        check(&header(LOCAL, TCP4, &FOUR), Ok(ProxySource::Proxy));
    }

    #[test]
    fn a_mapped_address_is_the_one_it_maps() {
        let mut six = [0; 36];
        six[..16].copy_from_slice(&"::ffff:10.1.2.3".parse::<Ipv6Addr>().unwrap().octets());
        check(&header(PROXY, TCP6, &six), Ok(ProxySource::Client("10.1.2.3".parse().unwrap())));
    }

    #[test]
    fn a_malformed_proxy_header_is_refused_at_its_first_wrong_byte() {
        use ProxyHeaderError::*;
        check(b"G", Err(Signature));
        check(b"PROXY TCP4 10.1.2.3 10.1.2.4 1 2\r\n", Err(Signature));
        check(b"\r\n\r\n\0\r\nQUIT\r", Err(Signature));
        for command in [0x11, 0x22, 0x2f, 0x31, 0x01] {
            check(&header(command, TCP4, &FOUR), Err(Command(command)));
        }
        for family in [0x00, 0x10, 0x12, 0x22, 0x32, 0x41] {
            check(&header(PROXY, family, &FOUR), Err(SocketFamily(family)));
        }
        check(&header(PROXY, TCP4, &FOUR[..11]), Err(AddressesShort));
        check(&header(PROXY, TCP6, &FOUR), Err(AddressesShort));
        check(&header(PROXY, TCP4, &[0; REST_BYTES_MAX + 1]), Err(TooLong(REST_BYTES_MAX + 1)));
    }

    #[test]
    fn extensions_fill_the_header_or_it_is_refused() {
        let check = |extensions: &[u8], expect| {
            check(&header(PROXY, TCP4, &[&FOUR, extensions].concat()), expect);
        };
        let client = Ok(ProxySource::Client("10.1.2.3".parse().unwrap()));
        check(&[4, 0, 0], client);
        check(&[0xea, 0, 2, 1, 2, 4, 0, 1, 0], client);
        for short in [&[4][..], &[4, 0], &[4, 0, 1], &[4, 0, 0, 4], &[CRC32C, 0, 3, 0, 0, 0]] {
            check(short, Err(ProxyHeaderError::Extensions));
        }
    }

    #[test]
    fn a_checksum_is_checked_wherever_it_stands() {
        let client = ProxySource::Client("10.1.2.3".parse().unwrap());
        let sound = with_checksum(TCP4, &FOUR, &[4, 0, 2, 7, 7]);
        check(&sound, Ok(client));
        for at in [15, 16, 30, sound.len() - 1] {
            let mut broken = sound.clone();
            broken[at] ^= 1;
            assert_ne!(
                parse(&broken),
                Ok(Some(ProxyHeader { bytes_len: sound.len(), source: client })),
                "{at}"
            );
        }
        check(&with_checksum(TCP4, &FOUR, &[CRC32C, 0, 4, 0, 0, 0, 0]), Err(ProxyHeaderError::Extensions));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic_and_never_beyond_the_header(
            command in prop_oneof![Just(LOCAL), Just(PROXY), any::<u8>()],
            family in prop_oneof![Just(TCP4), Just(TCP6), Just(UNIX_STREAM), any::<u8>()],
            rest in proptest::collection::vec(any::<u8>(), 0..300),
            behind in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let whole = header(command, family, &rest);
            let found = parse(&whole);
            prop_assert_eq!(parse(&[&whole[..], &behind].concat()), found);
            if let Ok(header) = found {
                prop_assert_eq!(header.map(|header| header.bytes_len), Some(whole.len()));
                for cut in 0..whole.len() {
                    prop_assert_eq!(parse(&whole[..cut]), Ok(None));
                }
            }
        }

        #[test]
        fn any_noise_is_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes);
        }
    }
}
