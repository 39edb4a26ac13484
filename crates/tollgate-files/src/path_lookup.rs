//! Finds the file or folder for the path of a request.

use std::time::Duration;

use crate::cache::CacheEntry;
use crate::files::Files;
use crate::lookup_context::LookupContext;
use crate::opened::{OpenError, Opened};
use crate::options::TryPath;
use crate::resource::Resource;

/// The folder that is served although its name begins with a dot (RFC 8615).
const WELL_KNOWN: &str = ".well-known";

/// Time for which the result of a lookup is used while a later version of the file may have the same stamp.
const RECHECK_UNSETTLED: Duration = Duration::from_secs(1);

/// Result of a lookup.
pub(crate) enum Found {
    Resource(Resource),
    /// A folder. The path of the request lacks the final slash.
    Folder,
    /// A folder that has no index file. The reply is a listing of the folder.
    Listing,
}

impl Files {
    /// Looks up the part of the path that `*` of the route matched. `path_info` is decoded and normalised,
    /// and begins with a slash.
    pub(crate) fn find(&self, path_info: &str, look: LookupContext<'_>) -> Result<Found, OpenError> {
        let below = path_info.strip_prefix('/').unwrap_or(path_info);
        if !self.is_open_to_all(below) {
            return Err(OpenError::Absent);
        }
        for candidate in &self.spec.candidates {
            let found = match candidate {
                TryPath::Fixed(path) => self.resource(path, look).map(|found| found.map(Found::Resource)),
                TryPath::Requested(end) => self.requested(below, end, look),
            };
            match found {
                Ok(None) | Err(OpenError::Absent) => {}
                Ok(Some(found)) => return Ok(found),
                Err(error) => return Err(error),
            }
        }
        Err(OpenError::Absent)
    }

    /// Looks up a candidate that depends on the request. `None` means a folder that has no index file, or a
    /// folder for which this candidate does not count.
    fn requested(&self, below: &str, end: &str, look: LookupContext<'_>) -> Result<Option<Found>, OpenError> {
        let is_folder = below.is_empty() || below.ends_with('/');
        match (is_folder, end) {
            (true, "") => match self.index(below, look)? {
                Some(index) => Ok(Some(Found::Resource(index))),
                None if self.spec.listing => self.folder(below, look),
                None => Ok(None),
            },
            (true, _) => Ok(None),
            (false, "") => {
                self.resource(below, look).map(|found| Some(found.map_or(Found::Folder, Found::Resource)))
            }
            (false, _) => {
                let found = self.resource(&format!("{below}{end}"), look)?;
                Ok(found.map(Found::Resource))
            }
        }
    }

    fn folder(&self, below: &str, look: LookupContext<'_>) -> Result<Option<Found>, OpenError> {
        match self.root.open(below, look)? {
            Opened::Folder(_) => Ok(Some(Found::Listing)),
            Opened::File(..) => Ok(None),
        }
    }

    fn index(&self, folder: &str, look: LookupContext<'_>) -> Result<Option<Resource>, OpenError> {
        for name in &self.spec.index {
            match self.resource(&format!("{folder}{name}"), look) {
                Ok(None) | Err(OpenError::Absent) => {}
                found => return found,
            }
        }
        Ok(None)
    }

    /// Opens a file, or returns its cached resource. `None` means that the path is a folder.
    pub(crate) fn resource(
        &self,
        path: &str,
        look: LookupContext<'_>,
    ) -> Result<Option<Resource>, OpenError> {
        let is_current = |CacheEntry { resource, looked }: &CacheEntry| {
            look.at.saturating_duration_since(*looked) < self.recheck(resource) && resource.is_fresh()
        };
        let before = match self.cache.get(path) {
            Some(known) if is_current(&known) => return Ok(Some(known.resource)),
            known => known.map(|known| known.resource),
        };
        self.descriptors.make_room();
        let opened = Resource::open(path, &self.root, &self.spec, &self.made, before.as_ref(), look);
        match &opened {
            Ok(Some(resource)) => {
                // The folder may have been replaced since its last lookup, so the older time counts.
                let looked = self.root.looked().map_or(look.at, |folder| folder.min(look.at));
                self.cache.insert(path, CacheEntry { resource: resource.clone(), looked });
            }
            Err(OpenError::Cold(_)) => {}
            _ if before.is_some() => self.cache.remove(path),
            _ => {}
        }
        opened
    }

    /// Returns the time for which the result of a lookup is used.
    fn recheck(&self, resource: &Resource) -> Duration {
        if resource.is_settled() { self.spec.recheck } else { self.spec.recheck.min(RECHECK_UNSETTLED) }
    }

    /// Returns whether a path may be served: no segment is empty, hidden or a dot segment.
    fn is_open_to_all(&self, below: &str) -> bool {
        let path = below.strip_suffix('/').unwrap_or(below);
        let mut segments = path.split('/').enumerate();
        below.is_empty()
            || segments.all(|(place, segment)| match segment {
                "" | "." | ".." => false,
                WELL_KNOWN if place == 0 => true,
                _ => self.spec.dotfiles || !segment.starts_with('.'),
            })
    }
}
