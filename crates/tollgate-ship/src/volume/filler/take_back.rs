//! Takes back the volumes that a host has loaded, and the reports of volumes that it could not write.

use super::super::clean::clean;
use super::super::disk;
use super::super::error::VolumeError;
use super::super::loaded::{LOADED_FILE, Loaded};
use super::super::opened::OpenVolume;
use super::super::state::{STATE_BYTES_MAX, Transition, VolumeFile};
use super::Filler;

impl Filler {
    /// Takes the answers of reports, before their volumes come back.
    pub(super) fn take_reports(&mut self) -> Result<(), VolumeError> {
        let known = self.home.list_ids()?;
        for id in self.away.keys().copied().filter(|id| !known.contains(id)).collect::<Vec<_>>() {
            // A command forgot it.
            self.retire(id)?;
        }
        self.reports = self.home.reports()?;
        for report in self.reports.values().cloned().collect::<Vec<_>>() {
            let list = self.away.get(&report.id).filter(|list| list.generation == report.generation);
            if let Some(list) = list.cloned() {
                self.deliver(&report, &list)?;
                self.retire(report.id)?;
            }
        }
        Ok(())
    }

    fn deliver(&self, answers: &Loaded, list: &VolumeFile) -> Result<(), VolumeError> {
        for (sink, log) in self.home.deliver(answers, list)? {
            let text = format!("log {log} of sink {sink}");
            tracing::error!(%log, sink, volume = %list.id, "answers are about other segments than were sent");
            let mut status = self.watch.lock();
            if !status.forked.contains(&text) {
                status.forked.push(text);
            }
        }
        Ok(())
    }

    /// Reads the answers of a volume that came back, and empties it.
    pub(super) fn take_back(&mut self, volume: &mut OpenVolume) -> Result<(), VolumeError> {
        let (id, generation) = volume.file.key();
        let path = volume.mounted.folder().join(LOADED_FILE);
        let answers = if let Some(report) = self.report((id, generation)) {
            report.clone()
        } else {
            let text = disk::read_text(&volume.mounted.path().join(LOADED_FILE), STATE_BYTES_MAX);
            let text = text.map_err(VolumeError::file("read", &path))?;
            let parsed = text.ok_or_else(|| "it is missing".to_owned()).and_then(|text| Loaded::parse(&text));
            parsed.map_err(|reason| VolumeError::Damaged { file: path.clone(), reason })?
        };
        if (answers.id, answers.generation) != (id, generation) {
            let reason = "it is about another volume, or about an earlier time of this one".to_owned();
            return Err(VolumeError::Damaged { file: path, reason });
        }
        let list = self.away.get(&id).unwrap_or(&volume.file).clone();
        self.deliver(&answers, &list)?;
        volume.apply(Transition::Return, "take back")?;
        self.finish_cleaning(volume)
    }

    pub(super) fn finish_cleaning(&mut self, volume: &mut OpenVolume) -> Result<(), VolumeError> {
        let cleaned = volume.file.clone();
        clean(volume)?;
        self.home.remove_report(cleaned.id)?;
        self.reports.remove(&cleaned.id);
        // Without a list of this machine, the list of the volume shows what was there.
        if self.away.contains_key(&cleaned.id) {
            self.retire(cleaned.id)?;
        } else {
            self.settle(&cleaned)?;
        }
        self.watch.lock().returned_volumes += 1;
        Ok(())
    }
}
