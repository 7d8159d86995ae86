//! Folders that appear, or replace others, only when complete.
//!
//! In: a path, and code that writes files. Out: a folder at the path. Invariant: whenever the process ends,
//! even by `kill -9`, the path is the old folder or the new one, never a mixture of both; a marker file
//! identifies the remains next to the path, which the next command removes.

use crate::failure::{Failure, Result};
use crate::run::{broken_link, unusable};
use gradloom::runtime::regular_file::{self, beside};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Marker file of a folder that is being written, locked while a process writes there.
pub(crate) const PARTIAL: &str = ".partial";

/// A folder that is written next to its final location.
#[derive(Debug)]
pub(crate) struct NewFolder {
    /// Final path, with links resolved.
    place: PathBuf,
    /// Path of the folder until it is finished.
    partial: PathBuf,
    mark: Option<File>,
    /// Folders created for the new one, innermost first.
    made: Vec<PathBuf>,
}

impl NewFolder {
    /// Creates `OUT.partial`, and removes the remains of an interrupted command from it. If `OUT` cannot be
    /// moved, such as the current folder, the new folder is `OUT/.partial`.
    pub(crate) fn begin(out: &Path) -> Result<Self> {
        let failed = |error: &io::Error| unusable(out, error);
        if broken_link(out).is_some() {
            return Err(failed(&io::ErrorKind::NotFound.into()));
        }
        let place = out.canonicalize().unwrap_or_else(|_| out.to_path_buf());
        if let Err(error) = fs::read_dir(&place)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(failed(&error));
        }
        restore(&place).map_err(|error| failed(&error))?;
        let (mut partial, inside) = (beside(&place, PARTIAL), place.join(PARTIAL));
        let mut made = missing(&partial);
        let may_be_inside = place.is_dir();
        if may_be_inside && (inside.is_dir() || !is_movable(&place) || fs::create_dir_all(&partial).is_err())
        {
            (made, partial) = (missing(&inside), inside);
        }
        let created = fs::create_dir_all(&partial).map_err(|error| failed(&error));
        let folder = created.and_then(|()| Self::locked(place, partial));
        match folder {
            Ok(mut folder) => {
                folder.made = made;
                Ok(folder)
            }
            Err(failure) => {
                remove_empty(&made);
                Err(failure)
            }
        }
    }

    /// Locks a folder and removes the remains of an interrupted command from it.
    fn locked(place: PathBuf, partial: PathBuf) -> Result<Self> {
        let name = partial.display();
        let others = || {
            Failure::usage(format!("{name}: there are files of others in it"))
                .help("move them, or choose another folder")
        };
        let is_empty = || fs::read_dir(&partial).is_ok_and(|mut entries| entries.next().is_none());
        if !partial.join(PARTIAL).is_file() && !is_empty() {
            return Err(others());
        }
        let mark = Some(lock(&partial)?);
        clear(&partial);
        match fs::read_dir(&partial).map(Iterator::count) {
            Ok(1) => Ok(Self { place, partial, mark, made: Vec::new() }),
            _ => Err(others()),
        }
    }

    /// Returns the folder to write the files to.
    pub(crate) fn path(&self) -> &Path {
        &self.partial
    }

    /// Moves the folder to its final location if `check` succeeds. `last` is the file without which no
    /// command accepts the folder.
    pub(crate) fn finish(mut self, last: &str, check: impl FnOnce() -> Result<()>) -> Result<()> {
        let place = self.place.clone();
        let failed = |error: io::Error| unusable(&place, &error);
        if self.partial.parent() == Some(&place) {
            check()?;
            self.move_files(last).map_err(failed)?;
        } else if place.is_dir() {
            let mark = lock(&place)?;
            if let Err(failure) = check() {
                drop(mark);
                let _ = fs::remove_file(place.join(PARTIAL));
                return Err(failure);
            }
            let permissions = fs::metadata(&place).map(|found| found.permissions());
            let _ = permissions.and_then(|permissions| fs::set_permissions(&self.partial, permissions));
            // Close the marker file on Windows, which cannot move a folder that contains an open file.
            self.mark = self.mark.take().filter(|_| cfg!(unix));
            drop(Some(mark).filter(|_| cfg!(windows)));
            // Move the files one by one if the file system, such as that of some containers, cannot rename
            // folders.
            if exchange(&self.partial, &place).is_err() {
                self.move_files(last).map_err(failed)?;
            }
        } else {
            check()?;
            self.mark = self.mark.take().filter(|_| cfg!(unix));
            fs::rename(&self.partial, &place).map_err(failed)?;
            self.made.clear();
        }
        let _ = fs::remove_file(place.join(PARTIAL));
        sync(&place);
        place.parent().into_iter().for_each(sync);
        Ok(())
    }

    /// Moves the files to the final location, after removing the old ones; `last` is moved last.
    fn move_files(&self, last: &str) -> io::Result<()> {
        let _ = fs::remove_file(self.place.join(last));
        sync(&self.place);
        clear(&self.place);
        let mut names: Vec<OsString> = fs::read_dir(&self.partial)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<io::Result<_>>()?;
        names.retain(|name| name != PARTIAL);
        names.sort_by_key(|name| name == last);
        names.iter().try_for_each(|name| fs::rename(self.partial.join(name), self.place.join(name)))
    }
}

