//! A reference reading of the rules, for comparison: slow, simple, and without code of the engine.
//!
//! The reference reading gets all of the input at once, and splits and searches it several times. The reading
//! lists every class of bytes. A refusal is the set of statuses that the faults of one line, or of a whole
//! head, may cause. If there are two faults, the rules do not say which one the server reports.

use std::collections::BTreeSet;

/// The bounds of a request.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of a head.
    pub head: usize,
    /// Bytes of a target.
    pub target: usize,
    /// Field lines.
    pub fields: usize,
    /// Bytes of all chunk extensions.
    pub extensions: usize,
    /// Bytes of a trailer section.
    pub trailers: usize,
    /// Bytes of a body.
    pub body: u64,
    /// Whether fields with `_` in their name are dropped instead of refused.
    pub drops_underscores: bool,
}

/// The verdict of the rules on some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferenceResult<T> {
    /// More bytes are needed.
    Incomplete,
    /// The bytes are refused with one of these statuses. The connection ends.
    Refused(BTreeSet<u16>),
    /// The value that was read, and the number of bytes that it used.
    Read(T, usize),
}

/// A request head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    pub host: Option<String>,
    /// Whether the target has the scheme https.
    pub is_https: bool,
    pub is_1_1: bool,
    pub fields: Vec<(String, Vec<u8>)>,
    pub body: Body,
    pub persists: bool,
    pub expects_continue: bool,
}

/// The framing of a body, by which a reader finds its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    None,
    Length(u64),
    Chunked,
}

const TOKEN: &[u8] = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PATH: &[u8] = b"-._~!$&'()*+,;=:@/%|[]0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const QUERY: &[u8] =
    b"-._~!$&'()*+,;=:@/%?|[]\\^`{}0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const HOST: &[u8] = b"-._~!$&'()*+;=%0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];
/// Maximum bytes of a request line in addition to its target. A longer line is refused like a target that is
/// too long.
const LINE_BYTES_BESIDE_TARGET: usize = 64;

