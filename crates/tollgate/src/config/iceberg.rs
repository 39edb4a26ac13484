//! The table `iceberg` of `[sink.NAME]`: a catalog, a warehouse, and how tables are kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_load::{
    CatalogPlace, IcebergOptions, LakePlace, OWN_FOLDER, Partition, PostgresUrl, hide_password,
};

use super::keep::Keep;
use super::key::{Facts, inline_of, keys, shown};
use super::parquet::{self, Lake};
use super::quoted::{quoted, quoted_path};
use super::rest_catalog;
use super::section::{Section, Written};
use super::value::{named, names};

/// The key of the table.
pub(super) const ICEBERG: &str = "iceberg";
/// The allowed values of the key.
pub(super) const ALLOWED: &str = "`{ catalog = \"...\", warehouse = \"...\" }`";
const CATALOG_ALLOWED: &str = "a path, `postgres://user:password@host:port/database?sslmode=...`, or \
                               `https://HOST/PATH`; `http://` to loopback only";
/// The path of the catalog below a sink.
pub(super) const CATALOG_PATH: &str = "iceberg.catalog";
/// Places that have no common address among engines.
const AZURE: &str = "az://";
/// Letters that begin another part of an address, such as `file:///srv/lake`.
const NOT_IN_ADDRESS: [char; 2] = ['#', '?'];
const NAME_BYTES_MAX: usize = 255;

keys! {
    /// The keys of the table `iceberg`.
    pub(super) ICEBERG_KEYS of IcebergOptions;
    /// The catalog: a file of SQLite, the address of a PostgreSQL server, or the address of a REST catalog.
    catalog [CATALOG] = other("needed", CATALOG_ALLOWED);
    /// The folder, or the bucket with a prefix, of all tables.
    warehouse [WAREHOUSE] = other("needed", "a path, `s3://BUCKET/PREFIX` `gs://BUCKET/PREFIX`");
    /// The namespace of the tables.
    namespace [NAMESPACE] = text("tollgate", "letters, digits and _, at most 255 bytes");
    /// The name of the catalog in its database. Engines have to use the same name.
    catalog_name [CATALOG_NAME] = text("tollgate", "letters, digits and _, at most 255 bytes");
    /// How new tables are partitioned, by the time at which a record was written to the log.
    partition = one_of("day", names::<Partition>) => partition;
    /// How long snapshots are kept, for queries of an earlier state.
    snapshots_kept [SNAPSHOTS_KEPT] = text("5d", "a duration, also in days, or `\"forever\"`");
    /// How long files that no snapshot needs are kept.
    orphans_kept [ORPHANS_KEPT] = text("7d", "a duration from `1h`, also in days, or `\"forever\"`");
}

named!(Partition);

/// The shortest time that files without a snapshot are kept. A program may need a file that it is about to
/// commit.
const ORPHANS_KEPT_MIN: Duration = Duration::from_hours(1);

/// The configuration of an Iceberg sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Iceberg {
    pub(super) options: IcebergOptions,
    /// The address of the catalog as the file has it, without a password. `None`: it is a file.
    address: Option<String>,
}

impl Iceberg {
    /// Returns the file of the catalog, or of its secret, with its key.
    pub(super) fn file(&self) -> Option<(&'static str, &Path)> {
        match &self.options.catalog {
            CatalogPlace::Sqlite(path) => Some((ICEBERG, path)),
            CatalogPlace::Postgres(_) => None,
            CatalogPlace::Rest(rest) => rest_catalog::secret_file(rest),
        }
    }

    /// Returns whether both have the same tables.
    pub(super) fn has_tables_of(&self, other: &Self) -> bool {
        let (one, other) = (&self.options, &other.options);
        one.catalog.is_same(&other.catalog)
            && (&one.catalog_name, &one.namespace) == (&other.catalog_name, &other.namespace)
    }

    /// Returns the table, as TOML.
    pub(super) fn printed(&self, warehouse: &str) -> String {
        let options = &self.options;
        let rest = match &options.catalog {
            CatalogPlace::Rest(rest) => Some(rest),
            CatalogPlace::Sqlite(_) | CatalogPlace::Postgres(_) => None,
        };
        let catalog = match (&options.catalog, &self.address) {
            (CatalogPlace::Sqlite(path), _) => quoted_path(path),
            // The text is not escaped, so its variables are printed as variables.
            (_, address) => toml::Value::String(address.clone().unwrap_or_default()).to_string(),
        };
        let keep = |kept: Option<Duration>| quoted(&kept.map_or(Keep::Forever, Keep::For).to_string());
        let own = [
            (CATALOG.name, Some(catalog)),
            (WAREHOUSE.name, Some(warehouse.to_owned())),
            (NAMESPACE.name, Some(quoted(&options.namespace))),
            (CATALOG_NAME.name, rest.is_none().then(|| quoted(&options.catalog_name))),
            (SNAPSHOTS_KEPT.name, Some(keep(options.snapshots_kept))),
            (ORPHANS_KEPT.name, Some(keep(options.orphans_kept))),
        ];
        let mut keys = shown(ICEBERG_KEYS, options, &own);
        keys.extend(rest.into_iter().flat_map(|rest| rest_catalog::printed(rest)));
        inline_of(&keys)
    }
}

