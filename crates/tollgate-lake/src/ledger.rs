//! The plans and commits of one sink: where each log is, and the order of the steps of a load.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tollgate_log::{Gap, LogId, Position, Sequence};

use crate::error::LakeError;
use crate::names::{LoadName, Names, escaped};
use crate::place::{Created, FileStamp, Place};
use crate::plan::{Commit, Counts, GapText, Plan};

const COMMIT: &str = ".commit";

/// Where a new sink began.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Begin {
    logs: BTreeMap<String, (u64, Option<u32>)>,
}

/// The state of a log in the lake.
#[derive(Debug, Clone)]
pub struct LedgerLog {
    /// The last record before the start of the sink.
    pub start: Sequence,
    /// The position.
    pub position: Position,
    /// The machine that wrote the log.
    pub node: Option<String>,
    /// Results of the records, with all fills and retries.
    pub counts: BTreeMap<String, Counts>,
    /// The gaps that are not filled, in order.
    pub gaps: Vec<Gap>,
    /// Number of files of loads.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// The type of a column, as the sink noted it before the first row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedType {
    /// Name of the note, below the folder of the stream.
    pub note: String,
    /// Name of the type.
    pub kind: String,
}

impl NotedType {
    fn new(name: &str, kind: String) -> Self {
        Self { note: name.rsplit('/').next().unwrap_or_default().to_owned(), kind }
    }
}

/// The plans and commits of one sink.
pub struct Ledger {
    place: Box<dyn Place>,
    names: Names,
    /// The last known commit of each log, by its name.
    known: BTreeMap<LogId, (String, Commit)>,
    begin: Option<Begin>,
}

impl Ledger {
    /// Creates the ledger of a sink. Reads nothing.
    pub fn new(place: Box<dyn Place>, sink: &str) -> Self {
        Self { place, names: Names::new(sink), known: BTreeMap::new(), begin: None }
    }

    /// Returns the place of the lake.
    pub fn place(&self) -> &dyn Place {
        &*self.place
    }

