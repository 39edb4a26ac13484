//! `tollgate ship init`, `state`, `close`, `accept` and `forget`: commands on volumes that move.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use tollgate_ship::{
    VolumeFacts, VolumeId, accept_report, close_volume, forget_volume, init_volume, read_volume,
};

use crate::cli::{FolderArguments, TargetArguments, VolumeCommand};
use crate::config::{Config, ConfigError, Fault, ShipConfig};
use crate::print::{counted, to_stdout};
use crate::ships::{node_of, volume_home};

/// Runs a command on volumes.
pub(crate) fn run(command: &VolumeCommand) -> anyhow::Result<ExitCode> {
    let text = match command {
        VolumeCommand::Init(FolderArguments { folder, same_device }) => {
            facts_text(&init_volume(folder, *same_device)?)
        }
        VolumeCommand::State(FolderArguments { folder, same_device }) => {
            facts_text(&read_volume(folder, *same_device)?)
        }
        VolumeCommand::Close(FolderArguments { folder, same_device }) => {
            facts_text(&close_volume(folder, *same_device)?)
        }
        VolumeCommand::Accept { report, target } => accept(report, target)?,
        VolumeCommand::Forget { id, target } => forget(id.0, target)?,
    };
    to_stdout(|out| {
        writeln!(out, "{text}")?;
        Ok(ExitCode::SUCCESS)
    })
}

fn facts_text(facts: &VolumeFacts) -> String {
    let VolumeFacts { id, generation, state, segments, bytes, .. } = facts;
    let mut text = format!("volume {id}, generation {generation}: {state}");
    if *segments > 0 {
        text.push_str(&format!(", {} ({bytes} bytes)", counted(*segments, "segment")));
    }
    if let Some(node) = &facts.node {
        text.push_str(&format!(", filled by {node}"));
    }
    if let Some(host) = &facts.host {
        text.push_str(&format!(", loaded by {host}"));
    }
    text
}

fn accept(report: &Path, target: &TargetArguments) -> anyhow::Result<String> {
    let config = Config::load(&target.config)?;
    let home = home(&config, target)?;
    let accepted = accept_report(report, &home, &node_of(&config.log)?)?;
    let wanted = counted(accepted.wanted as u64, "segment");
    Ok(format!(
        "volume {}, generation {}: loaded by {}, {} answered, {wanted} asked for again",
        accepted.id,
        accepted.generation,
        accepted.host,
        counted(accepted.positions as u64, "position")
    ))
}

fn forget(id: VolumeId, target: &TargetArguments) -> anyhow::Result<String> {
    let config = Config::load(&target.config)?;
    if !forget_volume(&home(&config, target)?, id)? {
        bail!("no closed volume with the id {id} is away: `tollgate status` lists the volumes that are away");
    }
    Ok(format!("volume {id} is forgotten: its segments are sent again"))
}

/// Returns the memory of the ship target that is meant.
fn home(config: &Config, target: &TargetArguments) -> anyhow::Result<PathBuf> {
    let with_volumes = config.ships.iter().filter(|ship| ship.volumes().is_some());
    let is_meant = |ship: &&ShipConfig| target.ship.as_ref().is_none_or(|name| *name == ship.name);
    let meant: Vec<_> = with_volumes.filter(is_meant).collect();
    match (meant.as_slice(), &target.ship) {
        ([ship], _) => Ok(volume_home(ship, &config.log)),
        ([], name) => {
            let target =
                name.as_ref().map_or("no [ship.NAME] has".to_owned(), |name| format!("[ship.{name}] lacks"));
            let fault = Fault::of_file(&config.source, format!("{target} volumes"));
            Err(ConfigError { faults: vec![fault] }.into())
        }
        (several, _) => {
            let names: Vec<_> = several.iter().map(|ship| ship.name.as_str()).collect();
            bail!("several ship targets have volumes: choose one of {} by --ship", names.join(", "))
        }
    }
}
