//! Creating, opening and locking a run's folder.

use crate::failure::{Failure, Result};
use crate::new_folder::{NewFolder, PARTIAL, missing, remove_empty};
use crate::output::quoted;
use gradloom::runtime::files::{ShardWriter, remove_shards, replace_file};
use gradloom::runtime::regular_file::{self, Refusal};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// File with the state from which a run resumes. A run completes it first, and its presence makes a folder a
/// run.
pub(crate) const STATE: &str = "state.safetensors";
/// File with only the weights.
pub(crate) const MODEL: &str = "model.safetensors";
/// File that is locked while a process writes to the folder.
const LOCK: &str = ".lock";
/// Files that may remain of a run killed before it had a state.
const REMAINS: [&str; 3] = [LOCK, "state.safetensors.partial", PARTIAL];

/// Files that a run writes before its first state: the tokenizer, unless its tokens are bytes, and the
/// generation settings of the model that it started from.
pub(crate) const TOKENIZER: [&str; 6] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "tokenizer.json.partial",
    "tokenizer_config.json.partial",
    "generation_config.json.partial",
];

/// A run's folder. Unless it was opened [`within`](Self::within) another or its file system has no locks, it
/// is locked until this value is dropped.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    _lock: Option<File>,
    /// Folders created for the run's folder, innermost first.
    made: Vec<PathBuf>,
}

impl RunFolder {
    /// Creates the folder of a new run: the given one, or `runs/PRESET-N` with the first free N.
    pub(crate) fn create(given: Option<&Path>, preset: &str) -> Result<Self> {
        let Some(path) = given else {
            let parent = Path::new("runs");
            let mut made = missing(parent);
            let path = numbered(parent, preset)?;
            made.insert(0, path.clone());
            return Self::locked(path, made);
        };
        Self::check_free(path)?;
        let made = Self::make(path)?;
        let folder = Self::locked(path.to_path_buf(), made)?;
        // Check again, because another process may have started and finished a run here before this one got
        // the lock.
        Self::check_free(path)?;
        Ok(folder)
    }

    /// Creates a folder and returns the parts of its path that were missing, innermost first.
    fn make(path: &Path) -> Result<Vec<PathBuf>> {
        let made = missing(path);
        match fs::create_dir_all(path) {
            Ok(()) => Ok(made),
            Err(error) => {
                remove_empty(&made);
                Err(unusable(path, &error))
            }
        }
    }

    /// Checks that a folder can be created, before there is anything to write.
    pub(crate) fn check_possible(path: &Path) -> Result<()> {
        Self::make(path).map(|made| remove_empty(&made))
    }

    /// Locks a new folder, or removes it if that fails.
    fn locked(path: PathBuf, made: Vec<PathBuf>) -> Result<Self> {
        match Self::lock(path) {
            Ok(folder) => Ok(Self { made, ..folder }),
            Err(failure) => {
                remove_empty(&made);
                Err(failure)
            }
        }
    }

    /// Wraps a new folder, which has its own lock, as the folder of a run.
    pub(crate) fn within(folder: &NewFolder) -> Self {
        Self { path: folder.path().to_path_buf(), _lock: None, made: Vec::new() }
    }

    /// Removes what [`create`](Self::create) created, for a run that failed to start. A folder with other
    /// files remains.
    pub(crate) fn undo(self) {
        for name in [LOCK].iter().chain(&TOKENIZER) {
            let _ = fs::remove_file(self.path.join(name));
        }
        remove_shards(&self.path.join(STATE));
        remove_empty(&self.made);
    }

    /// Returns `true` if a folder contains a run.
    pub(crate) fn has_run(path: &Path) -> bool {
        path.join(STATE).symlink_metadata().is_ok()
    }

    /// Returns an error for a folder that contains a run, or files other than the remains of one.
    pub(crate) fn check_free(path: &Path) -> Result<()> {
        let name = path.display();
        if Self::has_run(path) {
            return Err(Failure::usage(format!("{name}: there is a run in this folder already"))
                .help("choose another folder"));
        }
        let mut names = match fs::read_dir(path) {
            Ok(entries) => entries
                .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
                .collect::<io::Result<Vec<_>>>()
                .map_err(|error| unusable(path, &error))?,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(unusable(path, &error));
            }
            // Report this error later, when the folder is created.
            Err(_) => return Ok(()),
        };
        // A tokenizer or a configuration belongs to the user, unless other files show that a run was started
        // here or a model was being moved here.
        let has = |name: &str| names.iter().any(|found| found == name);
        let (begun, moved) = (has(LOCK), path.join(PARTIAL).exists());
        let remains = |name: &str| {
            REMAINS.contains(&name)
                || ShardWriter::is_file_of(name, STATE)
                || (begun || moved) && TOKENIZER.contains(&name)
                || moved && name == "config.json"
        };
        names.retain(|name| !remains(name));
        names.sort();
        let Some(first) = names.first() else { return Ok(()) };
        let more = match names.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let inside = quoted(&path.join("run").display().to_string());
        Err(Failure::usage(format!("{name}: the folder is not empty and no run: it has {first}{more}"))
            .help(format!("name a folder that is empty or not there yet, such as {inside}")))
    }

    /// Opens the folder of an existing run.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path.is_file() {
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            return Err(Failure::usage(format!("--resume {}: this is a file", path.display()))
                .help(format!("give the run's folder: --resume {}", quoted(&folder.display().to_string()))));
        }
        let refused = |what: &str| {
            Failure::usage(format!("--resume {}: {what}", path.display()))
                .help("give the folder of a run of `gradloom train`")
        };
        if !path.is_dir() {
            return Err(refused("there is no such folder"));
        }
        if !path.join(STATE).exists() {
            return Err(refused("there is no state.safetensors in it"));
        }
        Self::lock(path.to_path_buf())
    }

    /// Locks the folder, since two processes that write to it would mix their runs. The system releases the
    /// lock when the process ends, even by a crash.
    fn lock(path: PathBuf) -> Result<Self> {
        let name = path.join(LOCK);
        let file = regular_file::open(&name, OpenOptions::new().write(true).create(true).truncate(false));
        let file = file.map_err(|error| {
            // Name the file if it is a pipe or the like, and otherwise the folder, which cannot be written.
            unusable(if Refusal::of(&error).is_some() { &name } else { &path }, &error)
        })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _lock: Some(file), made: Vec::new() }),
            Err(TryLockError::WouldBlock) => Err(Failure::failed(format!(
                "{}: another gradloom is writing to this folder",
                path.display()
            ))
            .help("wait for it to end, or choose another folder")),
            // Continue without a lock on network file systems that do not support locks.
            Err(TryLockError::Error(_)) => Ok(Self { path, _lock: None, made: Vec::new() }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Replaces a text file in the folder.
    pub(crate) fn write_text(&self, name: &str, text: &str) -> Result<()> {
        let path = self.file(name);
        replace_file(&path, |file| file.write_all(text.as_bytes())).map_err(|error| unusable(&path, &error))
    }
}

