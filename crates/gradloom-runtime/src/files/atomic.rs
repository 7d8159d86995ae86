//! Replaces files atomically.

use gradloom_device::regular_file::{self, Refusal};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Replaces the contents of a file with the output of `contents`. Readers see either the old file or the new
/// one, even after a crash or a power failure.
///
/// The bytes are written to `NAME.partial` in the same folder (see [`regular_file::beside`]), which is
/// flushed to the disk and renamed; then the folder is flushed. A partial file left by an interrupted write
/// is overwritten by the next one.
///
/// # Errors
/// Returns the system's error; the old file is then unchanged, and the partial file is removed.
pub fn replace_file(path: &Path, contents: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let partial = regular_file::beside(path, ".partial");
    // Opening fails if the name belongs to something other than a file, which is then not removed.
    let file = regular_file::open(&partial, OpenOptions::new().write(true).create(true).truncate(true))
        .map_err(|error| Refusal::of(&error).map_or(error, |refusal| refusal.beside().into()))?;
    let written = write_synced(file, contents).and_then(|()| fs::rename(&partial, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    sync_folder(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

fn write_synced(file: File, contents: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    contents(&mut writer)?;
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

/// Flushes the folder, which makes the rename durable. Windows has no such call, but journals renames.
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

    /// A name that leaves no room for the suffix is shortened, to the same partial name in each attempt.
    #[test]
    fn the_longest_names_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["a".repeat(255), format!("{}b", "a".repeat(254)), "c".repeat(248), "d".repeat(247)];
        let partials: std::collections::BTreeSet<_> =
            names.iter().map(|name| regular_file::beside(&folder.path().join(name), ".partial")).collect();
        assert_eq!(partials.len(), names.len());
        assert!(partials.contains(&folder.path().join(format!("{}.partial", names[3]))));
        partials.iter().for_each(|partial| fs::write(partial, b"a leftover of a crash").unwrap());
        for name in &names {
            replace_file(&folder.path().join(name), |w| w.write_all(name.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), *name);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), names.len(), "no partial file stays");
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = replace_file(&folder.path().join("no/file"), |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