/// Reads the table, and the keys of files in the section of the sink. Paths are relative to the first folder.
pub(super) fn read(section: &mut Section<'_>, folders: (&Path, &Path)) -> Option<(Lake, Iceberg)> {
    let name = format!("{ICEBERG} of {}", section.name());
    let mut table = section.take_table(ICEBERG, name)?;
    let address = table.as_written(CATALOG.name).map(hide_password);
    let catalog = table.needed_text(CATALOG.name).map(|text| catalog(&mut table, &text, folders.0));
    let warehouse = table.needed_text(WAREHOUSE.name);
    if let Some(found) = warehouse.as_ref().filter(|found| found.value.starts_with(AZURE)) {
        let text = format!(
            "{} in {} is {:?}, allowed is a path, s3:// or gs://: engines have no common address for Azure",
            WAREHOUSE.name,
            table.name(),
            found.value
        );
        table.fault_at(&found.span, text);
    }
    let warehouse = warehouse.filter(|found| !found.value.starts_with(AZURE));
    let span = warehouse.as_ref().map(|found| found.span.clone());
    let lake = parquet::read_at(section, ICEBERG, warehouse, folders);
    if let (LakePlace::Folder(folder), Some(span)) = (&lake.options.place, span)
        && folder.to_string_lossy().contains(NOT_IN_ADDRESS)
    {
        let text = format!(
            "{} in {} is {}, allowed is a folder without \"#\" and \"?\": engines cut the address of a file \
             there, rename the folder",
            WAREHOUSE.name,
            table.name(),
            folder.display()
        );
        table.fault_at(&span, text);
    }
    let catalog = catalog.unwrap_or_else(|| CatalogPlace::Sqlite(PathBuf::new()));
    let is_file = matches!(catalog, CatalogPlace::Sqlite(_));
    let mut options = IcebergOptions::new(lake.options.clone(), catalog);
    table.read(ICEBERG_KEYS, &mut options);
    options.namespace = namespace(&mut table);
    options.catalog_name = part_of_name(&mut table, &CATALOG_NAME);
    options.snapshots_kept = kept(&mut table, &SNAPSHOTS_KEPT, Duration::ZERO);
    options.orphans_kept = kept(&mut table, &ORPHANS_KEPT, ORPHANS_KEPT_MIN);
    table.finish();
    Some((lake, Iceberg { options, address: address.filter(|_| !is_file) }))
}

fn catalog(table: &mut Section<'_>, text: &Written<String>, folder: &Path) -> CatalogPlace {
    if rest_catalog::is_rest(&text.value) {
        if table.has(CATALOG_NAME.name) {
            let reason = format!(
                "{} in {} needs a database, found a REST catalog: use catalog_warehouse",
                CATALOG_NAME.name,
                table.name()
            );
            table.fault_of(CATALOG_NAME.name, reason);
        }
        return CatalogPlace::Rest(Box::new(rest_catalog::read(table, text, folder)));
    }
    rest_catalog::refuse(table);
    let refuse =
        |reason: &str| table.fault_at(&text.span, format!("{} in {}: {reason}", CATALOG.name, table.name()));
    let is_address = text.value.starts_with("postgres://") || text.value.starts_with("postgresql://");
    if is_address || text.value.starts_with("host=") {
        match PostgresUrl::parse(&text.value) {
            Ok(url) => return CatalogPlace::Postgres(Box::new(url)),
            Err(reason) => refuse(&reason),
        }
    } else if text.value.contains("://") {
        refuse(
            "it is the address of another service, allowed is the path of a file, postgres://... or https://...",
        );
    } else if text.value.is_empty() {
        refuse("it is \"\", allowed is the path of a file, postgres://... or https://...");
    }
    CatalogPlace::Sqlite(folder.join(&text.value))
}

/// Reads the namespace. Its folder in the warehouse is not the folder of the plans and commits of sinks.
fn namespace(table: &mut Section<'_>) -> String {
    let found = part_of_name(table, &NAMESPACE);
    if found.eq_ignore_ascii_case(OWN_FOLDER) {
        let (key, name) = (NAMESPACE.name, table.name());
        let text = format!(
            "{key} in {name} is {found:?}, the folder of the plans and commits of sinks: choose another name"
        );
        table.fault_of(key, text);
    }
    found
}

/// Reads a part of the name of a table. Engines write it in statements without quotes.
fn part_of_name(table: &mut Section<'_>, key: &'static Facts) -> String {
    let Some(found) = table.text(key.name) else { return key.default_text().to_owned() };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if found.value.is_empty() || found.value.len() > NAME_BYTES_MAX || !found.value.bytes().all(is_letter) {
        let text = format!(
            "{} in {} is {:?}, allowed are letters, digits and _, at most {NAME_BYTES_MAX} bytes",
            key.name,
            table.name(),
            found.value
        );
        table.fault_at(&found.span, text);
    }
    found.value
}

fn kept(table: &mut Section<'_>, key: &'static Facts, least: Duration) -> Option<Duration> {
    let found = table.text(key.name);
    let text = found.as_ref().map_or(key.default_text(), |found| &found.value);
    let keep = Keep::parse(text).filter(|keep| keep.time().is_none_or(|time| time >= least));
    if let (None, Some(found)) = (keep, &found) {
        let hours = least.as_secs() / 3_600;
        let text = format!(
            "{} in {} is {:?}, allowed is a duration like \"7d\", {hours}h to 3650d, or \"forever\"",
            key.name,
            table.name(),
            found.value
        );
        table.fault_at(&found.span, text);
    }
    keep.and_then(Keep::time)
}
