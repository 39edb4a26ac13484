//! The keys of a Kafka sink in `[sink.NAME]`.

use std::fmt;
use std::path::Path;

use tollgate_load::{KafkaOptions, RowFormat, Taken};
use tollgate_queue::{BrokerAddress, Client, Compression, Sasl, Security, Tls};
use tollgate_server::StreamSpec;

use super::duplicates;
use super::key::{keys, write};
use super::path::{PathTo, path};
use super::quoted::{quoted, quoted_path};
use super::section::{Section, Written};
use super::units::{HOUR_MS, MINUTE_MS, SECOND_MS};
use super::value::named;

/// The mechanisms of SASL, by their names in configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mechanism {
    #[default]
    None,
    Plain,
    ScramSha256,
    ScramSha512,
    OauthBearer,
}

impl Mechanism {
    const ALL: [Self; 5] = [Self::None, Self::Plain, Self::ScramSha256, Self::ScramSha512, Self::OauthBearer];

    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Plain => "plain",
            Self::ScramSha256 => "scram-sha-256",
            Self::ScramSha512 => "scram-sha-512",
            Self::OauthBearer => "oauthbearer",
        }
    }

    fn of(sasl: Option<&Sasl>) -> Self {
        match sasl {
            None => Self::None,
            Some(Sasl::Plain { .. }) => Self::Plain,
            Some(Sasl::ScramSha256 { .. }) => Self::ScramSha256,
            Some(Sasl::ScramSha512 { .. }) => Self::ScramSha512,
            Some(Sasl::OauthBearer { .. }) => Self::OauthBearer,
        }
    }
}

named!(Compression, Mechanism, RowFormat);

keys! {
    /// The keys of a Kafka sink.
    pub(super) KAFKA_KEYS of KafkaOptions;
    /// The topic of a stream. `{stream}` stands for its name.
    topic [TOPIC] = text("{stream}", "letters, digits, `.` `_` `-`, and `{stream}`");
    /// Whether the sink makes topics that do not exist.
    make_topics = switch(true) => makes_topics;
    /// The number of partitions of a topic that the sink makes.
    partitions = integer(1, 1..=10_000) => partitions;
    /// The number of copies of a topic that the sink makes. 0: the broker decides.
    replication = integer(0, 0..=100) => replication;
    /// Compression of batches.
    compression = one_of("none", super::value::names::<Compression>) => broker.compression;
    /// Whether rows and position are committed in one transaction. If not, rows may appear twice after a
    /// crash, and again with each retry of a load.
    exactly_once = switch(true) => exactly_once;
    /// How the value of a row is written: as a JSON object, or as a row of the log.
    format = one_of("json", super::value::names::<RowFormat>) => format;
    /// How long the sink waits for one answer of a broker.
    request_timeout = duration(10 * SECOND_MS, 1000..=HOUR_MS) => broker.request_timeout;
    /// How long the sink tries to deliver a record, or to commit.
    delivery_timeout = duration(30 * SECOND_MS, 1000..=HOUR_MS) => broker.delivery_timeout;
    /// Age at which the broker aborts a transaction whose writer is gone.
    transaction_timeout = duration(MINUTE_MS, 1000..=HOUR_MS) => broker.transaction_timeout;
    /// Whether connections to brokers are encrypted.
    tls [TLS] = switch(false);
    /// The authorities of the brokers, as PEM.
    tls_ca [TLS_CA] = other("those of the system", "a file");
    /// The certificate of the client, as PEM. It needs `tls_key`.
    tls_certificate [TLS_CERTIFICATE] = other("none", "a file");
    /// The private key of the client, as PEM.
    tls_key [TLS_KEY] = other("none", "a file");
    /// How the client proves its name to the broker.
    sasl [SASL] = one_of("none", super::value::names::<Mechanism>);
    /// The user of SASL.
    sasl_user [SASL_USER] = other("none", "a text");
    /// The password of SASL.
    sasl_password [SASL_PASSWORD] = other("none", "`${NAME}`").hidden();
    /// The file of the token of `oauthbearer`. Each connection reads it.
    sasl_token_file [SASL_TOKEN_FILE] = other("none", "a file");
}

/// Reads the keys of a sink with these brokers. Paths are relative to `folder`.
pub(super) fn read(section: &mut Section<'_>, brokers: &Written<String>, folder: &Path) -> KafkaOptions {
    let mut options = KafkaOptions::new(&*brokers.value);
    if let Err(error) = BrokerAddress::list(&brokers.value) {
        section.fault_at(&brokers.span, format!("kafka in {}: {error}", section.name()));
    }
    section.read(KAFKA_KEYS, &mut options);
    options.duplicates = duplicates::read(section);
    options.topic =
        section.text(TOPIC.name).map_or_else(|| TOPIC.default_text().to_owned(), |topic| topic.value);
    let broker = &mut options.broker;
    if broker.delivery_timeout < broker.request_timeout {
        let text = format!(
            "delivery_timeout in {} is {:?}, shorter than request_timeout {:?}: raise it",
            section.name(),
            broker.delivery_timeout,
            broker.request_timeout
        );
        section.fault_of("delivery_timeout", text);
    }
    broker.connect_timeout = broker.connect_timeout.min(broker.request_timeout);
    broker.security = security(section, folder);
    if !is_built_in() {
        section.fault_of("kafka", no_client(section.name()));
    }
    options
}

