//! Sends sealed segments to a store, which is an object store or a folder on another disk. A ship target is a
//! configured store, with the thread that sends the segments to it.
//!
//! A sealed segment never changes. The segment is stored byte for byte, as one object, under a name that no
//! other segment has. So a segment may be stored again at any time, by any machine, in any order. The
//! position and the chain of checksums in the sink's database decide which records are loaded.
//!
//! | file | task |
//! | --- | --- |
//! | [`name`] | the names of objects |
//! | [`identity`] | the identity of a segment, which differs between two segments of one name |
//! | [`store`] | the calls on a store |
//! | [`folder`], [`object`] | a folder, and an object store, as a store |
//! | [`answer`] | the short texts by which machines communicate through the store |
//! | [`pace`] | the limit on bytes per second |
//! | [`send`] | stores one segment, and distinguishes a lost response from a fork |
//! | [`cost`], [`policy`] | the price of a month; the least rights of a machine |
//! | [`probe`] | checks whether a store creates each object once |
//! | [`progress`] | which segments of each log are shipped |
//! | [`listing`] | lists the logs, segments and positions in a store |
//! | [`copy`] | copies one segment to this machine, and checks it |
//! | [`mod@fetch`] | the thread that fetches segments for the loader, and writes the positions of sinks to the store |
//! | [`logs`] | the logs of this machine, as a ship target sees them |
//! | [`shipper`], [`status`] | the thread that ships, and its state |
//! | [`volume`] | disks that carry segments to the database, and answers back |
//!
//! Absent here: sinks, rows, scripts. The loader is above this crate.

mod answer;
mod copy;
mod cost;
mod fetch;
mod folder;
mod identity;
mod listing;
mod logs;
mod name;
mod object;
mod options;
mod pace;
mod policy;
mod probe;
mod progress;
mod send;
mod shipper;
mod status;
mod store;
#[cfg(test)]
mod testing;
mod volume;

pub use answer::{EndAnswer, NodeAnswer, PositionAnswer, WantAnswer};
pub use copy::{SegmentCopy, SegmentPlace, copy_segment};
pub use cost::{StoreCost, StorePrices, StoreUse, month_cost};
pub use fetch::{
    AllLogs, Allotment, FetchFault, FetchOptions, FetchStartError, FetchState, FetchStatus, FetchTuning,
    FetchWaker, FetchWatch, Fetcher, LogFetch, NodeFetch, OfferedLog, ReadPositions, SinkPositions, Spool,
    SpoolError, StoreRetain,
};
pub use folder::FolderStore;
pub use identity::SegmentIdentity;
pub use listing::{end_of, ended_logs, positions_of, reported_of, segments_of, shipped_logs, want_of};
pub use logs::ShippedLogs;
pub use name::{NodeName, ObjectName};
pub use object::{
    AddressFault, Addressing, AwsKeys, AwsSigner, CloudError, Content, Expiry, ExpiryRule, Lifecycle,
    ObjectStore, ObjectStoreOptions, ObjectText, OpenError, PlaceError, PutChecksum, Secret, StorePlace,
    StoreService, WebAnswer, WebClient, WebError, WebOptions, WebRequest, check_web_address,
};
pub use options::{DeleteRule, ShipOptions, ShipTuning};
pub use pace::Pacer;
pub use policy::{StoreRole, s3_policy};
pub use probe::{ConditionalCreate, StoreReport, probe_store};
pub use send::{Sent, find_segment, send_segment};
pub use shipper::{OnceOutcome, ShipOnce, ShipOnceError, Shipper, ship_once};
pub use status::{LogFault, ShipState, ShipStatus, ShipWatch};
pub use store::{Created, LISTED_MAX, ObjectHead, Store, StoreError};
pub use volume::{
    AcceptedReport, HookError, KeptUntilLoaded, SourceOptions, SourceStatus, VolumeError, VolumeFacts,
    VolumeFolder, VolumeHook, VolumeId, VolumeOptions, VolumeSource, VolumeState, VolumeStatus, VolumeStore,
    VolumeWatch, accept_report, close_volume, forget_volume, init_volume, is_volume, read_volume,
};
