//! The replies of a server in development mode. They show why a script failed, or why a changed configuration
//! was not accepted, with the source lines around the fault. Browsers get a page, and other clients get JSON
//! or text.
//!
//! These replies show source code to every client. The program therefore has to ensure that only the author
//! of the scripts can send requests.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tollgate_http::{RequestHead, StatusCode, accepted_media, escaped_html};
use tollgate_script::{CallError, LoadError, Request};

use crate::options::{Dev, SourceFault};
use crate::reply::Reply;

/// Number of lines that are shown before and after the line of a fault.
const LINES_AROUND: usize = 5;
/// Maximum bytes of a file whose lines are shown, and maximum bytes of a line that are shown.
const SOURCE_BYTES_MAX: u64 = 4 << 20;
const LINE_BYTES_MAX: usize = 400;
/// Media types of the replies. The first type is for clients without a preference.
const MEDIA_TYPES: [&str; 3] = ["text/plain", "text/html", "application/json"];

impl Dev {
    /// Returns the reply with the faults, if there are any.
    pub(crate) fn refusal(&self, head: &RequestHead) -> Option<Reply> {
        let faults = self.locked().clone();
        let faults = faults.iter().map(|fault| Shown::new(fault, Vec::new()));
        let problem = Problem {
            title: "the changed configuration has errors",
            faults: faults.collect(),
            about: Vec::new(),
        };
        (!problem.faults.is_empty()).then(|| problem.reply(head))
    }
}

impl SourceFault {
    /// Creates the fault of a script below `root`.
    pub(crate) fn of_script(error: &LoadError, root: &Path) -> Self {
        let text = error.to_string();
        let (file, line) = match error {
            LoadError::Syntax { file, line, .. } => (Some(file.clone()), *line as usize),
            LoadError::Run { error: CallError::Script { message, .. }, .. } => unzip(within(root, message)),
            LoadError::Run { file, .. }
            | LoadError::Shape { file, .. }
            | LoadError::TooLarge { file, .. }
            | LoadError::Total { file, .. }
            | LoadError::Outside { file, .. }
            | LoadError::Read { file, .. } => (Some(file.clone()), 0),
        };
        Self { text, file, line }
    }
}

/// Creates the reply for a failed script below `root`. `route` and `version` belong to the endpoint of the
/// request.
pub(crate) fn script_failure(
    error: &CallError,
    root: &Path,
    request: &Request,
    route: &str,
    version: u64,
) -> Reply {
    let (message, traceback) = match error {
        CallError::Script { message, traceback } => (message.clone(), traceback.as_str()),
        CallError::CpuBudget { traceback, .. }
        | CallError::WallBudget { traceback, .. }
        | CallError::Memory { traceback, .. } => {
            let whole = error.to_string();
            (whole.lines().next().unwrap_or_default().to_owned(), traceback.as_str())
        }
        CallError::Replaced | CallError::Refused { .. } | CallError::Reply(_) => (error.to_string(), ""),
    };
    let frames: Vec<_> = traceback.lines().map(|frame| frame.trim().to_owned()).collect();
    let place = within(root, &message).or_else(|| frames.iter().find_map(|frame| within(root, frame)));
    let (file, line) = unzip(place);
    let problem = Problem {
        title: "the script failed",
        faults: vec![Shown::new(&SourceFault { text: message, file, line }, frames)],
        about: vec![
            ("request", format!("{} {}", request.head.method_name(), request.path())),
            ("route", route.to_owned()),
            ("id", request.id.to_string()),
            ("version", version.to_string()),
        ],
    };
    problem.reply(&request.head)
}

fn unzip(place: Option<(PathBuf, usize)>) -> (Option<PathBuf>, usize) {
    place.map_or((None, 0), |(file, line)| (Some(file), line))
}

/// Returns the script at the beginning of a text, in the form `NAME.luau:LINE`. The file has to be below
/// `root`, because a script controls the text of its errors.
fn within(root: &Path, text: &str) -> Option<(PathBuf, usize)> {
    const END: &str = ".luau:";
    let end = text.find(END)? + END.len();
    let (name, rest) = (text.get(..end - 1)?, text.get(end..)?);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let line = rest[..digits].parse().ok()?;
    let (file, root) = (fs::canonicalize(root.join(name)).ok()?, fs::canonicalize(root).ok()?);
    file.starts_with(root).then_some((file, line))
}

