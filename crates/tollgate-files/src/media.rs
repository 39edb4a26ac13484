//! Media types and content codings by file name, and the rules of a route by media type.

use crate::options::FilesSpec;

const UNKNOWN: &str = "application/octet-stream";

/// The type of gzip itself. A file with this type is an archive for the client, so it has no content coding.
pub(crate) const GZIP: &str = "application/gzip";

/// The media type of a file, and the coding that its bytes already have.
pub(crate) struct Media {
    /// The value of `Content-Type`.
    pub(crate) content_type: String,
    /// The value of `Content-Encoding`.
    pub(crate) coding: Option<&'static str>,
}

/// Returns the media type and the coding of a file.
pub(crate) fn media(path: &str, spec: &FilesSpec) -> Media {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let media = media_type(name, extension, spec);
    let is_packed = PACKED.iter().any(|(known, _)| known.eq_ignore_ascii_case(extension));
    let coding = (is_packed && !media.eq_ignore_ascii_case(GZIP)).then_some("gzip");
    let content_type = match &spec.charset {
        Some(charset) if is_text(&media) && !media.contains(';') => format!("{media}; charset={charset}"),
        _ => media,
    };
    Media { content_type, coding }
}

/// Returns the type of the route for the whole name or the extension, the known type, or the type of the
/// route for `*`.
fn media_type(name: &str, extension: &str, spec: &FilesSpec) -> String {
    let own = |wanted: &str| {
        let own = spec.types.iter().find(|(known, _)| known.eq_ignore_ascii_case(wanted));
        own.map(|(_, media)| media.as_str())
    };
    let found = own(name).or_else(|| own(extension)).or_else(|| known_type(extension)).or_else(|| own("*"));
    found.unwrap_or(UNKNOWN).to_owned()
}

fn known_type(extension: &str) -> Option<&'static str> {
    let renewed = PACKED.iter().chain(&RENEWED).find(|(known, _)| known.eq_ignore_ascii_case(extension));
    match renewed {
        Some((_, media)) => Some(media),
        None => mime_guess::from_ext(extension).first_raw(),
    }
}

/// Types of files whose extension says that their bytes are in the coding gzip. Browsers show such a file
/// only if the reply names the coding.
const PACKED: [(&str, &str); 4] = [
    // SVG 1.1 section 1.2 requires `Content-Encoding: gzip` for this extension.
    ("svgz", "image/svg+xml"),
    // RFC 7903: compressed forms of `.emf` and `.wmf`.
    ("emz", "image/emf"),
    ("wmz", "image/wmf"),
    // RFC 2077: a compressed `.wrl`.
    ("wrz", "model/vrml"),
];

/// Media types by extension that `mime_guess` lacks, or has under an obsolete name.
const RENEWED: [(&str, &str); 17] = [
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
        let check =
            |path: &str, expected: &str| assert_eq!(media(path, &spec).content_type, expected, "{path}");
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
    fn a_whole_name_comes_before_an_extension_and_a_star_names_the_type_of_the_rest() {
        let mut spec = FilesSpec::new("/".into());
        spec.types = [
            ("*", "text/plain"),
            ("apple-app-site-association", "application/json"),
            ("data.csv", "application/x-data"),
            ("csv", "text/x-own"),
        ]
        .map(|(name, media)| (name.to_owned(), media.to_owned()))
        .to_vec();
        let check =
            |path: &str, expected: &str| assert_eq!(media(path, &spec).content_type, expected, "{path}");
        check(".well-known/apple-app-site-association", "application/json");
        check("Data.CSV", "application/x-data");
        check("data.csv/a", "text/plain; charset=utf-8");
        check("b.csv", "text/x-own; charset=utf-8");
        check("LICENSE", "text/plain; charset=utf-8");
        check("a.unheard-of", "text/plain; charset=utf-8");
        check("a.png", "image/png");
        check("*", "text/plain; charset=utf-8");
    }

    #[test]
    fn a_file_that_is_packed_by_its_name_has_the_type_of_its_content_and_a_coding() {
        let mut spec = FilesSpec::new("/".into());
        let check = |spec: &FilesSpec, path: &str, expected: (&str, Option<&str>)| {
            let found = media(path, spec);
            assert_eq!((found.content_type.as_str(), found.coding), expected, "{path}");
        };
        check(&spec, "a.svgz", ("image/svg+xml", Some("gzip")));
        check(&spec, "a.SVGZ", ("image/svg+xml", Some("gzip")));
        check(&spec, "a.emz", ("image/emf", Some("gzip")));
        check(&spec, "a.wmz", ("image/wmf", Some("gzip")));
        check(&spec, "a.wrz", ("model/vrml", Some("gzip")));
        for (path, kind) in [("a.gz", GZIP), ("a.tgz", GZIP), ("a.svg", "image/svg+xml"), ("svgz", UNKNOWN)] {
            check(&spec, path, (kind, None));
        }
        spec.types = vec![("svgz".to_owned(), GZIP.to_owned()), ("emz".to_owned(), "image/x-emf".to_owned())];
        check(&spec, "a.svgz", (GZIP, None));
        check(&spec, "a.emz", ("image/x-emf", Some("gzip")));
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
