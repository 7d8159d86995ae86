//! Access to regular files that never blocks on another process and reads at most a limit.
//!
//! In: a path. Out: a file handle, the file's bytes, or an error that names the kind of file found instead.
//! Invariant: no call waits for another process, as opening a named pipe does; reads stop at the limit,
//! since a device may be endless; the open handle is checked, so a file that is replaced in between is
//! detected.

use std::error::Error;
use std::fmt;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Maximum length of a file name in bytes, on most file systems.
const LONGEST: usize = 255;

/// Returns the path of a sibling file: the name of `path` followed by `ending`. A name that would be too long
/// is replaced with a hash of it.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    if name.len() + ending.len() > LONGEST {
        // FNV-1a, so that two long names in one folder do not collide.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix);
        name = format!(".gradloom-{hash:016x}").into();
    }
    name.push(ending);
    path.with_file_name(name)
}

/// Reason for the rejection of a file, contained in the [`io::Error`]s of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The path refers to this kind of file instead of a regular one.
    NotRegular(&'static str),
    /// The `.partial` file, through which the file is replaced, is not a regular file.
    PartialNotRegular(&'static str),
    /// The file is larger than this number of bytes.
    TooLarge(u64),
}

impl Refusal {
    /// Returns the refusal that an error contains, if any.
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }

    /// Converts the refusal of a `.partial` file to one of the file it replaces.
    pub fn beside(self) -> Self {
        match self {
            Self::NotRegular(what) => Self::PartialNotRegular(what),
            other => other,
        }
    }

    /// Returns a suggestion to fix the problem.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::NotRegular(_) => "put a regular file in its place, or name another one",
            Self::PartialNotRegular(_) => "remove what has its name with .partial behind it",
            Self::TooLarge(_) => "check that this is the file you meant",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegular(what) => write!(f, "it is {what}, not a regular file"),
            Self::PartialNotRegular(what) => write!(f, "its .partial file is {what}, not a regular file"),
            Self::TooLarge(limit) => write!(f, "it has more than {limit} bytes"),
        }
    }
}

impl Error for Refusal {}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal {
            Refusal::NotRegular("a directory") => ErrorKind::IsADirectory,
            Refusal::NotRegular(_) | Refusal::PartialNotRegular(_) => ErrorKind::InvalidInput,
            Refusal::TooLarge(_) => ErrorKind::FileTooLarge,
        };
        io::Error::new(kind, refusal)
    }
}

/// Opens a regular file with the given options.
///
/// # Errors
/// Returns an error of the system, or a [`Refusal`] if the path refers to a pipe, a device, a socket or a
/// directory.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Check before opening, because opening a device can have side effects. The file may not exist yet.
    match fs::metadata(path) {
        Ok(found) => check(found.file_type())?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The file may be replaced between the two checks; `O_NONBLOCK` keeps `open` from blocking on a pipe
    // then, and has no effect on regular files.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NONBLOCK);
    let file = options.open(path)?;
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// Opens a regular file for reading.
///
/// # Errors
/// Same as [`open`].
pub fn open_to_read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// Replaces the content of a regular file, creating the file if necessary.
///
/// # Errors
/// Returns an error if [`open`] fails, or an error of writing.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = open(path, OpenOptions::new().write(true).create(true).truncate(true))?;
    io::Write::write_all(&mut file, bytes)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// Returns an error if [`open`] fails, a [`Refusal`] if the file is larger than `limit`,
/// [`ErrorKind::OutOfMemory`] if there is not enough memory, or an error of reading.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_rest(&open_to_read(path)?, &mut bytes, limit)?;
    Ok(bytes)
}

/// Reads a regular file of at most `limit` bytes as text.
///
/// # Errors
/// Returns an error if [`read`] fails, or [`ErrorKind::InvalidData`] if the text is not valid UTF-8.
pub fn read_to_string(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not text in UTF-8"))
}

