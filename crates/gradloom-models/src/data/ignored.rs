//! Ignore files in the folders that are traversed.
//!
//! In: each folder as it is entered and left, and the paths in it. Out: whether a path is ignored. Invariant:
//! ignore files take effect inside and outside of git repositories, but only in the folder that was entered
//! first and below it; those above it and the user's global settings are disregarded because they differ
//! between machines.

use super::DataError;
use gradloom_runtime::regular_file;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::io::ErrorKind;
use std::path::Path;

/// Names of the ignore files, whose patterns have git's syntax. The first takes precedence over the second.
const NAMES: [&str; 2] = [".ignore", ".gitignore"];
/// Maximum size of an ignore file in bytes.
const LARGEST: u64 = 1 << 20;

/// Patterns of the entered folders, outermost first, separately for each of [`NAMES`].
#[derive(Default)]
pub(super) struct Ignored([Vec<Gitignore>; NAMES.len()]);

impl Ignored {
    /// Adds the patterns of a folder. The files are read here rather than by the `ignore` crate, which would
    /// block on pipes and never finish reading some devices. As in git, a malformed pattern matches nothing.
    ///
    /// # Errors
    /// Returns an error if an ignore file cannot be read.
    pub(super) fn enter(&mut self, folder: &Path) -> Result<(), DataError> {
        for (name, patterns) in NAMES.into_iter().zip(&mut self.0) {
            let path = folder.join(name);
            let bytes = match regular_file::read(&path, LARGEST) {
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                read => read.map_err(|source| DataError::Unreadable { path, source })?,
            };
            let mut builder = GitignoreBuilder::new(folder);
            for line in String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').lines() {
                let _ = builder.add_line(None, line);
            }
            patterns.push(builder.build().unwrap_or_else(|_| Gitignore::empty()));
        }
        Ok(())
    }

    /// Removes the patterns of the folder that was entered last.
    pub(super) fn leave(&mut self) {
        self.0.iter_mut().for_each(|patterns| drop(patterns.pop()));
    }

    /// Returns `true` if a path in the folder that was entered last is ignored. The innermost matching
    /// `.ignore` decides, or else the innermost matching `.gitignore`.
    pub(super) fn leaves_out(&self, path: &Path, is_folder: bool) -> bool {
        let of_each = self.0.iter().flat_map(|patterns| patterns.iter().rev());
        let mut verdicts = of_each.map(|patterns| patterns.matched(path, is_folder));
        verdicts.find(|verdict| !verdict.is_none()).is_some_and(|verdict| verdict.is_ignore())
    }
}
