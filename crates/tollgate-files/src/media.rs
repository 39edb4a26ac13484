//! Media types by file name, and the rules of a route by media type.

use crate::options::FilesSpec;

const UNKNOWN: &str = "application/octet-stream";

/// Returns the media type of a file for `Content-Type`.
pub(crate) fn content_type(path: &str, spec: &FilesSpec) -> String {
    let media = media_type(path, spec);
    match &spec.charset {
        Some(charset) if is_text(&media) && !media.contains(';') => format!("{media}; charset={charset}"),
        _ => media,
    }
}

fn media_type(path: &str, spec: &FilesSpec) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let own = spec.types.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension));
    match own {
        Some((_, media)) => media.clone(),
        None => known_type(extension).to_owned(),
    }
}

fn known_type(extension: &str) -> &'static str {
    let renewed = RENEWED.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension));
    match renewed {
        Some((_, media)) => media,
        None => mime_guess::from_ext(extension).first_raw().unwrap_or(UNKNOWN),
    }
}

/// Media types by extension that `mime_guess` lacks, or has under an obsolete name.
const RENEWED: [(&str, &str); 18] = [
    // RFC 9239 section 6.
    ("mjs", "text/javascript"),
    ("cjs", "text/javascript"),
    // RFC 8081 section 4.4.
    ("woff", "font/woff"),
    ("otf", "font/otf"),
    // RFC 9512 section 2.1.
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    // RFC 6922.
    ("sql", "application/sql"),
    // RFC 8216 section 4.
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("ts", "video/mp2t"),
    // RFC 8878 section 7.1.
    ("zst", "application/zstd"),
    // RFC 6713 section 2.
    ("tgz", "application/gzip"),
    // RFC 6350 section 10.1.
    ("vcf", "text/vcard"),
    // RFC 4337 section 2.
    ("m4a", "audio/mp4"),
    // ECMA-426 section 6: a source map.
    ("map", "application/json"),
    // The type of the compression format is sent, because the client did not ask for a content coding.
    ("svgz", "application/gzip"),
    ("rpm", "application/x-rpm"),
    ("usdz", "model/vnd.usdz+zip"),
];

/// Returns whether `Content-Type` should state a charset: the media type does not fix one, and the content
/// does not state one.
fn is_text(media: &str) -> bool {
    media.get(..5).is_some_and(|family| family.eq_ignore_ascii_case("text/"))
}

/// Returns the value of the most exact pattern that matches a content type.
pub(crate) fn for_type<'a>(rules: &'a [(String, String)], content_type: &str) -> Option<&'a str> {
    let media = content_type.split(';').next().unwrap_or(content_type).trim_end();
    let family = media.split('/').next().unwrap_or(media);
    let find = |wanted: &str| rules.iter().find(|(pattern, _)| pattern.eq_ignore_ascii_case(wanted));
    let found = find(media).or_else(|| find(&format!("{family}/*"))).or_else(|| find("*/*"));
    found.map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_name_and_text_has_a_charset() {
        let mut spec = FilesSpec::new("/".into());
        spec.types = vec![
            ("x".to_owned(), "application/x-own".to_owned()),
            ("csv".to_owned(), "text/csv; a=b".to_owned()),
            ("Log".to_owned(), "TEXT/Plain".to_owned()),
        ];
        let check = |path: &str, expected: &str| assert_eq!(content_type(path, &spec), expected, "{path}");
        check("a/index.html", "text/html; charset=utf-8");
        check("INDEX.HTML", "text/html; charset=utf-8");
        check("a.css", "text/css; charset=utf-8");
        check("a.js", "text/javascript; charset=utf-8");
        check("a.mjs", "text/javascript; charset=utf-8");
        check("a.txt", "text/plain; charset=utf-8");
        check("a.json", "application/json");
        check("a.webmanifest", "application/manifest+json");
        check("a.svg", "image/svg+xml");
        check("a.png", "image/png");
        check("a.webp", "image/webp");
        check("a.avif", "image/avif");
        check("a.woff2", "font/woff2");
        check("a.woff", "font/woff");
        check("a.OTF", "font/otf");
        check("a.ttf", "font/ttf");
        check("a.cjs", "text/javascript; charset=utf-8");
        check("a.ts", "video/mp2t");
        check("a.m3u8", "application/vnd.apple.mpegurl");
        check("a.yaml", "application/yaml");
        check("a.yml", "application/yaml");
        check("a.toml", "application/toml");
        check("a.sql", "application/sql");
        check("a.zst", "application/zstd");
        check("a.svgz", "application/gzip");
        check("a.tgz", "application/gzip");
        check("a.vcf", "text/vcard; charset=utf-8");
        check("a.m4a", "audio/mp4");
        check("app.js.map", "application/json");
        check("a.rpm", "application/x-rpm");
        check("a.usdz", "model/vnd.usdz+zip");
        check("a.wasm", "application/wasm");
        check("a.tar.gz", "application/gzip");
        check("a.mp4", "video/mp4");
        check("a.pdf", "application/pdf");
        check("a", UNKNOWN);
        check("a.b/c", UNKNOWN);
        check("a.unheard-of", UNKNOWN);
        check("a.x", "application/x-own");
        check("a.csv", "text/csv; a=b");
        check("a.log", "TEXT/Plain; charset=utf-8");
    }

    #[test]
    fn the_most_exact_pattern_counts() {
        let rules =
            [("*/*", "1"), ("text/*", "2"), ("text/html", "3")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let check = |kind, expected| assert_eq!(for_type(&rules, kind), Some(expected), "{kind}");
        check("text/html; charset=utf-8", "3");
        check("text/css", "2");
        check("image/png", "1");
        assert_eq!(for_type(&rules[1..], "image/png"), None);
    }
}