struct Problem {
    title: &'static str,
    faults: Vec<Shown>,
    about: Vec<(&'static str, String)>,
}

/// A fault with its source lines.
struct Shown {
    text: String,
    file: Option<PathBuf>,
    line: usize,
    /// Lines of the file with their numbers.
    excerpt: Vec<(usize, String)>,
    traceback: Vec<String>,
}

impl Shown {
    fn new(fault: &SourceFault, traceback: Vec<String>) -> Self {
        let SourceFault { text, file, line } = fault.clone();
        let excerpt = file.as_deref().and_then(|file| excerpt(file, line)).unwrap_or_default();
        Self { text, file, line, excerpt, traceback }
    }
}

fn excerpt(file: &Path, line: usize) -> Option<Vec<(usize, String)>> {
    let metadata = fs::metadata(file).ok()?;
    if line == 0 || !metadata.is_file() || metadata.len() > SOURCE_BYTES_MAX {
        return None;
    }
    let text = String::from_utf8_lossy(&fs::read(file).ok()?).into_owned();
    let first = line.saturating_sub(LINES_AROUND).max(1);
    let lines = text.lines().enumerate().map(|(index, text)| (index + 1, text));
    let shown = lines.skip(first - 1).take(line + LINES_AROUND + 1 - first);
    Some(
        shown
            .map(|(number, text)| (number, text[..text.floor_char_boundary(LINE_BYTES_MAX)].to_owned()))
            .collect(),
    )
}

impl Problem {
    fn reply(&self, head: &RequestHead) -> Reply {
        let (content_type, content) = match MEDIA_TYPES[accepted_media(head, &MEDIA_TYPES)] {
            "text/html" => ("text/html; charset=utf-8", self.html()),
            "application/json" => ("application/json", self.json()),
            _ => ("text/plain; charset=utf-8", self.text()),
        };
        // These fields make browsers treat all content as text, even if a script or a request controls a part
        // of it.
        Reply::new(StatusCode::INTERNAL_SERVER_ERROR, content_type, content.into())
            .with("Cache-Control", "no-store")
            .with("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
            .with("X-Content-Type-Options", "nosniff")
    }

    fn text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        for Shown { text, line, excerpt, traceback, .. } in &self.faults {
            let _ = writeln!(out, "\n{text}");
            for (number, source) in excerpt {
                let mark = if number == line { '>' } else { ' ' };
                let _ = writeln!(out, "{mark} {number:5} | {source}");
            }
            for frame in traceback {
                let _ = writeln!(out, "  {frame}");
            }
        }
        let about: Vec<_> = self.about.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        if !about.is_empty() {
            let _ = writeln!(out, "\n{}", about.join("\n"));
        }
        out
    }

    fn json(&self) -> String {
        let faults = self.faults.iter().map(|fault| {
            let source = fault.excerpt.iter();
            let source: Vec<_> = source.map(|(line, text)| json!({ "line": line, "text": text })).collect();
            json!({
                "text": fault.text,
                "file": fault.file.as_ref().map(|file| file.to_string_lossy()),
                "line": (fault.line > 0).then_some(fault.line),
                "source": source,
                "traceback": fault.traceback,
            })
        });
        let mut told = json!({ "error": self.title, "faults": faults.collect::<Vec<_>>() });
        for (name, value) in &self.about {
            told[*name] = value.as_str().into();
        }
        format!("{told}\n")
    }

    fn html(&self) -> String {
        let title = escaped_html(self.title);
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
             <h1>{title}</h1>\n"
        );
        for Shown { text, file, line, excerpt, traceback } in &self.faults {
            let _ = writeln!(out, "<p class=\"text\">{}</p>", escaped_html(text));
            if !excerpt.is_empty() {
                let file = file.as_deref().unwrap_or(Path::new("")).to_string_lossy();
                let _ = write!(out, "<h2>{}:{line}</h2>\n<pre>", escaped_html(&file));
                for (number, source) in excerpt {
                    let tag = if number == line { "mark" } else { "span" };
                    let _ = writeln!(out, "<{tag}>{number:5}  {}</{tag}>", escaped_html(source));
                }
                out.push_str("</pre>\n");
            }
            if !traceback.is_empty() {
                let _ =
                    writeln!(out, "<h2>traceback</h2>\n<pre>{}</pre>", escaped_html(&traceback.join("\n")));
            }
        }
        for (name, value) in &self.about {
            let _ = writeln!(out, "<p>{name}: <code>{}</code></p>", escaped_html(value));
        }
        out.push_str("<p class=\"note\">Shown by <code>serve --dev</code> only.</p>\n</html>\n");
        out
    }
}

