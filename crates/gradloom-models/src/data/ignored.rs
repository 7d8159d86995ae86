//! The ignore files of folders that are walked through.
//!
//! In: each folder as it is entered and left, and the paths in it. Out: whether ignore files leave a path
//! out. Always holds: ignore files count in a repository or not, from the folder that was entered first
//! downwards, and nowhere else; what lies above it, or in the user's settings, differs between machines.

use super::DataError;
use gradloom_runtime::regular_file;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::io::ErrorKind;
use std::path::Path;

/// Files with patterns, as git reads them. What the first one says holds whatever the second one says.
const NAMES: [&str; 2] = [".ignore", ".gitignore"];
/// Most bytes of such a file.
const LARGEST: u64 = 1 << 20;

/// The patterns that hold in a folder: of each of [`NAMES`], those of every folder down to it.
#[derive(Default)]
pub(super) struct Ignored([Vec<Gitignore>; NAMES.len()]);

impl Ignored {
    /// Adds the patterns of a folder. They are read here, not by the crate, which waits for pipes and reads
    /// devices without end. A pattern that is not well-formed matches nothing, as with git.
    ///
    /// # Errors
    /// When a file of them cannot be read.
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

    /// Takes back the patterns of the folder that was entered last.
    pub(super) fn leave(&mut self) {
        self.0.iter_mut().for_each(|patterns| drop(patterns.pop()));
    }

    /// Returns whether a path in the folder that was entered last is left out; the innermost pattern
    /// decides.
    pub(super) fn leaves_out(&self, path: &Path, is_folder: bool) -> bool {
        let of_each = self.0.iter().flat_map(|patterns| patterns.iter().rev());
        let mut verdicts = of_each.map(|patterns| patterns.matched(path, is_folder));
        verdicts.find(|verdict| !verdict.is_none()).is_some_and(|verdict| verdict.is_ignore())
    }
}