fn all_of(bytes: &[u8], class: &[u8]) -> bool {
    bytes.iter().all(|byte| class.contains(byte))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn set(statuses: &[u16]) -> BTreeSet<u16> {
    statuses.iter().copied().collect()
}

/// Reads the head at the start of `input`.
pub fn head(input: &[u8], bounds: &Bounds) -> ReferenceResult<Head> {
    let blank = if input.starts_with(b"\r\n") { 2 } else { 0 };
    let rest = &input[blank..];
    if rest.is_empty() || (blank == 0 && rest == b"\r") {
        return ReferenceResult::Incomplete;
    }
    if !TOKEN.contains(&rest[0]) {
        return ReferenceResult::Refused(set(&[400]));
    }
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut end = 0;
    while let Some(length) = rest[end..].iter().position(|&byte| byte == b'\n') {
        let line = &rest[end..=end + length];
        end += length + 1;
        if let Some(status) = too_long(blank + end, lines.is_empty().then_some((blank, rest)), bounds) {
            return ReferenceResult::Refused(set(&[status]));
        }
        if !line.ends_with(b"\r\n") {
            return ReferenceResult::Refused(set(&[400]));
        }
        let line = &line[..line.len() - 2];
        if !lines.is_empty() && line.is_empty() {
            return match whole(&lines, bounds) {
                Ok(head) => ReferenceResult::Read(head, blank + end),
                Err(faults) => ReferenceResult::Refused(faults),
            };
        }
        lines.push(line.to_vec());
        let faults = line_faults(&lines, bounds);
        if !faults.is_empty() {
            return ReferenceResult::Refused(faults);
        }
    }
    match too_long(input.len(), lines.is_empty().then_some((blank, rest)), bounds) {
        Some(status) => ReferenceResult::Refused(set(&[status])),
        None => ReferenceResult::Incomplete,
    }
}

/// Returns the status for too many bytes. While the request line is read, `line` has two values. The first is
/// the number of bytes of a blank line before it. The second is the part of the request line that has
/// arrived.
fn too_long(bytes: usize, line: Option<(usize, &[u8])>, bounds: &Bounds) -> Option<u16> {
    let Some((blank, line)) = line else { return (bytes > bounds.head).then_some(431) };
    let limit = bounds.head.min(bounds.target + LINE_BYTES_BESIDE_TARGET);
    if bytes <= limit {
        return None;
    }
    // The bytes of a blank line before the request line count too. The method must end within the limit.
    let method_end = line.iter().position(|&byte| byte == b' ').unwrap_or(usize::MAX);
    let method = &line[..method_end.min(limit.saturating_sub(blank)).min(line.len())];
    Some(match method {
        _ if !all_of(method, TOKEN) => 400,
        _ if METHODS.contains(&text(method).as_str()) => 414,
        _ => 501,
    })
}

/// Returns the faults of the last line. The lines before it have none.
fn line_faults(lines: &[Vec<u8>], bounds: &Bounds) -> BTreeSet<u16> {
    let mut faults = BTreeSet::new();
    if lines.len() == 1 {
        if let Err(found) = request_line(&lines[0], bounds) {
            faults.extend(found);
        }
        return faults;
    }
    if lines.len() - 1 > bounds.fields {
        faults.insert(431);
    }
    let mut fields = Vec::new();
    for line in &lines[1..] {
        match field(line, bounds) {
            Ok(field) => fields.extend(field),
            Err(()) => {
                faults.insert(400);
            }
        }
    }
    let count = |name: &str| values(&fields, name).len();
    if ["host", "content-length", "transfer-encoding"].into_iter().any(|name| count(name) > 1) {
        faults.insert(400);
    }
    if values(&fields, "host").iter().any(|host| !is_authority(host)) {
        faults.insert(400);
    }
    if values(&fields, "content-length").iter().any(|length| !is_length(length)) {
        faults.insert(400);
    }
    if options(&fields).iter().any(|option| !all_of(option.as_bytes(), TOKEN)) {
        faults.insert(400);
    }
    let named = ["content-length", "transfer-encoding", "host"];
    if options(&fields).iter().any(|option| named.contains(&option.as_str())) {
        faults.insert(400);
    }
    faults
}

/// Returns a field. `None`: the field is dropped.
fn field(line: &[u8], bounds: &Bounds) -> Result<Option<(String, Vec<u8>)>, ()> {
    let colon = line.iter().position(|&byte| byte == b':').ok_or(())?;
    let (name, value) = (&line[..colon], trimmed(&line[colon + 1..]));
    if name.is_empty() || !all_of(name, TOKEN) {
        return Err(());
    }
    if value.iter().any(|&byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f) {
        return Err(());
    }
    if name.contains(&b'_') {
        return if bounds.drops_underscores { Ok(None) } else { Err(()) };
    }
    Ok(Some((text(name), value.to_vec())))
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while value.first().is_some_and(|byte| b" \t".contains(byte)) {
        value = &value[1..];
    }
    while value.last().is_some_and(|byte| b" \t".contains(byte)) {
        value = &value[..value.len() - 1];
    }
    value
}

fn values(fields: &[(String, Vec<u8>)], name: &str) -> Vec<Vec<u8>> {
    fields.iter().filter(|(field, _)| field.to_lowercase() == name).map(|(_, value)| value.clone()).collect()
}

/// Returns the options of all Connection lines, in lower case.
fn options(fields: &[(String, Vec<u8>)]) -> Vec<String> {
    values(fields, "connection").iter().flat_map(|value| list(value)).collect()
}

/// Returns the members of a list that are not empty, in lower case.
fn list(value: &[u8]) -> Vec<String> {
    let mut members = Vec::new();
    for member in value.split(|&byte| byte == b',') {
        // Returns a text with one character for each byte, so that no byte is lost.
        let member: String = trimmed(member).iter().map(|&byte| char::from(byte)).collect();
        if !member.is_empty() {
            members.push(member.to_ascii_lowercase());
        }
    }
    members
}

fn is_length(value: &[u8]) -> bool {
    (1..=19).contains(&value.len()) && all_of(value, b"0123456789")
}

struct Line {
    method: String,
    path: String,
    query: Option<String>,
    authority: Option<String>,
    is_https: bool,
    is_1_1: bool,
}

fn request_line(line: &[u8], bounds: &Bounds) -> Result<Line, BTreeSet<u16>> {
    if line == b"PRI * HTTP/2.0" {
        return Err(set(&[505]));
    }
    let parts: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let [method, target, version] = parts[..] else { return Err(set(&[400])) };
    let is_version = version.len() == 8
        && version.starts_with(b"HTTP/")
        && version[5].is_ascii_digit()
        && version[6] == b'.'
        && version[7].is_ascii_digit();
    if method.is_empty() || !all_of(method, TOKEN) || target.is_empty() || !is_version {
        return Err(set(&[400]));
    }
    let target = &escaped(target)[..];
    let mut faults = BTreeSet::new();
    if !METHODS.iter().any(|known| known.as_bytes() == method) {
        faults.insert(501);
    }
    if version[5] != b'1' {
        faults.insert(505);
    }
    if target.len() > bounds.target {
        faults.insert(414);
    }
    match request_target(target, method) {
        Ok((path, query, authority)) if faults.is_empty() => {
            let is_https = target.to_ascii_lowercase().starts_with(b"https://");
            let is_1_1 = version != b"HTTP/1.0";
            Ok(Line { method: text(method), path, query, authority, is_https, is_1_1 })
        }
        Ok(_) => Err(faults),
        Err(status) => {
            faults.insert(status);
            Err(faults)
        }
    }
}

/// Percent-encodes UTF-8 that is not ASCII. Other bytes stay.
fn escaped(target: &[u8]) -> Vec<u8> {
    let Ok(target) = std::str::from_utf8(target) else { return target.to_vec() };
    let escape = |byte: u8| if byte.is_ascii() { vec![byte] } else { format!("%{byte:02X}").into_bytes() };
    target.bytes().flat_map(escape).collect()
}

type Parts = (String, Option<String>, Option<String>);

fn request_target(target: &[u8], method: &[u8]) -> Result<Parts, u16> {
    if target == b"*" && method == b"OPTIONS" {
        return Ok(("*".into(), None, None));
    }
    let lower = target.to_ascii_lowercase();
    if target[0] == b'/' {
        let (path, query) = path_and_query(target)?;
        return Ok((path, query, None));
    }
    let schemes = [&b"http://"[..], b"https://"];
    let Some(scheme) = schemes.into_iter().find(|scheme| lower.starts_with(scheme)) else { return Err(400) };
    let rest = &target[scheme.len()..];
    let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if !is_authority(authority) {
        return Err(400);
    }
    let authority = Some(text(authority));
    if rest.is_empty() && method == b"OPTIONS" {
        return Ok(("*".into(), None, authority));
    }
    let (path, query) = path_and_query(rest)?;
    Ok((if path.is_empty() { "/".into() } else { path }, query, authority))
}

fn path_and_query(bytes: &[u8]) -> Result<(String, Option<String>), u16> {
    let mut parts = bytes.splitn(2, |&byte| byte == b'?');
    let path = parts.next().unwrap_or_default();
    let query = parts.next();
    if !all_of(path, PATH) || !all_of(query.unwrap_or_default(), QUERY) {
        return Err(400);
    }
    Ok((text(path), query.map(text)))
}

/// `uri-host [ ":" port ]`
fn is_authority(bytes: &[u8]) -> bool {
    let Ok(authority) = std::str::from_utf8(bytes) else { return false };
    let (host, port) = if authority.starts_with('[') {
        match authority.split_once(']') {
            Some((address, port)) if is_ipv6(&address[1..]) => ("", port),
            _ => return false,
        }
    } else {
        match authority.find(':') {
            Some(colon) => authority.split_at(colon),
            None => (authority, ""),
        }
    };
    if !authority.starts_with('[') && (host.is_empty() || !is_reg_name(host)) {
        return false;
    }
    match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(port) => {
            port.len() <= 5
                && port.chars().all(|digit| digit.is_ascii_digit())
                && (port.is_empty() || port.parse::<u32>().is_ok_and(|port| port <= 65_535))
        }
    }
}