const STYLE: &str = "body{font:16px/1.4 sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}\
    h1{color:#a00;font-size:1.4rem}h2{font:bold .9rem monospace;margin:1.5rem 0 .3rem}\
    pre,.text{background:#f4f4f4;font:14px/1.5 monospace;overflow-x:auto;padding:.6rem;white-space:pre-wrap}\
    mark{background:#fd8}.note{color:#666}";

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use tollgate_http::{HeadReader, Limits};

    use super::*;

    fn head(accept: &str) -> RequestHead {
        let mut text = BytesMut::from(format!("GET / HTTP/1.1\r\nHost: a\r\n{accept}\r\n").as_bytes());
        HeadReader::default().read(&mut text, &Limits::default()).unwrap().unwrap()
    }

    fn refusal_text(dev: &Dev, accept: &str) -> String {
        let reply = dev.refusal(&head(accept)).unwrap();
        assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
        String::from_utf8(reply.content.to_vec()).unwrap()
    }

    #[test]
    fn each_client_is_told_in_its_own_form_with_the_source_around_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.luau");
        fs::write(&file, "-- <b>one</b>\n".to_owned() + &"-- line\n".repeat(20) + "the last").unwrap();
        let dev = Dev::default();
        assert!(dev.refusal(&head("")).is_none());
        dev.set_faults(vec![SourceFault {
            text: "a <script> 'failed'".to_owned(),
            file: Some(file),
            line: 2,
        }]);
        let page = refusal_text(&dev, "Accept: text/html,*/*;q=0.8\r\n");
        assert!(page.contains("a &lt;script&gt; &#39;failed&#39;") && !page.contains("<script>"), "{page}");
        assert!(page.contains("<span>    1  -- &lt;b&gt;one&lt;/b&gt;</span>"), "{page}");
        assert!(page.contains("<mark>    2  -- line</mark>"), "{page}");
        assert!(page.contains("    7  ") && !page.contains("    8  "), "{page}");
        let text = refusal_text(&dev, "Accept: */*\r\n");
        assert!(
            text.contains("\na <script> 'failed'\n      1 | -- <b>one</b>\n>     2 | -- line\n"),
            "{text}"
        );
        let json: serde_json::Value =
            serde_json::from_str(&refusal_text(&dev, "Accept: application/json\r\n")).unwrap();
        assert_eq!(
            (&json["faults"][0]["line"], &json["faults"][0]["source"][1]["line"]),
            (&2.into(), &2.into())
        );
        dev.set_faults(Vec::new());
        assert!(dev.refusal(&head("")).is_none());
    }

    #[test]
    fn only_scripts_below_the_root_are_shown_whatever_an_error_says() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("app");
        fs::create_dir_all(root.join("lib")).unwrap();
        for file in ["secret.luau", "app/a.luau", "app/lib/b.luau", "app/app.toml"] {
            fs::write(folder.path().join(file), "text").unwrap();
        }
        std::os::unix::fs::symlink(folder.path().join("secret.luau"), root.join("link.luau")).unwrap();
        let found = |text: &str| within(&root, text).map(|(_, line)| line);
        assert_eq!(found("a.luau:3: wrong"), Some(3));
        assert_eq!(found("lib/b.luau:14 in function"), Some(14));
        for other in [
            "../secret.luau:1: x",
            "link.luau:1: x",
            "app.toml:1: x",
            "a.luau: x",
            "/etc/passwd:1: x",
            "",
            "a.luau:",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
        let absolute = format!("{}:1: x", folder.path().join("secret.luau").display());
        assert_eq!(found(&absolute), None);
    }
}
