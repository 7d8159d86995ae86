//! Writes files atomically.

use crate::regular_file::{self, Refusal};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Replaces a file by what `contents` writes, so that a reader, a crash or a power cut sees the old file or
/// the new one.
///
/// The bytes go to `NAME.partial` in the same folder, are flushed to the disk and renamed; then the folder is
/// flushed. A partial file that an interruption left behind is overwritten by the next attempt.
///
/// # Errors
/// The system's; the old file is then untouched, and the partial one removed.
pub fn replace_file(path: &Path, contents: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let partial = partial_path(path);
    // What is there under this name and is no file, is not ours to remove.
    let file = regular_file::open(&partial, OpenOptions::new().write(true).create(true).truncate(true))
        .map_err(|error| Refusal::of(&error).map_or(error, |refusal| refusal.beside().into()))?;
    let written = write_synced(file, contents).and_then(|()| fs::rename(&partial, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    sync_folder(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(".partial");
    path.with_file_name(name)
}

fn write_synced(file: File, contents: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    contents(&mut writer)?;
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

/// Makes the rename itself durable. Windows has no such call for folders and journals the rename.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_file_survives_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace_file(&path, |w| w.write_all(b"old")).unwrap();
        let error = replace_file(&path, |w| {
            w.write_all(b"half of the n")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        })
        .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file stays");
    }

    #[test]
    fn a_partial_file_of_a_crash_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(folder.path().join("file.partial"), b"a longer leftover than the new file").unwrap();
        replace_file(&path, |w| w.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = replace_file(&folder.path().join("no/file"), |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
