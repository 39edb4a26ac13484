//! `[auth.NAME]`: credentials that routes ask for. `auth` of a route names such a section, or has the same
//! keys in a table of its own.
//!
//! The files are read with the configuration. A faulty file is a fault of the configuration, so a start shows
//! it, and a reload keeps the files that serve.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_server::{
    AuthSpec, FailureLimit, OwnFile, Passwords, RouteAuth, Tokens, is_framing_field, is_realm,
};

use super::auth_file::{AuthPlace, file};
use super::auth_jwt;
use super::auth_rules::{self, RuleKeys};
use super::cors::header_problem;
use super::defaults::OFF;
use super::fault::did_you_mean;
use super::key::{Facts, OwnValue, inline, keys, write};
use super::quoted::{quoted, quoted_path};
use super::route::is_name;
use super::route_limits::{parse_rate, show_count};
use super::section::{Section, TextOrTable, Written};

const ALLOWED: &str = "the name of an [auth.NAME], or a table { basic = \"FILE\", ... }";

keys! {
    pub(super) KEYS of ();
    /// A password file: `NAME:HASH` in each line, with argon2id or bcrypt.
    basic [BASIC] = other("none", "a file");
    /// A token file: `NAME:DIGEST` in each line, with the SHA-256 of the token.
    bearer [BEARER] = other("none", "a file");
    /// JSON Web Tokens that an issuer signs.
    jwt [JWT] = other("none", "a [table](#json-web-tokens)");
    /// The realm that clients show or use to choose credentials.
    realm [REALM] = text("tollgate", "printable ASCII without `\"` and `\\`");
    /// Wrong credentials of one client in a second, a minute or an hour. More: 429.
    failure_limit [FAILURE_LIMIT] = text("10/m", "as `rate` of a limit, or `\"off\"`");
    /// The field in which a backend gets the name of the caller. A client's own field is removed.
    name_header [NAME_HEADER] = other("none", "the name of a header");
}

keys! {
    /// The keys that only `auth` of a route has.
    pub(super) ROUTE_KEYS of ();
    /// The section whose credentials the route asks for.
    use [USE] = other("none", "the name of an `[auth.NAME]`");
    /// The callers that may use the route. Others: 403.
    names [NAMES] = other("all", "a list of names");
    /// The claims that a caller needs, each with its value or a list of values. Others: 403.
    claims [CLAIMS] = other("none", "a table; a name that begins with `/` is a JSON Pointer");
}

const RULES: RuleKeys = RuleKeys { names: &NAMES, claims: &CLAIMS };

/// The sections that routes of a file may name.
#[derive(Debug, Clone, Default)]
pub(super) struct Auths {
    pub(super) specs: Vec<Arc<AuthSpec>>,
    /// The beginning of the ids of this file.
    pub(super) scope: String,
}

impl Auths {
    /// Reads all sections of a file. `scope` makes their ids unique.
    pub(super) fn read(root: &mut Section<'_>, place: AuthPlace<'_>, scope: String) -> Self {
        let mut specs = Vec::new();
        for (name, mut section) in root.named_tables("auth") {
            if !is_name(&name.value) {
                let allowed = "allowed is a letter or _, then letters, digits and _";
                section.fault_at(&name.span, format!("auth is named {:?}, {allowed}", name.value));
            }
            let id = format!("{scope}auth.{}", name.value);
            let spec = spec(&mut section, place, (id, Some(name.value)));
            section.finish();
            specs.push(Arc::new(spec));
        }
        Self { specs, scope }
    }

    /// Adds the sections of the server, for an app that names one of them. Sections of the app come first.
    pub(super) fn with(mut self, server: &[Arc<AuthSpec>]) -> Self {
        self.specs.extend_from_slice(server);
        self
    }

    fn named(&self, section: &Section<'_>, name: &Written<String>) -> Option<Arc<AuthSpec>> {
        let found = self.specs.iter().find(|spec| spec.section.as_deref() == Some(&name.value)).cloned();
        if found.is_none() {
            let names = self.specs.iter().filter_map(|spec| spec.section.as_deref());
            let hint = match &*self.specs {
                [] => ": the file has no [auth.NAME]".to_owned(),
                _ => did_you_mean(&name.value, names),
            };
            section.fault_at(&name.span, format!("unknown auth {:?}{hint}", name.value));
        }
        found
    }
}

/// Takes `auth` of a route. `route` is the name of the route in the id of its own credentials.
pub(super) fn route_auth(
    section: &mut Section<'_>,
    key: &Facts,
    auths: &Auths,
    place: AuthPlace<'_>,
    route: &str,
) -> Option<RouteAuth> {
    match section.text_or_table(key.name, ALLOWED)? {
        TextOrTable::Text(name) => {
            Some(RouteAuth { spec: auths.named(section, &name)?, requirement: Default::default() })
        }
        TextOrTable::Table(mut table) => {
            let id = format!("{}route {route}", auths.scope);
            let spec = match table.text(USE.name) {
                Some(name) => named_alone(&mut table, auths, &name),
                None => Some(Arc::new(spec(&mut table, place, (id, None)))),
            };
            let requirement = auth_rules::requirement(&mut table, &RULES);
            table.finish();
            let spec = spec?;
            auth_rules::check(section, key, &spec, &requirement);
            Some(RouteAuth { spec, requirement })
        }
    }
}

/// Returns the section that a table names. The table has no credentials of its own.
fn named_alone(table: &mut Section<'_>, auths: &Auths, name: &Written<String>) -> Option<Arc<AuthSpec>> {
    let own = KEYS.iter().map(|key| key.facts.name).find(|key| table.has(key));
    if let Some(own) = own {
        table
            .fault_of(own, format!("{own} in auth is not allowed with use: set it in [auth.{}]", name.value));
        table.ignore(KEYS);
    }
    auths.named(table, name)
}