/// Checks the name of the topic of each stream that the sink takes. One fault is enough.
pub(super) fn check_topics(
    options: &KafkaOptions,
    taken: &Taken,
    streams: &[StreamSpec],
    section: &Section<'_>,
) {
    let mut taken = streams.iter().map(|stream| &*stream.name).filter(|stream| taken.takes(stream));
    // A topic without the name of a stream is faulty even if there is no stream yet.
    let first = taken.next().unwrap_or("s");
    let fault = std::iter::once(first).chain(taken).find_map(|stream| options.topic_fault(stream));
    if let Some(fault) = fault {
        let text = format!("topic in {} makes the topic {fault}: change it", section.name());
        section.fault_of(TOPIC.name, text);
    }
}

/// Whether the program has the client of Kafka. Tests of the configuration need none.
const fn is_built_in() -> bool {
    cfg!(test) || Client::of_sinks().is_some()
}

fn no_client(section: &str) -> String {
    format!(
        "kafka in {section} needs a program with the feature kafka: use a release, or build with \
         `cargo build --features kafka`"
    )
}

fn security(section: &mut Section<'_>, folder: &Path) -> Security {
    let [ca, certificate, key] = [&TLS_CA, &TLS_CERTIFICATE, &TLS_KEY]
        .map(|key| path(section, key.name, PathTo::File).map(|file| folder.join(file.value)));
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            section.fault("tls_certificate and tls_key need each other: give both, or none");
            None
        }
    };
    let is_tls = section.number_or_default(&TLS) != 0;
    if !is_tls && (ca.is_some() || identity.is_some()) {
        section.fault("tls_ca, tls_certificate and tls_key need tls = true");
    }
    Security { tls: is_tls.then_some(Tls { ca, identity }), sasl: sasl(section, folder) }
}

fn sasl(section: &mut Section<'_>, folder: &Path) -> Option<Sasl> {
    let number = section.number_or_default(&SASL);
    let mechanism = usize::try_from(number).ok().and_then(|place| Mechanism::ALL.get(place).copied());
    let user = section.text(SASL_USER.name).map(|text| text.value);
    let password = section.secret(SASL_PASSWORD.name).map(|(_, secret)| secret);
    let token_file = path(section, SASL_TOKEN_FILE.name, PathTo::File).map(|file| folder.join(file.value));
    let mechanism = mechanism.unwrap_or_default();
    let given = (user.is_some(), password.is_some(), token_file.is_some());
    let is_complete = match mechanism {
        Mechanism::None => given == (false, false, false),
        Mechanism::OauthBearer => given == (false, false, true),
        _ => given == (true, true, false),
    };
    if !is_complete {
        let needed = match mechanism {
            Mechanism::None => "sasl_user, sasl_password and sasl_token_file need sasl",
            Mechanism::OauthBearer => {
                "sasl = \"oauthbearer\" needs sasl_token_file, and neither sasl_user nor sasl_password"
            }
            _ => "sasl needs sasl_user and sasl_password, and no sasl_token_file",
        };
        section.fault(format!("{needed}, in {}", section.name()));
    }
    let (user, password) = (user.unwrap_or_default(), password.unwrap_or_default());
    match mechanism {
        Mechanism::None => None,
        Mechanism::Plain => Some(Sasl::Plain { user, password }),
        Mechanism::ScramSha256 => Some(Sasl::ScramSha256 { user, password }),
        Mechanism::ScramSha512 => Some(Sasl::ScramSha512 { user, password }),
        Mechanism::OauthBearer => Some(Sasl::OauthBearer { token_file: token_file.unwrap_or_default() }),
    }
}

/// Returns the files with secrets, with their keys.
pub(super) fn secret_files(options: &KafkaOptions) -> Vec<(&'static str, &Path)> {
    let Security { tls, sasl } = &options.broker.security;
    let identity = tls.as_ref().and_then(|tls| tls.identity.as_ref());
    let key = identity.map(|(_, key)| (TLS_KEY.name, key.as_path()));
    let token = match sasl {
        Some(Sasl::OauthBearer { token_file }) => Some((SASL_TOKEN_FILE.name, token_file.as_path())),
        _ => None,
    };
    key.into_iter().chain(token).collect()
}

/// Writes the keys. `password` is the variable of the password, as the file names it.
pub(super) fn write_kafka(options: &KafkaOptions, password: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Security { tls, sasl } = &options.broker.security;
    let identity = tls.as_ref().and_then(|tls| tls.identity.as_ref());
    let (user, token_file) = match sasl {
        Some(Sasl::Plain { user, .. } | Sasl::ScramSha256 { user, .. } | Sasl::ScramSha512 { user, .. }) => {
            (Some(quoted(user)), None)
        }
        Some(Sasl::OauthBearer { token_file }) => (None, Some(quoted_path(token_file))),
        None => (None, None),
    };
    let password = user.is_some().then(|| toml::Value::String(password.to_owned()).to_string());
    let own = [
        (TOPIC.name, Some(quoted(&options.topic))),
        (TLS.name, Some(tls.is_some().to_string())),
        (TLS_CA.name, tls.as_ref().and_then(|tls| tls.ca.as_deref()).map(quoted_path)),
        (TLS_CERTIFICATE.name, identity.map(|(certificate, _)| quoted_path(certificate))),
        (TLS_KEY.name, identity.map(|(_, key)| quoted_path(key))),
        (SASL.name, Some(quoted(Mechanism::of(sasl.as_ref()).name()))),
        (SASL_USER.name, user),
        (SASL_PASSWORD.name, password),
        (SASL_TOKEN_FILE.name, token_file),
    ];
    write(KAFKA_KEYS, options, &own, f)?;
    duplicates::write_key(options.duplicates, f)
}
