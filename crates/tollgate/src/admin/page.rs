//! The admin page: one HTML file that shows `/status` in a browser.
//!
//! The page has its style and its script inside, and needs no other file. Its policy allows exactly these two
//! blocks by their hashes. A browser therefore runs no script that a text of the status could bring in. The
//! hashes are computed from the blocks, so they always fit.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const FRAME: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
/// The parts of the script, in the order of their use.
const SCRIPT: &str = concat!(
    "\"use strict\"\n",
    include_str!("page/format.js"),
    include_str!("page/dom.js"),
    include_str!("page/series.js"),
    include_str!("page/chart.js"),
    include_str!("page/verdict.js"),
    include_str!("page/path.js"),
    include_str!("page/tables.js"),
    include_str!("page/main.js"),
);

static PAGE: LazyLock<Page> = LazyLock::new(|| Page {
    html: FRAME.replace("{style}", STYLE).replace("{script}", SCRIPT),
    policy: format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash_of(SCRIPT),
        hash_of(STYLE),
    ),
});

/// The page, and the value of its `Content-Security-Policy`.
pub(super) struct Page {
    pub(super) html: String,
    pub(super) policy: String,
}

impl Page {
    pub(super) fn whole() -> &'static Self {
        &PAGE
    }
}

/// Returns the hash of a block as a source of the policy (CSP level 3 section 2.3.1).
fn hash_of(block: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(block)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 60 << 10;

    /// Returns the contents of all elements with this name.
    fn blocks<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        html.split(&open).skip(1).map(|rest| rest.split(&close).next().unwrap()).collect()
    }

    #[test]
    fn the_policy_of_the_page_allows_its_two_blocks_and_nothing_else() {
        let Page { html, policy } = Page::whole();
        for (name, source) in [("style", "style-src"), ("script", "script-src")] {
            let [block] = blocks(html, name)[..] else { panic!("one {name}") };
            assert!(policy.contains(&format!("{source} '{}';", hash_of(block))), "{policy}");
            assert_eq!(html.matches(&format!("</{name}")).count(), 1, "{name}");
        }
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn the_page_is_small_and_needs_no_other_file() {
        let html = &Page::whole().html;
        assert!(html.len() <= BYTES_MAX, "{} bytes, limit {BYTES_MAX} bytes", html.len());
        assert!(!html.contains("{style}") && !html.contains("{script}"));
        let foreign =
            html.split("http").skip(1).filter(|rest| rest.starts_with("://") || rest.starts_with("s://"));
        // The namespace of SVG is a name, and no browser loads it.
        let foreign: Vec<_> = foreign.filter(|rest| !rest.starts_with("://www.w3.org/2000/svg")).collect();
        assert_eq!(foreign, [""; 0]);
    }

    #[test]
    fn the_page_never_reads_a_text_as_markup_or_as_a_script() {
        let html = &Page::whole().html;
        let refused = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            " style=",
            " onclick=",
        ];
        assert_eq!(refused.into_iter().filter(|part| html.contains(part)).collect::<Vec<_>>(), [""; 0]);
    }
}
