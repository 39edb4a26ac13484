//! `[otlp]`: a span for each request, for a collector of OpenTelemetry.

use std::fmt;
use std::time::Duration;

use tollgate_acme::Poster;
use tollgate_server::SpanOptions;

use super::access_log::{SAMPLE_ALLOWED, sample};
use super::files::quoted_key;
use super::key::{keys, set_defaults, write};
use super::quoted::quoted;
use super::section::Section;
use super::units::{MINUTE_MS, SECOND_MS};

/// The text in place of a value that the file has without a variable.
const HIDDEN: &str = "***";

keys! {
    pub(super) KEYS of OtlpConfig;
    /// The full address of the collector for traces, over HTTP with JSON.
    url [URL] = other("needed", "a URL, `http://HOST:4318/v1/traces` or `https://`");
    /// Fields of each request to the collector. Write a secret as `${NAME}`.
    headers [HEADERS] = other("`{}`", "a table of texts").hidden();
    /// Share of the traces that begin here and are exported. A request with a `traceparent` follows its
    /// sampled flag.
    sample [SAMPLE] = other("`1.0`", SAMPLE_ALLOWED);
    /// The attribute `service.name` of the spans.
    service_name [SERVICE_NAME] = text("tollgate", "a text");
    /// Maximum time of one request to the collector.
    timeout = duration(10 * SECOND_MS, 100..=MINUTE_MS) => timeout;
    /// Maximum memory of spans that wait for the collector. Further spans are lost and counted.
    queue_bytes_max = size(4 << 20, (256 << 10)..=(1 << 30)) => queue_bytes_max;
}

/// The export of spans of a configuration.
#[derive(Clone, PartialEq)]
pub(crate) struct OtlpConfig {
    pub(crate) url: String,
    headers: Vec<Field>,
    pub(crate) service_name: String,
    pub(crate) timeout: Duration,
    pub(crate) queue_bytes_max: usize,
    pub(crate) options: SpanOptions,
}

/// A field of each request to the collector.
#[derive(Clone, PartialEq)]
struct Field {
    name: String,
    as_written: String,
    value: String,
}

impl fmt::Debug for OtlpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}

impl OtlpConfig {
    /// Returns the names and values of the fields of each request.
    pub(crate) fn fields(&self) -> Vec<(String, String)> {
        let own = ("content-type".to_owned(), "application/json".to_owned());
        let written = self.headers.iter().map(|field| (field.name.clone(), field.value.clone()));
        written.chain([own]).collect()
    }

    /// Writes the section so that it reads back to the same, except for values that have no variable. Such a
    /// value may be a secret.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(show).collect();
        writeln!(f, "\n[otlp]")?;
        let own = [
            (URL.name, Some(quoted(&self.url))),
            (HEADERS.name, (!headers.is_empty()).then(|| format!("{{ {} }}", headers.join(", ")))),
            (SAMPLE.name, Some(format!("{:?}", self.options.sample))),
            (SERVICE_NAME.name, Some(quoted(&self.service_name))),
        ];
        write(KEYS, self, &own, f)
    }
}

fn show(field: &Field) -> String {
    let has_variable = field.as_written != field.value;
    let value = if has_variable { field.as_written.as_str() } else { HIDDEN };
    format!("{} = {}", quoted_key(&field.name), toml::Value::from(value))
}

/// Reads `[otlp]`, if the file has it.
pub(super) fn otlp(root: &mut Section<'_>) -> Option<OtlpConfig> {
    let mut section = root.take_table("otlp", "[otlp]".to_owned())?;
    let mut otlp = OtlpConfig {
        url: String::new(),
        headers: Vec::new(),
        service_name: SERVICE_NAME.default_text().to_owned(),
        timeout: Duration::ZERO,
        queue_bytes_max: 0,
        options: SpanOptions { sample: 1.0 },
    };
    set_defaults(KEYS, &mut otlp);
    let url = section.needed_text(URL.name);
    otlp.headers = headers(&mut section);
    otlp.options.sample = sample(&mut section).unwrap_or(otlp.options.sample);
    if let Some(name) = section.text(SERVICE_NAME.name) {
        otlp.service_name = name.value;
    }
    section.overlay(KEYS, &mut otlp);
    if let Some(url) = url {
        if !is_url(&url.value) {
            let text = format!(
                "url in [otlp] is {:?}, allowed is a full address like http://127.0.0.1:4318/v1/traces, \
                 without a password",
                without_user(&url.value)
            );
            section.fault_at(&url.span, text);
        } else if let Err(error) = Poster::new(&url.value, &otlp.fields(), otlp.timeout) {
            section.fault_at(&url.span, format!("[otlp] cannot be used: {error}"));
        }
        otlp.url = url.value;
    }
    section.finish();
    Some(otlp)
}

fn headers(section: &mut Section<'_>) -> Vec<Field> {
    let table = section.take_table(HEADERS.name, "headers in [otlp]".to_owned());
    let found = table.map(Section::named_secrets).unwrap_or_default();
    found.into_iter().map(|(name, as_written, text)| Field { name, as_written, value: text.value }).collect()
}

/// Returns whether a text is a URL with a host and a path, without user and password.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.and_then(|rest| rest.split_once('/'))
        .is_some_and(|(authority, _)| !authority.is_empty() && !authority.contains('@'))
}

/// Hides user and password of a URL.
fn without_user(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{HIDDEN}@{rest}"),
        _ => text.to_owned(),
    }
}