/// Returns a valid authority in lower case, without an empty port or the default port of the scheme.
fn without_default_port(authority: &str, is_https: bool) -> String {
    let default = if is_https { 443 } else { 80 };
    let lower = authority.to_ascii_lowercase();
    match lower.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') && (port.is_empty() || port.parse() == Ok(default)) => {
            host.into()
        }
        _ => lower,
    }
}

fn is_reg_name(host: &str) -> bool {
    let pieces: Vec<&str> = host.split('%').collect();
    let are_escapes = pieces[1..]
        .iter()
        .all(|piece| piece.len() >= 2 && piece.bytes().take(2).all(|digit| digit.is_ascii_hexdigit()));
    all_of(host.as_bytes(), HOST) && are_escapes
}

/// RFC 3986 section 3.2.2: eight groups of up to four digits. The last two may be an IPv4 address. One `::`
/// may replace one or more groups of zeros.
fn is_ipv6(address: &str) -> bool {
    let sides: Vec<&str> = address.split("::").collect();
    match sides[..] {
        [all] => groups(all, true) == Some(8),
        [front, back] => {
            let count = |side: &str, may_end_in_ipv4| match side {
                "" => Some(0),
                side => groups(side, may_end_in_ipv4),
            };
            count(front, false).zip(count(back, true)).is_some_and(|(front, back)| front + back <= 7)
        }
        _ => false,
    }
}

