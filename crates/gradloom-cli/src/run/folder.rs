//! Making, opening and locking a run's folder.

use crate::failure::{Failure, Result};
use gradloom_models::checkpoint::replace_file;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// What a resumed run needs. It is the first file that a run completes, and the one that makes a folder a run.
pub(crate) const STATE: &str = "state.safetensors";
/// The weights alone.
pub(crate) const MODEL: &str = "model.safetensors";

const LOCK: &str = ".lock";
/// What a run leaves in its folder.
const WRITTEN: [&str; 6] = [STATE, MODEL, "config.json", "metrics.csv", "loss.svg", "sample.txt"];

/// A run's folder, locked while this value lives.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    _lock: Option<File>,
}

impl RunFolder {
    /// Makes the folder of a new run: the given one, or `runs/PRESET-N` with the first N that is free.
    pub(crate) fn create(given: Option<&Path>, preset: &str) -> Result<Self> {
        let path = match given {
            Some(path) => path.to_path_buf(),
            None => (1u32..)
                .map(|n| Path::new("runs").join(format!("{preset}-{n}")))
                .find(|path| !path.exists())
                .expect("a free number"),
        };
        if path.join(STATE).exists() {
            return Err(Failure::usage(format!(
                "--out {}: there is a run in this folder already",
                path.display()
            ))
            .help(format!("go on with it by --resume {}, or choose another folder", path.display())));
        }
        // Without a lock of ours, files of these names are somebody else's.
        let foreign = WRITTEN.iter().find(|name| path.join(name).exists() && !path.join(LOCK).exists());
        if let Some(name) = foreign {
            return Err(Failure::usage(format!(
                "--out {}: there is a {name} that is not of a run",
                path.display()
            ))
            .help("choose another folder: a run would replace it"));
        }
        fs::create_dir_all(&path).map_err(|error| unusable(&path, &error))?;
        Self::lock(path)
    }

    /// Opens the folder of a run that was begun.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if !path.join(STATE).exists() {
            return Err(Failure::usage(format!(
                "--resume {}: there is no state.safetensors in it",
                path.display()
            ))
            .help("give the folder of a run of `gradloom train`"));
        }
        Self::lock(path.to_path_buf())
    }

    /// Two processes that write one folder would mix their runs. The system lifts the lock when the process ends, however it ends.
    fn lock(path: PathBuf) -> Result<Self> {
        let name = path.join(LOCK);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&name);
        let file = file.map_err(|error| unusable(&path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _lock: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(Failure::failed(format!(
                "{}: another gradloom is writing to this folder",
                path.display()
            ))
            .help("wait for it to end, or choose another folder with --out")),
            // Some network file systems have no locks.
            Err(TryLockError::Error(_)) => Ok(Self { path, _lock: None }),
        }
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Replaces a text file in the folder.
    pub(crate) fn write_text(&self, name: &str, text: &str) -> Result<()> {
        let path = self.file(name);
        replace_file(&path, |file| file.write_all(text.as_bytes())).map_err(|error| unusable(&path, &error))
    }
}

/// A folder or file that cannot be written, with a remedy for the likely reasons.
pub(crate) fn unusable(path: &Path, error: &io::Error) -> Failure {
    let help = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a folder that you may write to with --out"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "free some space, or choose a folder on another disk with --out"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a part of the path is a file: choose another folder with --out"
        }
        _ => "choose another folder with --out",
    };
    Failure::failed(format!("{}: cannot be written: {error}", path.display())).help(help)
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
    fn one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunFolder::create(Some(folder.path()), "tiny").unwrap();
        let failure = format!("{:?}", RunFolder::create(Some(folder.path()), "tiny").unwrap_err());
        assert!(failure.contains("another gradloom is writing"), "{failure}");
        drop(first);
        assert!(RunFolder::create(Some(folder.path()), "tiny").is_ok());
    }
}
