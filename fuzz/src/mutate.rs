//! Mutations from a seed, for runs without a fuzzer.

/// Parts of requests, valid and invalid.
pub const WORDS: [&str; 70] = [
    "GET ",
    "HEAD ",
    "POST ",
    "OPTIONS ",
    "/",
    "/a",
    "*",
    "?b",
    "http://",
    "https://",
    " HTTP/1.1\r\n",
    " HTTP/1.0\r\n",
    "Host: a\r\n",
    "Host: ",
    "Content-Length: ",
    "Content-Encoding: gzip\r\n",
    "Content-Encoding: br\r\n",
    "Content-Encoding: identity\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Expect: 100-continue\r\n",
    "Upgrade: h2c\r\n",
    "Upgrade: websocket\r\n",
    "a_b: c\r\n",
    "x: y\r\n",
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    ":",
    ",",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "0\r\n",
    ";a=b",
    ";a=\"b\"",
    "ffffffffffffffff",
    "9999999999999999999",
    "0000000000000000005",
    "%2e",
    "/../",
    "%2F",
    "%00",
    "\0",
    "[::1]",
    "chunked",
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a.txt",
    "/b/",
    "/c.txt",
    "/inside/",
    "/try/",
    "/api/",
    "%2e%2e/",
    "%5c",
    "%c0%ae",
    "%252e",
    ".well-known/",
    ".env",
    "link.txt",
    "linked/",
    "up/",
    "root/",
    "canary.txt",
    "public-secret/",
    "index.html",
    ".gz",
];

/// Random numbers. The same seed gives the same numbers (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Returns a number below `end`. `end` must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % end
    }

    /// Returns `bytes` with one to four changes.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = at + self.below(bytes.len() - at + 1).min(16);
            match self.below(7) {
                0 => drop(bytes.drain(at..end)),
                1 => insert(bytes, at, WORDS[self.below(WORDS.len())].as_bytes()),
                2 => bytes.extend_from_within(at..end),
                3 => insert(bytes, at, &[self.below(256) as u8]),
                4 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                5 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                _ => {
                    let other = &others[self.below(others.len())];
                    let from = self.below(other.len() + 1);
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[from..]);
                }
            }
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    drop(bytes.splice(at..at, new.iter().copied()));
}