fn groups(side: &str, may_end_in_ipv4: bool) -> Option<usize> {
    let groups: Vec<&str> = side.split(':').collect();
    let mut count = 0;
    for (index, group) in groups.iter().enumerate() {
        let is_last = index + 1 == groups.len();
        if (1..=4).contains(&group.len()) && group.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            count += 1;
        } else if is_last && may_end_in_ipv4 && is_ipv4(group) {
            count += 2;
        } else {
            return None;
        }
    }
    Some(count)
}

fn is_ipv4(address: &str) -> bool {
    let octets: Vec<&str> = address.split('.').collect();
    octets.len() == 4
        && octets.iter().all(|octet| {
            (1..=3).contains(&octet.len())
                && octet.bytes().all(|digit| digit.is_ascii_digit())
                && (octet.len() == 1 || !octet.starts_with('0'))
                && octet.parse::<u16>().is_ok_and(|octet| octet <= 255)
        })
}

/// Returns the verdict on a head whose single lines have no faults.
fn whole(lines: &[Vec<u8>], bounds: &Bounds) -> Result<Head, BTreeSet<u16>> {
    let line = request_line(&lines[0], bounds)?;
    let fields: Vec<_> = lines[1..].iter().filter_map(|line| field(line, bounds).ok().flatten()).collect();
    let mut faults = BTreeSet::new();
    let host = values(&fields, "host").first().map(|host| text(host));
    match (&line.authority, &host) {
        (_, None) if line.is_1_1 => {
            faults.insert(400);
        }
        (Some(target), Some(host))
            if without_default_port(target, line.is_https) != without_default_port(host, line.is_https) =>
        {
            faults.insert(400);
        }
        _ => {}
    }
    let body = match framing(&fields, line.is_1_1) {
        Ok(body) => body,
        Err(status) => {
            faults.insert(status);
            Body::None
        }
    };
    let has_content = !matches!(body, Body::None | Body::Length(0));
    let offers = values(&fields, "upgrade");
    let is_http_2 = |value: &Vec<u8>| list(value).iter().all(|protocol| protocol == "h2c");
    if line.is_1_1 && has_content && !offers.iter().all(is_http_2) {
        faults.insert(400);
    }
    let expectations = values(&fields, "expect");
    let is_continue = |value: &Vec<u8>| list(value).iter().all(|member| member == "100-continue");
    if line.is_1_1 && !expectations.iter().all(is_continue) {
        faults.insert(417);
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let options = options(&fields);
    let has = |option: &str| options.iter().any(|found| found == option);
    Ok(Head {
        method: line.method,
        path: line.path,
        query: line.query,
        host: line.authority.or(host),
        is_https: line.is_https,
        is_1_1: line.is_1_1,
        body,
        persists: !has("close") && (line.is_1_1 || has("keep-alive")),
        expects_continue: line.is_1_1
            && has_content
            && expectations.iter().any(|value| !list(value).is_empty()),
        fields,
    })
}

fn framing(fields: &[(String, Vec<u8>)], is_1_1: bool) -> Result<Body, u16> {
    let lengths = values(fields, "content-length");
    let codings = values(fields, "transfer-encoding");
    match (lengths.first(), codings.first()) {
        (None, None) => Ok(Body::None),
        (Some(length), None) => Ok(Body::Length(text(length).parse().unwrap_or(u64::MAX))),
        (_, Some(_)) if !is_1_1 => Err(400),
        (Some(_), Some(_)) => Err(400),
        (None, Some(coding)) => match text(coding).to_ascii_lowercase().as_str() {
            "chunked" => Ok(Body::Chunked),
            codings => {
                let codings: Vec<&str> =
                    codings.split(',').map(|coding| coding.trim_matches([' ', '\t'])).collect();
                let (last, others) = codings.split_last().unwrap_or((&"", &[]));
                let is_known_elsewhere = *last == "chunked"
                    && others.iter().all(|coding| {
                        !coding.is_empty()
                            && all_of(coding.as_bytes(), TOKEN)
                            && *coding != "chunked"
                            && *coding != "identity"
                    });
                Err(if is_known_elsewhere { 501 } else { 400 })
            }
        },
    }
}

/// The reason why the reader of chunks stopped.
enum Stop {
    /// The input ends here.
    More,
    Bad(u16),
}

struct Chunks<'a> {
    input: &'a [u8],
    at: usize,
    body: Vec<u8>,
    announced: u64,
    framing: u64,
    extensions: usize,
    trailers: usize,
    bounds: &'a Bounds,
}

