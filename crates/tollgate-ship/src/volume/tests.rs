//! Tests with real logs and real folders, or with ext4 in mounted images if `TOLLGATE_VOLUMES` is set:
//! nothing is lost, nothing is doubled, and nothing is written or deleted that is not ours.

mod crash;
mod cycle;
mod faults;
mod pulled;
mod site;
mod threads;
