//! The arguments that name the service of a store.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tollgate_ship::PutChecksum;

/// The service of a store. Credentials come from the environment or from the machine.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StoreArguments {
    /// The address of the service of the store, instead of the address of the cloud
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// The region of an s3:// store
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,
    /// The checksum that an s3:// store verifies at each write
    #[arg(long, value_name = "NAME", value_parser = put_checksum(), default_value = "sha256")]
    pub(crate) checksum: PutChecksum,
    /// A PEM file with the authorities that the store's certificate may come from
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

impl StoreArguments {
    /// Returns whether an option is about a store.
    pub(crate) fn is_given(&self) -> bool {
        let Self { endpoint, region, checksum, ca_file } = self;
        endpoint.is_some() || region.is_some() || ca_file.is_some() || *checksum != PutChecksum::default()
    }
}

fn put_checksum() -> impl TypedValueParser<Value = PutChecksum> {
    PossibleValuesParser::new(PutChecksum::ALL.map(PutChecksum::name)).map(|name| {
        let known = PutChecksum::ALL.into_iter().find(|checksum| checksum.name() == name);
        known.unwrap_or_default()
    })
}
