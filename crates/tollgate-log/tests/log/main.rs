//! Tests of the log on a simulated disk: crashes, damage, failing calls, and the promises of its threads in
//! each of these cases.

// clippy exempts test functions, but not the helpers between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod awaited;
mod commit;
mod crash;
mod digest;
mod every_bit;
mod every_workload;
mod fixtures;
mod forge;
mod impossible;
mod inspect;
mod limits;
mod model;
mod queue_age;
mod recovery;
mod repair;
mod retain;
mod rot;
mod runway;
mod schemas;
mod sim;
mod special_files;
mod worker_writes;
mod workload;
