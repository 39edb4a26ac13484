//! All sections of the configuration, with the tables of their keys.

use super::key::{Facts, Key};
use super::{
    access_log, ack, acme, admin, app, auth, auth_jwt, backend, client_certificate, collect, cors, database,
    duplicates, files, fixed_reply, hsts, iceberg, kafka, listen, load, log, otlp, parquet, postgres, proxy,
    rest_catalog, route_limits, routes, rules, script, server, ship, ship_store, ship_volumes, sink, stream,
    tls, validate, verify, when,
};

/// A section, or a table in it: its path in the file without the names of its tables, and its keys.
pub(super) struct Keys {
    pub(super) path: &'static str,
    pub(super) facts: Vec<&'static Facts>,
}

/// Returns all sections.
pub(super) fn sections() -> Vec<Keys> {
    let mut ships = facts(ship_store::STORE_KEYS);
    ships.extend(facts(ship_volumes::VOLUME_KEYS));
    ships.extend(facts(ship::KEYS));
    let mut sinks = facts(sink::KINDS);
    sinks.extend(facts(postgres::KEYS));
    sinks.extend(facts(duplicates::KEYS));
    sinks.extend(facts(kafka::KAFKA_KEYS));
    sinks.extend(facts(parquet::PARQUET_KEYS));
    sinks.extend(facts(sink::KEYS));
    let mut catalogs = facts(iceberg::ICEBERG_KEYS);
    catalogs.extend(facts(rest_catalog::REST_KEYS));
    let sections = [
        ("server", facts(server::KEYS)),
        ("server.listen", facts(listen::KEYS)),
        ("tls", facts(tls::KEYS)),
        ("tls.hsts", facts(hsts::KEYS)),
        ("certificate", facts(tls::CERTIFICATE_KEYS)),
        ("acme", facts(acme::KEYS)),
        ("admin", facts(admin::KEYS)),
        ("log", facts(log::KEYS)),
        ("access_log", facts(access_log::KEYS)),
        ("otlp", facts(otlp::KEYS)),
        ("script", facts(script::KEYS)),
        ("database", facts(database::KEYS)),
        ("stream", facts(stream::KEYS)),
        ("stream.ack", facts(ack::KEYS)),
        ("stream.columns", facts(rules::KEYS)),
        ("stream.columns.redact", facts(rules::REDACT_KEYS)),
        ("backend", facts(backend::KEYS)),
        ("auth", facts(auth::KEYS)),
        ("auth.jwt", facts(auth_jwt::KEYS)),
        ("route", facts(routes::KEYS)),
        ("route.files", facts(files::KEYS)),
        ("route.proxy", facts(proxy::KEYS)),
        ("route.collect", facts(collect::KEYS)),
        ("route.reply", facts(fixed_reply::KEYS)),
        ("route.when", facts(when::KEYS)),
        ("route.cors", facts(cors::KEYS)),
        ("route.client_certificate", facts(client_certificate::KEYS)),
        ("route.auth", facts(auth::ROUTE_KEYS)),
        ("route.rate_limit", facts(route_limits::KEYS)),
        ("route.verify", facts(verify::KEYS)),
        ("route.validate", facts(validate::KEYS)),
        ("app", facts(app::KEYS)),
        ("app.script", facts(script::KEYS)),
        ("limits", facts(app::LIMITS)),
        ("sink", sinks),
        ("sink.iceberg", catalogs),
        ("sink.iceberg.sigv4", facts(rest_catalog::SIGV4_KEYS)),
        ("ship", ships),
        ("load", facts(load::KEYS)),
    ];
    sections.into_iter().map(|(path, facts)| Keys { path, facts }).collect()
}

fn facts<O>(keys: &'static [Key<O>]) -> Vec<&'static Facts> {
    keys.iter().map(|key| &key.facts).collect()
}

#[cfg(test)]
mod tests;
