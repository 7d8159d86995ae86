//! Inspection of paths that the user named.
//!
//! In: a path. Out: a folder, or a file with its kind. Invariant: the error reports whether a path does not
//! exist, or is neither a file nor a folder.

use crate::failure::{Failure, Result};
use gradloom::runtime::files::FileKind;
use gradloom::runtime::regular_file;
use std::fs;
use std::io;
use std::path::Path;

/// Kind of file system entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Folder,
    File(FileKind),
}

/// Inspects a path; `wanted` is the remedy if nothing exists there.
pub(crate) fn look(path: &Path, wanted: &str) -> Result<Place> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(Place::Folder),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            let message = format!("{}: no such file or folder", path.display());
            return Err(Failure::usage(message).help(wanted));
        }
        Ok(_) | Err(_) => {}
    }
    let kind = FileKind::of_file(path);
    kind.map(Place::File).map_err(|error| Failure::unreadable(path, &error, "check the permissions"))
}

/// Reads a text of at most `limit` bytes; `wanted` is the remedy if the file is not text.
pub(crate) fn read_text(path: &Path, limit: u64, wanted: &'static str) -> Result<String> {
    check_is_text(path, wanted)?;
    regular_file::read_to_string(path, limit).map_err(|error| Failure::unreadable(path, &error, wanted))
}

/// Returns an error for a file that is not text. Accepts a file of unknown kind, because its reader can
/// report the location of the error.
pub(crate) fn check_is_text(path: &Path, wanted: &'static str) -> Result<()> {
    match FileKind::of_file(path) {
        Ok(kind) if !kind.may_be_text() => {
            let message = format!("{}: the file is {kind}, and no text", path.display());
            Err(Failure::usage(message).help(wanted))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::unreadable(path, &error, wanted)),
    }
}

/// Describes the contents of a folder, such as `notes.txt and 3 more`; `None` if it is empty or cannot be
/// read.
pub(crate) fn contents(folder: &Path) -> Option<String> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let first = names.first()?;
    Some(match names.len() - 1 {
        0 => first.clone(),
        more => format!("{first} and {more} more"),
    })
}