/// Appends the rest of an open file to `bytes`, which may grow to at most `limit` bytes.
///
/// # Errors
/// Returns a [`Refusal`] if the file is larger, [`ErrorKind::OutOfMemory`] if there is not enough memory, or
/// an error of reading.
pub fn read_rest(file: &File, bytes: &mut Vec<u8>, limit: u64) -> io::Result<()> {
    let known = bytes.len() as u64;
    let size = file.metadata()?.len();
    if size > limit {
        return Err(Refusal::TooLarge(limit).into());
    }
    let left = usize::try_from(size.saturating_sub(known)).map_err(|_| ErrorKind::OutOfMemory)?;
    bytes.try_reserve_exact(left).map_err(|_| ErrorKind::OutOfMemory)?;
    // Files in `/proc` report a size of 0, and others may grow, so one byte more than allowed is requested to
    // detect a larger file.
    file.take((limit - known.min(limit)).saturating_add(1)).read_to_end(bytes)?;
    if bytes.len() as u64 > limit { Err(Refusal::TooLarge(limit).into()) } else { Ok(()) }
}

fn check(found: FileType) -> io::Result<()> {
    if found.is_file() { Ok(()) } else { Err(Refusal::NotRegular(name(found)).into()) }
}

#[cfg(unix)]
fn name(found: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match found {
        _ if found.is_dir() => "a directory",
        _ if found.is_fifo() => "a named pipe",
        _ if found.is_socket() => "a socket",
        _ if found.is_char_device() || found.is_block_device() => "a device",
        _ => "something else",
    }
}

#[cfg(not(unix))]
fn name(found: FileType) -> &'static str {
    if found.is_dir() { "a directory" } else { "a device or a pipe" }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn refusal<T: fmt::Debug>(result: io::Result<T>) -> Refusal {
        Refusal::of(&result.unwrap_err()).expect("a refusal")
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let link = folder.path().join("link");
        symlink(&pipe, &link).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        for (path, what) in [
            (pipe.as_path(), "a named pipe"),
            (&link, "a named pipe"),
            (&folder.path().join("socket"), "a socket"),
            (Path::new("/dev/zero"), "a device"),
            (folder.path(), "a directory"),
        ] {
            assert_eq!(refusal(read(path, 9)), Refusal::NotRegular(what), "{}", path.display());
            assert_eq!(refusal(write(path, b"x")), Refusal::NotRegular(what), "{}", path.display());
        }
        let error = read(&pipe, 9).unwrap_err();
        assert_eq!(error.to_string(), "it is a named pipe, not a regular file");
    }

    #[test]
    fn links_that_lead_nowhere_are_the_systems_errors() {
        let folder = tempfile::tempdir().unwrap();
        let (nowhere, circle) = (folder.path().join("nowhere"), folder.path().join("circle"));
        symlink(folder.path().join("missing"), &nowhere).unwrap();
        symlink(&circle, &circle).unwrap();
        assert_eq!(read(&nowhere, 9).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(Refusal::of(&read(&circle, 9).unwrap_err()).is_none());
    }

    #[test]
    fn a_file_is_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"a longer text").unwrap();
        write(&path, b"text").unwrap();
        assert_eq!(
            (read(&path, 4).unwrap(), read_to_string(&path, u64::MAX).unwrap()),
            (b"text".to_vec(), "text".into())
        );
        assert_eq!(refusal(read(&path, 3)), Refusal::TooLarge(3));
        let mut bytes = Vec::new();
        let file = open_to_read(&path).unwrap();
        (&file).take(2).read_to_end(&mut bytes).unwrap();
        read_rest(&file, &mut bytes, 4).unwrap();
        assert_eq!(bytes, b"text");
        // A sparse file of 1 TiB is rejected by its size, without reading it.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(refusal(read(&path, 1 << 30)), Refusal::TooLarge(1 << 30));
        // Files in `/proc` must be read although they report a size of 0.
        #[cfg(target_os = "linux")]
        {
            let status = Path::new("/proc/self/status");
            assert!(!read(status, 1 << 20).unwrap().is_empty());
            assert_eq!(refusal(read(status, 10)), Refusal::TooLarge(10));
        }
    }
}

/// Returns the error for a file that could not be written; its previous content is unchanged.
pub fn unwritable(file: &str, source: &io::Error) -> gradloom_core::error::Error {
    let remedy = match source.kind() {
        _ if let Some(refusal) = Refusal::of(source) => refusal.remedy(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free some space or raise the limit"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "choose a folder that you may write to"
        }
        ErrorKind::NotFound => "make the folder first",
        _ => "check the folder and the disk",
    };
    let message = format!("{file}: cannot be written: {source}");
    gradloom_core::error::Error::new(gradloom_core::error::ErrorKind::File, message).help(remedy)
}