/// Reads a chunked body at the start of `input`. Also returns the data up to the place where the reader
/// stopped.
pub fn chunked(input: &[u8], bounds: &Bounds) -> (ReferenceResult<()>, Vec<u8>) {
    let body = Vec::new();
    let mut chunks =
        Chunks { input, at: 0, body, announced: 0, framing: 0, extensions: 0, trailers: 0, bounds };
    let verdict = match chunks.all() {
        Ok(()) => ReferenceResult::Read((), chunks.at),
        Err(Stop::More) => ReferenceResult::Incomplete,
        Err(Stop::Bad(status)) => ReferenceResult::Refused(set(&[status])),
    };
    (verdict, chunks.body)
}

impl Chunks<'_> {
    fn all(&mut self) -> Result<(), Stop> {
        loop {
            let size = self.size()?;
            while self.peek()? == b';' {
                self.extension()?;
            }
            self.line_end()?;
            if size == 0 {
                return self.trailers();
            }
            self.announced = self.announced.saturating_add(size);
            if self.announced > self.bounds.body {
                return Err(Stop::Bad(413));
            }
            self.framing += 4;
            if self.framing > 4 * self.announced + 16_384 {
                return Err(Stop::Bad(400));
            }
            for _ in 0..size {
                let byte = self.next()?;
                self.body.push(byte);
            }
            self.line_end()?;
        }
    }

    fn peek(&self) -> Result<u8, Stop> {
        self.input.get(self.at).copied().ok_or(Stop::More)
    }

    fn next(&mut self) -> Result<u8, Stop> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    fn expect(&mut self, expected: u8) -> Result<(), Stop> {
        if self.next()? == expected { Ok(()) } else { Err(Stop::Bad(400)) }
    }

    fn line_end(&mut self) -> Result<(), Stop> {
        self.expect(b'\r')?;
        self.expect(b'\n')
    }

    fn size(&mut self) -> Result<u64, Stop> {
        let mut digits = String::new();
        while digits.len() < 16 && self.peek()?.is_ascii_hexdigit() {
            digits.push(char::from(self.next()?));
        }
        self.framing += digits.len() as u64;
        match self.peek()? {
            b'\r' | b';' => u64::from_str_radix(&digits, 16).map_err(|_| Stop::Bad(400)),
            _ => Err(Stop::Bad(400)),
        }
    }

    fn extension_byte(&mut self) -> Result<u8, Stop> {
        let byte = self.next()?;
        self.extensions += 1;
        if self.extensions > self.bounds.extensions { Err(Stop::Bad(400)) } else { Ok(byte) }
    }

    fn blanks(&mut self) -> Result<bool, Stop> {
        let start = self.at;
        while b" \t".contains(&self.peek()?) {
            self.extension_byte()?;
        }
        Ok(self.at > start)
    }

    fn token(&mut self) -> Result<(), Stop> {
        if !TOKEN.contains(&self.peek()?) {
            return Err(Stop::Bad(400));
        }
        while TOKEN.contains(&self.peek()?) {
            self.extension_byte()?;
        }
        Ok(())
    }

    /// `";" BWS name [ BWS "=" BWS value ]` and the blanks before the next extension.
    fn extension(&mut self) -> Result<(), Stop> {
        self.extension_byte()?;
        self.blanks()?;
        self.token()?;
        let mut is_blank_last = self.blanks()?;
        if self.peek()? == b'=' {
            self.extension_byte()?;
            self.blanks()?;
            if self.peek()? == b'"' {
                self.quoted()?;
            } else {
                self.token()?;
            }
            is_blank_last = self.blanks()?;
        }
        match self.peek()? {
            b';' => Ok(()),
            b'\r' if !is_blank_last => Ok(()),
            _ => Err(Stop::Bad(400)),
        }
    }

    fn quoted(&mut self) -> Result<(), Stop> {
        self.extension_byte()?;
        let mut is_escaped = false;
        loop {
            let byte = self.peek()?;
            if (byte < 0x20 && byte != b'\t') || byte == 0x7f {
                return Err(Stop::Bad(400));
            }
            self.extension_byte()?;
            match byte {
                b'"' if !is_escaped => return Ok(()),
                b'\\' if !is_escaped => is_escaped = true,
                _ => is_escaped = false,
            }
        }
    }

    fn trailer_byte(&mut self) -> Result<u8, Stop> {
        let byte = self.next()?;
        self.trailers += 1;
        if self.trailers > self.bounds.trailers { Err(Stop::Bad(431)) } else { Ok(byte) }
    }

    fn trailers(&mut self) -> Result<(), Stop> {
        loop {
            let mut line = Vec::new();
            loop {
                let byte = self.trailer_byte()?;
                if byte == b'\r' {
                    break;
                }
                line.push(byte);
                self.check_trailer(&line)?;
            }
            let is_end = line.is_empty();
            if !is_end && !line.contains(&b':') {
                return Err(Stop::Bad(400));
            }
            if self.trailer_byte()? != b'\n' {
                return Err(Stop::Bad(400));
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// The last byte of an incomplete trailer line.
    fn check_trailer(&self, line: &[u8]) -> Result<(), Stop> {
        let last = line[line.len() - 1];
        let is_good = match line.iter().position(|&byte| byte == b':') {
            Some(0) => false,
            Some(colon) if colon + 1 < line.len() => (last >= 0x20 || last == b'\t') && last != 0x7f,
            Some(_) => true,
            None => TOKEN.contains(&last) && (last != b'_' || self.bounds.drops_underscores),
        };
        if is_good { Ok(()) } else { Err(Stop::Bad(400)) }
    }
}

/// Decodes and normalises a raw path. `None`: the path is refused.
pub fn path(raw: &str) -> Option<String> {
    if raw == "*" {
        return Some("*".into());
    }
    if !raw.starts_with('/') || raw.contains(['\\', '\0']) {
        return None;
    }
    let mut decoded: Vec<u8> = Vec::new();
    let mut pieces = raw.split('%');
    decoded.extend(pieces.next()?.bytes());
    for piece in pieces {
        let digits = piece.get(..2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let byte = u8::from_str_radix(digits, 16).ok()?;
        if matches!(byte, 0 | b'/' | b'\\') {
            return None;
        }
        decoded.push(byte);
        decoded.extend(piece[2..].bytes());
    }
    let decoded = String::from_utf8(decoded).ok()?;
    let mut kept = Vec::new();
    let segments: Vec<&str> = decoded.split('/').skip(1).collect();
    for (index, segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        match *segment {
            "." => {}
            ".." => {
                kept.pop()?;
            }
            segment => kept.push(segment),
        }
        if is_last && matches!(*segment, "." | "..") {
            kept.push("");
        }
    }
    Some(format!("/{}", kept.join("/")))
}

/// The reply to one request of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The reply has one of these statuses.
    pub statuses: BTreeSet<u16>,
    /// The content of the reply. `None`: the rules do not decide it.
    pub content: Option<Vec<u8>>,
    /// Whether the request was HEAD, so that the reply has no content.
    pub is_head: bool,
    pub is_1_1: bool,
    /// Whether `100 Continue` may precede the reply.
    pub may_continue: bool,
    /// Whether the connection ends after the reply.
    pub closes: bool,
    /// Whether the reference knows the reply. The reference does not decode content. It therefore knows no
    /// reply to a request with coded content, or to a later request.
    pub is_judged: bool,
}

/// The decoding that the field Content-Encoding requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentCoding {
    None,
    Decoded,
    Refused,
}

/// The content codings that the server decodes, up to three in a row.
const CODINGS: [&[u8]; 5] = [b"gzip", b"x-gzip", b"deflate", b"br", b"zstd"];

fn content_coding(fields: &[(String, Vec<u8>)]) -> ContentCoding {
    let mut names = Vec::new();
    for value in values(fields, "content-encoding") {
        for name in value.split(|&byte| byte == b',') {
            let name = trimmed(name).to_ascii_lowercase();
            if !name.is_empty() && name != b"identity" {
                names.push(name);
            }
        }
    }
    let is_known = |name: &Vec<u8>| CODINGS.contains(&name.as_slice());
    match names.len() {
        0 => ContentCoding::None,
        1..=3 if names.iter().all(is_known) => ContentCoding::Decoded,
        _ => ContentCoding::Refused,
    }
}

/// Maximum bytes of an unneeded body that the server reads and drops.
const UNWANTED_BODY: u64 = 65_536;

/// Reads a whole connection. The server answers each request except OPTIONS with method, path and body, on a
/// line each.
pub fn conversation(input: &[u8], bounds: &Bounds) -> Vec<Expected> {
    let mut replies = Vec::new();
    let mut rest = input;
    loop {
        let begins_with_head = rest.strip_prefix(b"\r\n").unwrap_or(rest).starts_with(b"HEAD ");
        let refused = |statuses: &BTreeSet<u16>| Expected {
            statuses: statuses.clone(),
            content: None,
            is_head: begins_with_head,
            is_1_1: true,
            may_continue: false,
            closes: true,
            is_judged: true,
        };
        let (head, used) = match head(rest, bounds) {
            ReferenceResult::Incomplete if [&b""[..], b"\r", b"\r\n"].contains(&rest) => return replies,
            ReferenceResult::Incomplete => {
                replies.push(refused(&set(&[400])));
                return replies;
            }
            ReferenceResult::Refused(statuses) => {
                replies.push(refused(&statuses));
                return replies;
            }
            ReferenceResult::Read(head, used) => (head, used),
        };
        rest = &rest[used..];
        if head.is_https {
            // The connections of this engine have no TLS.
            let (is_head, is_1_1) = (head.method == "HEAD", head.is_1_1);
            replies.push(Expected { is_head, is_1_1, ..refused(&set(&[421])) });
            return replies;
        }
        let path = path(&head.path);
        let has_content = !matches!(head.body, Body::None | Body::Length(0));
        let coding = content_coding(&head.fields);
        let known = match &path {
            None => Some(400),
            Some(path) if path == "*" || head.method == "OPTIONS" => Some(204),
            Some(_) if has_content && coding == ContentCoding::Refused => Some(415),
            Some(_) => None,
        };
        let mut reply = Expected {
            statuses: set(&[known.unwrap_or(200)]),
            content: None,
            is_head: head.method == "HEAD",
            is_1_1: head.is_1_1,
            may_continue: head.expects_continue,
            closes: !head.persists,
            is_judged: known.is_some() || !has_content || coding != ContentCoding::Decoded,
        };
        if !reply.is_judged {
            replies.push(reply);
            return replies;
        }
        let limit = if known.is_some() { UNWANTED_BODY } else { bounds.body };
        let unread = |mut reply: Expected, statuses: BTreeSet<u16>| {
            if known.is_none() || statuses != set(&[413]) {
                reply.statuses = statuses;
            }
            reply.closes = true;
            reply
        };
        if known.is_some() && head.expects_continue {
            replies.push(unread(reply, set(&[413])));
            return replies;
        }
        let body = match head.body {
            Body::None => Ok((Vec::new(), 0)),
            Body::Length(length) if length > limit => Err(set(&[413])),
            Body::Length(length) if length > rest.len() as u64 => Err(set(&[400])),
            Body::Length(length) => Ok((rest[..length as usize].to_vec(), length as usize)),
            Body::Chunked => match chunked(rest, &Bounds { body: limit, ..*bounds }) {
                (ReferenceResult::Incomplete, _) => Err(set(&[400])),
                (ReferenceResult::Refused(statuses), _) => Err(statuses),
                (ReferenceResult::Read((), used), body) => Ok((body, used)),
            },
        };
        match body {
            Err(statuses) => {
                replies.push(unread(reply, statuses));
                return replies;
            }
            Ok((body, used)) => {
                rest = &rest[used..];
                if let (None, Some(path)) = (known, path) {
                    let mut content = format!("{}\n{path}\n", head.method).into_bytes();
                    content.extend(body);
                    reply.content = Some(content);
                }
            }
        }
        let closes = reply.closes;
        replies.push(reply);
        if closes {
            return replies;
        }
    }
}
