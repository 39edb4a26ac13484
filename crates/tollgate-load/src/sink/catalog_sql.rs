//! The tables of a catalog in a database, as `JdbcCatalog` (version 1) and `SqlCatalog` of pyiceberg have
//! them. Parameters are `$1` and so on, in the order of their first use: SQLite counts them so.

/// What a program does with a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CatalogAccess {
    /// It makes the tables of the catalog if they are missing, and changes them.
    Write,
    /// It only finds tables. A catalog without its tables has none.
    Read,
}

/// Creates the tables.
pub(super) const CREATE: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS iceberg_tables (catalog_name VARCHAR(255) NOT NULL, \
     table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, \
     metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5), \
     PRIMARY KEY (catalog_name, table_namespace, table_name))",
    "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, \
     namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000), \
     PRIMARY KEY (catalog_name, namespace, property_key))",
];

/// Finds the metadata of a table.
pub(super) const LOCATION: &str = "SELECT metadata_location FROM iceberg_tables \
     WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3";

/// Finds the names of all tables of a namespace.
pub(super) const TABLES: &str = "SELECT table_name FROM iceberg_tables \
     WHERE catalog_name = $1 AND table_namespace = $2 AND metadata_location IS NOT NULL ORDER BY table_name";

/// Adds a namespace.
pub(super) const ADD_NAMESPACE: &str = "INSERT INTO iceberg_namespace_properties \
     (catalog_name, namespace, property_key, property_value) VALUES ($1, $2, 'exists', 'true') \
     ON CONFLICT DO NOTHING";

/// Adds a table. The type of the entry is left out, because a catalog of version 0 has no column for it.
/// Without a type, the entry is a table.
pub(super) const ADD: &str = "INSERT INTO iceberg_tables \
     (catalog_name, table_namespace, table_name, metadata_location) VALUES ($1, $2, $3, $4) \
     ON CONFLICT DO NOTHING";

/// Replaces the metadata of a table, if it is the expected one.
pub(super) const REPLACE: &str = "UPDATE iceberg_tables \
     SET metadata_location = $1, previous_metadata_location = $2 \
     WHERE catalog_name = $3 AND table_namespace = $4 AND table_name = $5 AND metadata_location = $2";