impl Drop for NewFolder {
    /// Removes an unfinished folder, or the folder that was replaced.
    fn drop(&mut self) {
        clear(&self.partial);
        // Close the marker file on Windows, which cannot remove an open file.
        self.mark = self.mark.take().filter(|_| cfg!(unix));
        let _ = fs::remove_file(self.partial.join(PARTIAL));
        self.made.retain(|folder| *folder != self.partial);
        if fs::remove_dir(&self.partial).is_ok() {
            remove_empty(&self.made);
        }
    }
}

/// Creates the marker file of a folder and locks it. The system releases the lock when the process ends, even
/// by a crash.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(PARTIAL);
    let file = regular_file::open(&path, OpenOptions::new().write(true).create(true).truncate(false));
    let file = file.map_err(|error| unusable(&path, &error))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(Failure::failed(format!("{}: another gradloom is writing to this folder", folder.display()))
                .help("wait for it to end, or choose another folder"))
        }
        // Continue without a lock on network file systems that do not support locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Removes the files in a folder, except for its marker.
fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name() != PARTIAL && entry.file_type().is_ok_and(|kind| !kind.is_dir()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Exchanges the names of two folders: atomically if the system can, otherwise by renaming one after the
/// other.
fn exchange(new: &Path, place: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if renameat_with(CWD, new, CWD, place, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
    }
    exchange_by_turns(new, place)
}

/// Suffix of the old folder while it is exchanged without an atomic rename.
const OLD: &str = ".old";

fn exchange_by_turns(new: &Path, place: &Path) -> io::Result<()> {
    let old = beside(place, OLD);
    fs::rename(place, &old)?;
    if let Err(error) = fs::rename(new, place) {
        fs::rename(&old, place)?;
        return Err(error);
    }
    fs::rename(&old, new)
}

/// Restores a folder from an exchange that was interrupted, or removes the replaced one.
fn restore(place: &Path) -> io::Result<()> {
    let old = beside(place, OLD);
    if !old.join(PARTIAL).is_file() {
        return Ok(());
    }
    if !place.exists() {
        return fs::rename(&old, place);
    }
    clear(&old);
    fs::remove_file(old.join(PARTIAL))?;
    fs::remove_dir(&old)
}

/// Returns `true` if a folder can be replaced by another. The current folder of this process and its parents
/// cannot be, since the user's shell is probably there, nor can the root of a file system.
fn is_movable(folder: &Path) -> bool {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    if here.is_ok_and(|here| here.starts_with(folder)) {
        return false;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
        folder.parent().is_some_and(|parent| device(parent) == device(folder))
    }
    #[cfg(not(unix))]
    true
}

/// Flushes the names in a folder to the disk. Windows has no such call, but journals names.
fn sync(folder: &Path) {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if cfg!(unix) {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
}

/// Returns the missing folders of a path, innermost first.
pub(crate) fn missing(path: &Path) -> Vec<PathBuf> {
    let is_missing =
        |part: &&Path| part.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let parts = path.ancestors().filter(|part| !part.as_os_str().is_empty());
    parts.take_while(is_missing).map(Path::to_path_buf).collect()
}

/// Removes empty folders, up to the first that is not empty.
pub(crate) fn remove_empty(folders: &[PathBuf]) {
    let _ = folders.iter().try_for_each(fs::remove_dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(out: &Path, text: &str) -> NewFolder {
        let folder = NewFolder::begin(out).unwrap();
        fs::write(folder.path().join("last"), text).unwrap();
        folder
    }

    #[test]
    fn a_folder_comes_as_a_whole_or_not_at_all() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("a/b");
        drop(begun(&out, "came to nothing"));
        assert!(!parent.path().join("a").exists(), "nothing is left");
        for text in ["first", "second"] {
            let folder = begun(&out, text);
            folder.finish("last", || Ok(())).unwrap();
            assert_eq!(fs::read_to_string(out.join("last")).unwrap(), text);
            assert_eq!(fs::read_dir(parent.path().join("a")).unwrap().count(), 1);
            assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "no mark stays");
        }
        let refused = begun(&out, "third").finish("last", || Err(Failure::usage("no")));
        assert!(refused.is_err());
        assert_eq!(fs::read_to_string(out.join("last")).unwrap(), "second");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "no mark stays");
    }

    #[test]
    fn files_of_others_and_other_processes_are_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("out");
        let first = begun(&out, "first");
        let failure = format!("{:?}", NewFolder::begin(&out).unwrap_err());
        assert!(failure.contains("another gradloom is writing"), "{failure}");
        assert!(first.path().join("last").exists());
        drop(first);
        let partial = parent.path().join("out.partial");
        fs::create_dir(&partial).unwrap();
        fs::write(partial.join("notes.txt"), "precious").unwrap();
        let failure = format!("{:?}", NewFolder::begin(&out).unwrap_err());
        assert!(failure.contains("there are files of others"), "{failure}");
        assert_eq!(fs::read_dir(&partial).unwrap().count(), 1);
    }

    /// Tests that a name too long for a suffix is treated like any other: the remains of an interrupted
    /// command are found again.
    #[test]
    fn the_longest_name_is_one_as_others() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("n".repeat(250));
        for text in ["first", "second"] {
            let folder = begun(&out, text);
            let partial = folder.path().to_path_buf();
            std::mem::forget(folder);
            // Simulate the end of the process, which releases the lock, by replacing the locked marker with
            // an unlocked one. On Windows and network file systems, the old lock may remain.
            fs::remove_file(partial.join(PARTIAL)).unwrap();
            fs::write(partial.join(PARTIAL), b"").unwrap();
            begun(&out, text).finish("last", || Ok(())).unwrap();
            assert_eq!(fs::read_to_string(out.join("last")).unwrap(), text);
            assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing is left");
        }
        let old = beside(&out, OLD);
        fs::write(out.join(PARTIAL), b"").unwrap();
        fs::rename(&out, &old).unwrap();
        restore(&out).unwrap();
        assert!(out.exists() && !old.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_nowhere_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(parent.path().join("nowhere"), &link).unwrap();
        for out in [link.clone(), link.join("below")] {
            let failure = format!("{:?}", NewFolder::begin(&out).unwrap_err());
            let expected = format!("{} is a link that leads nowhere", link.display());
            assert!(failure.contains(&expected), "{failure}");
        }
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "nothing is left");
    }

    /// Tests that files are moved if folders cannot be renamed; the file that makes the folder valid is moved
    /// last.
    #[test]
    fn files_are_moved_where_folders_cannot_be() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("out");
        fs::create_dir(&out).unwrap();
        ["old", "last"].iter().for_each(|name| fs::write(out.join(name), "old").unwrap());
        let folder = begun(&out, "new");
        fs::write(folder.path().join("other"), "new").unwrap();
        folder.move_files("last").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(&out).unwrap().count(), 2);
        for name in ["last", "other"] {
            assert_eq!(fs::read_to_string(out.join(name)).unwrap(), "new");
        }
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    /// Tests that no folder is lost at any moment if the system cannot exchange two names atomically.
    #[test]
    fn folders_are_exchanged_by_turns() {
        let parent = tempfile::tempdir().unwrap();
        let [new, place, old] = ["new", "place", "place.old"].map(|name| parent.path().join(name));
        for folder in [&new, &place] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(PARTIAL), folder.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        exchange_by_turns(&new, &place).unwrap();
        assert_eq!(fs::read_to_string(place.join(PARTIAL)).unwrap(), "new");
        assert_eq!(fs::read_to_string(new.join(PARTIAL)).unwrap(), "place");
        // Restoring works after the first rename, and after the second.
        fs::rename(&place, &old).unwrap();
        restore(&place).unwrap();
        assert_eq!(fs::read_to_string(place.join(PARTIAL)).unwrap(), "new");
        fs::rename(&new, &old).unwrap();
        restore(&place).unwrap();
        assert!(place.exists() && !old.exists());
        // A folder without a marker belongs to the user, and is not touched.
        fs::rename(&place, &old).unwrap();
        fs::remove_file(old.join(PARTIAL)).unwrap();
        restore(&place).unwrap();
        assert!(old.exists());
    }
}