/// Creates the first folder PARENT/PRESET-N that does not exist; of two simultaneous processes, one gets the
/// next number.
fn numbered(parent: &Path, preset: &str) -> Result<PathBuf> {
    fs::create_dir_all(parent).map_err(|error| unusable(parent, &error))?;
    let mut number = 1u32;
    loop {
        let path = parent.join(format!("{preset}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(unusable(&path, &error)),
        }
    }
}

/// Returns the failure for a folder or file that cannot be written, with a remedy for the likely causes.
pub(crate) fn unusable(path: &Path, error: &io::Error) -> Failure {
    if let Some(link) = broken_link(path) {
        let (path, link) = (path.display(), link.display());
        return Failure::failed(format!("{path}: cannot be written: {link} is a link that leads nowhere"))
            .help("make what it leads to, or remove the link");
    }
    let help = match error.kind() {
        _ if let Some(refusal) = Refusal::of(error) => refusal.remedy(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a folder that you may write to"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "free some space, or choose a folder on another disk"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a part of the path is a file: choose another folder"
        }
        _ => "choose another folder",
    };
    Failure::failed(format!("{}: cannot be written: {error}", path.display())).help(help)
}

/// Returns the longest prefix of a path that is a dangling link.
pub(crate) fn broken_link(path: &Path) -> Option<&Path> {
    path.ancestors().find(|part| part.is_symlink() && !part.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_run_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        drop(RunFolder::create(Some(&path), "tiny").unwrap());
        drop(RunFolder::create(Some(&path), "tiny").expect("a folder without a run is used"));
        fs::write(path.join(STATE), "").unwrap();
        let failure = format!("{:?}", RunFolder::create(Some(&path), "tiny").unwrap_err());
        assert!(failure.contains("there is a run in this folder already"), "{failure}");
        assert!(RunFolder::open(&path).is_ok());
        assert!(RunFolder::open(folder.path()).is_err(), "nothing to resume");
    }

    #[test]
    fn other_peoples_folders_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for (name, expected) in
            [("notes.txt", "it has notes.txt"), (MODEL, "it has model.safetensors and 1 more")]
        {
            fs::write(folder.path().join(name), "precious").unwrap();
            let failure = format!("{:?}", RunFolder::create(Some(folder.path()), "tiny").unwrap_err());
            assert!(failure.contains("usage: true") && failure.contains(expected), "{failure}");
            assert!(!folder.path().join(LOCK).exists(), "nothing was added");
        }
    }

    #[test]
    fn what_a_killed_beginning_leaves_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        REMAINS.iter().chain(&TOKENIZER).for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        assert!(RunFolder::create(Some(folder.path()), "tiny").is_ok());
        [LOCK, PARTIAL].iter().for_each(|name| fs::remove_file(folder.path().join(name)).unwrap());
        let failure = format!("{:?}", RunFolder::create(Some(folder.path()), "tiny").unwrap_err());
        assert!(failure.contains("it has generation_config.json and 5 more"), "{failure}");
    }

    #[test]
    fn a_number_is_given_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut paths: Vec<PathBuf> = std::thread::scope(|scope| {
            let starts: Vec<_> =
                (0..8).map(|_| scope.spawn(|| numbered(folder.path(), "tiny").unwrap())).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        paths.sort();
        let expected = (1..=8).map(|n| folder.path().join(format!("tiny-{n}"))).collect::<Vec<_>>();
        assert_eq!(paths, expected);
    }

    #[test]
    fn one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunFolder::create(Some(folder.path()), "tiny").unwrap();
        let failure = format!("{:?}", RunFolder::create(Some(folder.path()), "tiny").unwrap_err());
        assert!(failure.contains("another gradloom is writing"), "{failure}");
        drop(first);
        assert!(RunFolder::create(Some(folder.path()), "tiny").is_ok());
    }
}