/// Takes the keys of a section, or of a table of a route.
fn spec(section: &mut Section<'_>, place: AuthPlace<'_>, (id, name): (String, Option<String>)) -> AuthSpec {
    let basic =
        file(section, &BASIC, place, |text| Passwords::parse(text).map_err(|fault| fault.to_string()));
    let bearer = file(section, &BEARER, place, |text| Tokens::parse(text).map_err(|fault| fault.to_string()));
    let jwt = auth_jwt::jwt(section, &JWT, place);
    if ![&BASIC, &BEARER, &JWT].iter().any(|key| section.has(key.name)) {
        section.fault(format!("{} has no credentials: set basic, bearer or jwt", section.name()));
    }
    AuthSpec {
        id,
        section: name,
        basic,
        bearer,
        jwt,
        realm: realm(section),
        failures: failures(section),
        name_header: name_header(section),
    }
}

fn realm(section: &mut Section<'_>) -> String {
    let Some(realm) = section.text(REALM.name) else { return REALM.default_text().to_owned() };
    if !is_realm(&realm.value) {
        let text = format!("realm is {:?}, allowed is printable ASCII without \" and \\", realm.value);
        section.fault_at(&realm.span, text);
    }
    realm.value
}

fn failures(section: &mut Section<'_>) -> Option<FailureLimit> {
    let limit = |text: &str| parse_rate(text).map(|(count, period)| FailureLimit { count, period });
    let Some(written) = section.text(FAILURE_LIMIT.name) else { return limit(FAILURE_LIMIT.default_text()) };
    if written.value == OFF {
        return None;
    }
    let found = limit(&written.value);
    if found.is_none() {
        let allowed = "\"off\", or 1 to 1000000 in a second, a minute or an hour, like \"10/m\"";
        section
            .fault_at(&written.span, format!("failure_limit is {:?}, allowed is {allowed}", written.value));
    }
    found
}

fn name_header(section: &mut Section<'_>) -> Option<String> {
    let name = section.text(NAME_HEADER.name)?;
    let is_credential = name.value.eq_ignore_ascii_case("authorization");
    let is_refused =
        is_framing_field(&name.value) || name.value.eq_ignore_ascii_case("host") || is_credential;
    if header_problem(&name.value).is_some() || name.value.contains('_') {
        let text = format!("name_header is {:?}, allowed is the name of a header without _", name.value);
        section.fault_at(&name.span, text);
    } else if is_refused {
        let text = format!("name_header is {:?}, which has another meaning: choose another name", name.value);
        section.fault_at(&name.span, text);
    }
    Some(name.value)
}

/// Shows the value of a route.
pub(super) fn show_route(auth: &RouteAuth) -> String {
    let rules = auth_rules::show(&auth.requirement, &RULES);
    match &auth.spec.section {
        Some(name) => {
            let [names, claims] = rules;
            inline(ROUTE_KEYS, &(), &[(USE.name, Some(quoted(name))), names, claims])
        }
        None => {
            let own: Vec<_> = show(&auth.spec).into_iter().chain(rules).filter_map(pair).collect();
            format!("{{ {} }}", own.join(", "))
        }
    }
}

fn pair((name, value): OwnValue) -> Option<String> {
    value.map(|value| format!("{name} = {value}"))
}

/// Writes a section.
pub(super) fn write_auth(spec: &AuthSpec, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n[auth.{}]", spec.section.as_deref().unwrap_or_default())?;
    write(KEYS, &(), &show(spec), f)
}

fn show(spec: &AuthSpec) -> [OwnValue; 6] {
    let limit = spec.failures.map_or_else(|| OFF.to_owned(), |limit| show_count(limit.count, limit.period));
    [
        (BASIC.name, spec.basic.as_ref().map(|file| quoted_path(&file.file))),
        (BEARER.name, spec.bearer.as_ref().map(|file| quoted_path(&file.file))),
        (JWT.name, spec.jwt.as_ref().map(auth_jwt::show)),
        (REALM.name, Some(quoted(&spec.realm))),
        (FAILURE_LIMIT.name, Some(quoted(&limit))),
        (NAME_HEADER.name, spec.name_header.as_deref().map(quoted)),
    ]
}

/// Returns the files of passwords, tokens and secrets, which are secret.
pub(super) fn secret_files<'a>(specs: impl Iterator<Item = &'a Arc<AuthSpec>>) -> Vec<OwnFile> {
    let mut own = Vec::new();
    for spec in specs {
        let named = |key: &Facts, file: &PathBuf| OwnFile::new(format!("{} in {}", key.name, spec.id), file);
        own.extend(spec.basic.as_ref().map(|loaded| named(&BASIC, &loaded.file)));
        own.extend(spec.bearer.as_ref().map(|loaded| named(&BEARER, &loaded.file)));
        own.extend(spec.jwt.as_ref().and_then(auth_jwt::secret_file).map(|file| named(&JWT, file)));
    }
    own
}

/// Returns the files of public keys, which are not secret.
pub(super) fn key_files<'a>(specs: impl Iterator<Item = &'a Arc<AuthSpec>>) -> Vec<OwnFile> {
    let files = specs.filter_map(|spec| Some((spec, auth_jwt::key_file(spec.jwt.as_ref()?)?)));
    files.map(|(spec, file)| OwnFile::new(format!("key_file in {}", spec.id), file)).collect()
}
