//! The redirect of a request whose path lacks the final slash.

use crate::path::write_path;
use crate::target::write_target;

/// Returns the value of `Location`: the same target with a slash after its path.
///
/// `path` is decoded and normalised. The raw path is not used, because `//host/../docs` may lead to another
/// server.
pub fn location_below(path: &str, query: Option<&str>) -> Vec<u8> {
    let mut location = Vec::new();
    write_path(&mut location, path);
    location.push(b'/');
    if let Some(query) = query {
        location.push(b'?');
        write_target(&mut location, query);
    }
    location
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_stays_on_this_server_and_keeps_the_query() {
        let check = |path, query, expect: &str| assert_eq!(location_below(path, query), expect.as_bytes());
        check("/docs", None, "/docs/");
        check("/docs", Some("a=1&b"), "/docs/?a=1&b");
        check("//host/docs", None, "/.//host/docs/");
        check("/a b", None, "/a%20b/");
    }
}