    /// Returns whether the sink has begun.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn has_begun(&mut self) -> Result<bool, LakeError> {
        Ok(self.begin()?.is_some())
    }

    /// Notes where the sink begins, unless it has begun.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn begin_at(&mut self, ends: &BTreeMap<LogId, Position>) -> Result<(), LakeError> {
        let logs = ends.iter().map(|(log, end)| (log.to_string(), (end.last.0, end.chain)));
        let begin = Begin { logs: logs.collect() };
        let text = serde_json::to_string(&begin).unwrap_or_default();
        self.place.create_text(&self.names.sink(), &text).map(drop)
    }

    fn begin(&mut self) -> Result<Option<&Begin>, LakeError> {
        if self.begin.is_none() {
            let name = self.names.sink();
            let Some(text) = self.place.text(&name)? else { return Ok(None) };
            let begin = serde_json::from_str(&text);
            self.begin = Some(begin.map_err(|error| LakeError::Text {
                name,
                reason: format!("no JSON ({error}): use the program that wrote it, or a later one"),
            })?);
        }
        Ok(self.begin.as_ref())
    }

    /// Returns the logs of the sink.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn logs(&mut self) -> Result<Vec<LogId>, LakeError> {
        let loaded = self.place.folders(&self.names.logs())?;
        let begun = self.begin()?.map(|begin| begin.logs.keys().cloned().collect()).unwrap_or_default();
        let all: BTreeSet<String> = loaded.into_iter().chain::<Vec<String>>(begun).collect();
        Ok(all.iter().filter_map(|log| log.parse().ok()).collect())
    }

    /// Returns the position of a log.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn position(&mut self, log: LogId) -> Result<Option<Position>, LakeError> {
        if let Some(commit) = self.last_commit(log)? {
            return Ok(Some(commit.end()));
        }
        self.begun_at(log)
    }

    fn begun_at(&mut self, log: LogId) -> Result<Option<Position>, LakeError> {
        let begin = self.begin()?.and_then(|begin| begin.logs.get(&log.to_string()).copied());
        Ok(begin.map(|(last, chain)| Position { last: Sequence(last), chain }))
    }

    /// Reads the newest commit of a log.
    fn last_commit(&mut self, log: LogId) -> Result<Option<Commit>, LakeError> {
        let known = self.known.get(&log);
        let names = self.place.list(&self.names.log(log), known.map(|(name, _)| name.as_str()))?;
        let Some(name) = names.into_iter().rev().find(|name| name.ends_with(COMMIT)) else {
            return Ok(known.map(|(_, commit)| commit.clone()));
        };
        let commit = self.needed(&name, Commit::read)?;
        self.known.insert(log, (name, commit.clone()));
        Ok(Some(commit))
    }

    fn needed<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str, &str) -> Result<T, LakeError>,
    ) -> Result<T, LakeError> {
        let Some(text) = self.place.text(name)? else {
            // A store may refuse a name before it shows the object of the other writer.
            return Err(LakeError::Missing { name: name.to_owned() });
        };
        read(name, &text)
    }

    /// Returns the name of the commit of a load.
    pub fn name_of_commit(&self, load: LoadName) -> String {
        self.names.commit(load)
    }

    /// Returns the name of the plan of a load.
    pub fn name_of_plan(&self, load: LoadName) -> String {
        self.names.plan(load)
    }

    /// Returns the plan of a load, if there is one.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn plan(&self, load: LoadName) -> Result<Option<Plan>, LakeError> {
        let name = self.names.plan(load);
        self.place.text(&name)?.map(|text| Plan::read(&name, &text)).transpose()
    }

    /// Returns the state of a log. `None`: no record of it is loaded.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn log(&mut self, log: LogId) -> Result<Option<LedgerLog>, LakeError> {
        let begun = self.begun_at(log)?;
        let commit = match (self.last_commit(log)?, begun) {
            (Some(commit), _) => commit,
            (None, Some(begun)) => Commit::before(begun.last, begun.chain),
            (None, None) => return Ok(None),
        };
        let mut counts = commit.counts.clone();
        for fill in self.fills(log)?.values() {
            for (stream, more) in &fill.counts {
                counts.entry(stream.clone()).or_default().add(*more);
            }
        }
        let id = log.to_string();
        for retry in self.retries()? {
            for resolved in retry.resolved.iter().filter(|one| one.log == id && one.reason.is_none()) {
                let counts = counts.entry(resolved.stream.clone()).or_default();
                counts.loaded += 1;
                counts.rejected = counts.rejected.saturating_sub(1);
            }
        }
        Ok(Some(LedgerLog {
            start: Sequence(commit.start),
            position: commit.end(),
            node: commit.node.clone(),
            gaps: self.gaps(log)?,
            files: commit.files,
            bytes: commit.bytes,
            counts,
        }))
    }

    /// Returns the gaps of a log that are not filled, in order.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn gaps(&mut self, log: LogId) -> Result<Vec<Gap>, LakeError> {
        let Some(commit) = self.last_commit(log)? else { return Ok(Vec::new()) };
        if commit.gaps.is_empty() {
            return Ok(Vec::new());
        }
        let fills = self.fills(log)?;
        let mut waiting = commit.gaps;
        let mut gaps = Vec::new();
        while let Some(gap) = waiting.pop() {
            match fills.get(&(gap.first, gap.last)) {
                Some(fill) => waiting.extend(fill.gaps.iter().cloned()),
                None => gaps.push(gap),
            }
        }
        gaps.sort_by_key(|gap| gap.first);
        let renames = self.place.list(&self.names.renames(log), None)?;
        gaps.iter().map(|gap| self.renamed(log, gap, &renames)).collect()
    }

    fn renamed(&self, log: LogId, gap: &GapText, renames: &[String]) -> Result<Gap, LakeError> {
        let (first, last) = (Sequence(gap.first), Sequence(gap.last));
        let names = (0..).map(|count| self.names.rename(log, first, last, count));
        let name = names.take_while(|name| renames.contains(name)).last();
        let reason = name.map(|name| self.needed(&name, |_, text| Ok(text.to_owned()))).transpose()?;
        Ok(Gap { first, last, reason: reason.unwrap_or_else(|| gap.reason.clone()) })
    }

    /// Gives a gap another reason.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn rename_gap(&mut self, log: LogId, gap: &Gap, reason: &str) -> Result<bool, LakeError> {
        if !self.gaps(log)?.contains(gap) {
            return Ok(false);
        }
        let renames = self.place.list(&self.names.renames(log), None)?;
        let names = (0..).map(|count| self.names.rename(log, gap.first, gap.last, count));
        let free = names.into_iter().find(|name| !renames.contains(name)).unwrap_or_default();
        self.place.create_text(&free, reason).map(|created| created == Created::Stored)
    }

    /// Returns the fills of a log that are committed, by their gaps.
    fn fills(&self, log: LogId) -> Result<BTreeMap<(u64, u64), Plan>, LakeError> {
        let mut fills = BTreeMap::new();
        let folder = self.names.fills(log);
        for name in self.place.list(&folder, None)? {
            let Some(range) = name.strip_prefix(&folder).and_then(|name| name.strip_suffix(COMMIT)) else {
                continue;
            };
            let range = range.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            let Some(range) = range else { continue };
            fills.insert(range, self.needed(&name, Plan::read)?);
        }
        Ok(fills)
    }

    /// Returns the retries that are committed, in order. The first one has number 1.
    ///
    /// Only a program that knows the results of all earlier retries may decide the next one. Otherwise a
    /// reject becomes a row twice.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn retries(&self) -> Result<Vec<Plan>, LakeError> {
        let names = self.place.list(&self.names.retries(), None)?;
        let commits = names.iter().filter(|name| name.ends_with(COMMIT));
        commits.map(|name| self.needed(name, Plan::read)).collect()
    }

    /// Returns the name of a short text of the sink.
    pub fn note(&self, name: &str) -> String {
        self.names.note(name)
    }

    /// Returns whether a load is committed.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn is_committed(&self, load: LoadName) -> Result<bool, LakeError> {
        Ok(self.place.text(&self.names.commit(load))?.is_some())
    }

    /// Notes the type of a column, unless it is noted. Returns the noted type.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn column_type(&self, stream: &str, column: &str, kind: &str) -> Result<NotedType, LakeError> {
        if let Some(found) = self.known_type(stream, column)? {
            return Ok(found);
        }
        // Two loaders may note names that differ only in case at once. Only one of the notes is created.
        let name = self.names.column(stream, &column.to_ascii_lowercase());
        self.place.create_text(&name, kind)?;
        self.needed(&name, |name, text| Ok(NotedType::new(name, text.to_owned())))
    }

    /// Returns the noted type of a column. Engines ignore the case of its name, so the search does too.
    ///
    /// # Errors
    /// The place does not answer.
    pub fn known_type(&self, stream: &str, column: &str) -> Result<Option<NotedType>, LakeError> {
        let (exact, lower) =
            (self.names.column(stream, column), self.names.column(stream, &column.to_ascii_lowercase()));
        if let Some(kind) = self.place.text(&exact)? {
            return Ok(Some(NotedType::new(&exact, kind)));
        }
        if lower != exact
            && let Some(kind) = self.place.text(&lower)?
        {
            return Ok(Some(NotedType::new(&lower, kind)));
        }
        // An earlier version noted a name with its capital letters.
        let names = self.place.list(&self.names.columns(stream), None)?;
        let Some(name) = names.into_iter().find(|name| name.eq_ignore_ascii_case(&exact)) else {
            return Ok(None);
        };
        Ok(self.place.text(&name)?.map(|kind| NotedType::new(&name, kind)))
    }

    /// Returns the name of a lease among the loaders that read one store, or the prefix of all their leases.
    pub fn lease(&self, store: &str, name: Option<&str>) -> String {
        format!("{}{}", self.names.leases(store), name.map(escaped).unwrap_or_default())
    }

    /// Checks that a load gives what its plan says.
    ///
    /// # Errors
    /// `Unreadable` if records of the plan cannot be read any more. `Differs` with any other difference.
    pub fn check_same(&self, load: LoadName, plan: &Plan, made: &Plan) -> Result<(), LakeError> {
        // Only a lost end of the log ends a load before its plan.
        if made.last < plan.last {
            let reason = format!("the log ends with record {}", made.last);
            let gap = GapText { first: made.last.saturating_add(1), last: plan.last, reason };
            return Err(self.unreadable(load, plan, &gap));
        }
        let reason = if plan.last != made.last {
            format!("it ends with record {}, the plan with {}", made.last, plan.last)
        } else if let Some(gap) = made.gaps.iter().find(|gap| !plan.gaps.iter().any(|of| of.covers(gap))) {
            return Err(self.unreadable(load, plan, gap));
        } else if plan.chain != made.chain {
            "its last batch has another checksum".to_owned()
        } else if plan.files != made.files {
            format!("it has {} files, {:?}, the plan has {:?}", made.files.len(), made.files, plan.files)
        } else if plan.digest != made.digest {
            "its records are others".to_owned()
        } else if plan != made {
            "the results of records are others".to_owned()
        } else {
            return Ok(());
        };
        Err(LakeError::Differs { name: self.names.plan(load), reason })
    }

    fn unreadable(&self, load: LoadName, plan: &Plan, gap: &GapText) -> LakeError {
        let mut remedy = "put their segment back from a copy".to_owned();
        if let LoadName::Next { log, first } = load {
            let last = plan.last;
            remedy.push_str(&format!(
                ". If there is none, stop the loaders of the sink, and give the load up: `tollgate load \
                 --skip {log} {first}-{last}`"
            ));
        }
        let (name, reason) = (self.names.plan(load), gap.reason.clone());
        LakeError::Unreadable { name, first: gap.first, last: gap.last, reason, remedy }
    }

    /// Decides a load. Returns false if another loader decided it otherwise.
    ///
    /// # Errors
    /// The place does not answer. It is unknown whether the load is decided.
    pub fn decide(&self, load: LoadName, plan: &Plan) -> Result<bool, LakeError> {
        let name = self.names.plan(load);
        match self.place.create_text(&name, &plan.to_text())? {
            Created::Stored => Ok(true),
            Created::Exists => Ok(self.needed(&name, Plan::read)? == *plan),
        }
    }

    /// Brings the files of a decided load into the lake, in the order of the plan, each with its path and its
    /// digest. A file that is there already has to be of the same load, with the same ids of columns.
    ///
    /// # Errors
    /// The place does not answer, or a file of the lake is another one.
    pub fn publish<'f>(
        &self,
        plan: &Plan,
        files: impl Iterator<Item = (&'f Path, &'f str)>,
    ) -> Result<(), LakeError> {
        for (file, (part, digest)) in plan.files.iter().zip(files) {
            let stamp = FileStamp { rows: file.rows, digest: digest.to_owned() };
            if self.place.create_file(&file.name, part, &stamp)? == Created::Stored {
                continue;
            }
            let Some(found) = self.place.stamp(&file.name)? else {
                let source = std::io::Error::from(std::io::ErrorKind::NotFound);
                return Err(LakeError::call("find", &file.name)(source));
            };
            if found != stamp {
                let (name, found, wanted) = (file.name.clone(), found.to_string(), stamp.to_string());
                return Err(LakeError::Other { name, found, wanted });
            }
        }
        Ok(())
    }

    /// Commits a retry whose files are in the lake. Returns the plan that is committed. It is another one if
    /// a program has ended the retry with fewer rows.
    ///
    /// # Errors
    /// The place does not answer. It is unknown whether the retry is committed.
    pub fn commit_retry(&self, number: u64, plan: &Plan) -> Result<Plan, LakeError> {
        let name = self.names.commit(LoadName::Retry { number });
        match self.place.create_text(&name, &plan.to_text())? {
            Created::Stored => Ok(plan.clone()),
            Created::Exists => self.needed(&name, Plan::read),
        }
    }

    /// Commits a load or a fill whose files are in the lake. `bytes` is the size of its files.
    ///
    /// # Errors
    /// The place does not answer. It is unknown whether the load is committed.
    pub fn commit(&mut self, load: LoadName, plan: &Plan, bytes: u64) -> Result<(), LakeError> {
        let name = self.names.commit(load);
        let LoadName::Next { log, first } = load else {
            return self.place.create_text(&name, &plan.to_text()).map(drop);
        };
        let before = match self.last_commit(log)? {
            // Another loader has finished this load, and may have gone on.
            Some(commit) if commit.last >= first.0 => return Ok(()),
            Some(commit) => commit,
            None => match self.begun_at(log)? {
                Some(begun) => Commit::before(begun.last, begun.chain),
                None => Commit::before(Sequence(plan.before), None),
            },
        };
        let commit = before.after(plan, bytes);
        if self.place.create_text(&name, &commit.to_text())? == Created::Stored {
            self.known.insert(log, (name, commit));
        }
        Ok(())
    }
}
