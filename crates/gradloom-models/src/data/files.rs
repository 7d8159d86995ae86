//! Text from files, folders and glob patterns.

use super::ignored::Ignored;
use super::text::binary_evidence;
use super::{DataError, Skipped, Text};
use gradloom_runtime::regular_file;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

/// Reads all text files in `paths`. A path is a file, a folder or a pattern such as `src/**/*.rs`. In a
/// folder, hidden files and files ignored by its `.gitignore` or `.ignore` are left out.
///
/// Files are read in the order of `paths`, and sorted by name within a folder or pattern, so the same files
/// yield the same text on every machine. A file that occurs twice is read once. Within folders and patterns,
/// empty and binary files are skipped and listed in the result; a file named directly must be text.
///
/// # Errors
/// Returns an error if a path does not exist, a pattern is malformed, a file cannot be read, a file named
/// directly is empty or binary, or a folder or pattern contains no text.
pub fn load<P: AsRef<str>>(paths: &[P]) -> Result<Text, DataError> {
    let mut reader = Reader {
        text: Text { bytes: Vec::new(), sources: Vec::new(), skipped: Vec::new() },
        seen: HashSet::new(),
    };
    for path in paths {
        reader.add(path.as_ref())?;
    }
    Ok(reader.text)
}

/// A file that may be text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    /// Path of the file.
    pub path: PathBuf,
    /// True if the file was named directly rather than found in a folder or by a pattern.
    pub named: bool,
}

impl TextFile {
    /// Opens the file if it begins like text, and returns it with its size in bytes. Returns `None` if the
    /// file was not named directly and is empty or binary.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if it was named directly and is empty or binary.
    pub fn open(&self) -> Result<Option<(fs::File, u64)>, DataError> {
        let path = self.path.clone();
        let unreadable = |source| DataError::Unreadable { path: self.path.clone(), source };
        let mut file = regular_file::open_to_read(&path).map_err(unreadable)?;
        let size = file.metadata().map_err(unreadable)?.len();
        let mut beginning = Vec::new();
        (&file).take(BEGINNING).read_to_end(&mut beginning).map_err(unreadable)?;
        file.rewind().map_err(unreadable)?;
        match binary_evidence(&beginning) {
            _ if size == 0 && self.named => Err(DataError::Empty { path }),
            Some(evidence) if self.named => Err(DataError::Binary { path, evidence }),
            None if size > 0 => Ok(Some((file, size))),
            _ => Ok(None),
        }
    }
}

/// Returns the files that [`load`] would examine for `paths`, without reading them.
///
/// # Errors
/// Returns an error if a path does not exist, a pattern is malformed or matches nothing, or a folder cannot
/// be read.
pub fn text_files<P: AsRef<str>>(paths: &[P]) -> Result<Vec<TextFile>, DataError> {
    let (mut files, mut seen) = (Vec::new(), HashSet::new());
    for given in paths {
        let found = found(given.as_ref())?;
        let named = found.is_none();
        for path in found.unwrap_or_else(|| vec![PathBuf::from(given.as_ref())]) {
            let real = path.canonicalize();
            let real = real.map_err(|source| DataError::Unreadable { path: path.clone(), source })?;
            if seen.insert(real) {
                files.push(TextFile { path, named });
            }
        }
    }
    Ok(files)
}

/// Returns the files in a folder or matching a pattern, or `None` if `given` is a file.
fn found(given: &str) -> Result<Option<Vec<PathBuf>>, DataError> {
    let path = Path::new(given);
    if path.is_dir() {
        let mut files = Vec::new();
        collect(path, &mut Ignored::default(), &mut files)?;
        Ok(Some(files))
    } else if path.exists() && !path.is_file() {
        Err(DataError::NoFile { path: path.to_path_buf() })
    } else if path.exists() {
        Ok(None)
    } else if given.contains(['*', '?', '[']) {
        matches(given).map(Some)
    } else {
        Err(DataError::Missing { path: path.to_path_buf() })
    }
}

struct Reader {
    text: Text,
    seen: HashSet<PathBuf>,
}

impl Reader {
    fn add(&mut self, given: &str) -> Result<(), DataError> {
        let path = Path::new(given);
        let Some(files) = found(given)? else { return self.read(path, true) };
        let sources = self.text.sources.len();
        let seen = self.seen.len();
        for file in &files {
            self.read(file, false)?;
        }
        let nothing_new = self.text.sources.len() == sources;
        // If `seen` has not grown, all files were already read for an earlier path, which is not an error.
        if nothing_new && (files.is_empty() || self.seen.len() > seen) {
            return Err(DataError::NoText { path: path.to_path_buf(), files: files.len() });
        }
        Ok(())
    }

    fn read(&mut self, path: &Path, named: bool) -> Result<(), DataError> {
        let unreadable = |source| DataError::Unreadable { path: path.to_path_buf(), source };
        if !self.seen.insert(path.canonicalize().map_err(unreadable)?) {
            return Ok(());
        }
        let bytes = contents(path).map_err(unreadable)?;
        let problem = match binary_evidence(&bytes) {
            _ if bytes.is_empty() => Some(DataError::Empty { path: path.to_path_buf() }),
            Some(evidence) => Some(DataError::Binary { path: path.to_path_buf(), evidence }),
            None => None,
        };
        match problem {
            Some(error) if named => return Err(error),
            Some(DataError::Empty { .. }) => self.skip(path, "empty".to_string()),
            Some(DataError::Binary { evidence, .. }) => self.skip(path, evidence),
            _ => {
                self.text.bytes.extend_from_slice(&bytes);
                if !bytes.ends_with(b"\n") {
                    self.text.bytes.push(b'\n');
                }
                self.text.sources.push(path.to_path_buf());
            }
        }
        Ok(())
    }

    fn skip(&mut self, path: &Path, reason: String) {
        self.text.skipped.push(Skipped { path: path.to_path_buf(), reason });
    }
}

/// Maximum size of a file in bytes. Its tokens take four times as much memory.
const LARGEST: u64 = 64 << 30;
/// Number of bytes read to detect binary files, which suffice for most of them.
const BEGINNING: u64 = 1 << 16;

/// Returns the contents of a file. Only the beginning is read if it contains a NUL byte, as a disk image's
/// does.
fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let file = regular_file::open_to_read(path)?;
    let mut bytes = Vec::new();
    (&file).take(BEGINNING).read_to_end(&mut bytes)?;
    if !bytes.contains(&0) {
        regular_file::read_rest(&file, &mut bytes, LARGEST)?;
    }
    Ok(bytes)
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Collects all files in a folder and its subfolders except hidden and ignored ones, sorted by path. Symbolic
/// links to folders are not followed, so there are no cycles.
fn collect(folder: &Path, ignored: &mut Ignored, files: &mut Vec<PathBuf>) -> Result<(), DataError> {
    let unreadable = |source| DataError::Unreadable { path: folder.to_path_buf(), source };
    let mut entries =
        fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(unreadable)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    ignored.enter(folder)?;
    for entry in entries {
        let (path, is_folder) = (entry.path(), entry.file_type().map_err(unreadable)?.is_dir());
        if is_hidden(&entry.file_name()) || ignored.leaves_out(&path, is_folder) {
            continue;
        }
        if is_folder {
            collect(&path, ignored, files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    ignored.leave();
    Ok(())
}

/// Returns the files that a pattern matches, sorted by path.
pub(super) fn matches(pattern: &str) -> Result<Vec<PathBuf>, DataError> {
    let wrong = |error: glob::PatternError| DataError::Pattern {
        pattern: pattern.to_string(),
        reason: format!("{} at character {}", error.msg, error.pos + 1),
    };
    glob::Pattern::new(pattern).map_err(wrong)?;
    // Search from the folder that precedes the first path component with a special character.
    let special = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
    let start = pattern[..special].rfind(std::path::is_separator).map_or(0, |at| at + 1);
    let names = pattern[start..].split(std::path::is_separator).filter(|name| !name.is_empty());
    let mut search = Search {
        names: names.map(glob::Pattern::new).collect::<Result<_, _>>().map_err(wrong)?,
        seen: HashSet::new(),
        files: Vec::new(),
    };
    search.below(Path::new(&pattern[..start]), 0)?;
    search.files.sort();
    match search.files.is_empty() {
        true => Err(DataError::NoMatch { pattern: pattern.to_string() }),
        false => Ok(search.files),
    }
}

struct Search {
    /// One pattern per path component; `**` matches any number of folders.
    names: Vec<glob::Pattern>,
    /// Visited folders with the index of the next component to match. Each pair is searched once because
    /// symbolic links may form cycles. Paths are canonical.
    seen: HashSet<(PathBuf, usize)>,
    files: Vec<PathBuf>,
}

impl Search {
    /// Adds the files in `folder` that match the components from `at` on.
    fn below(&mut self, folder: &Path, at: usize) -> Result<(), DataError> {
        let unreadable = |source| DataError::Unreadable { path: folder.to_path_buf(), source };
        let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let real = match listed.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Ok(real) if !real.is_dir() => return Ok(()),
            real => real.map_err(unreadable)?,
        };
        if !self.seen.insert((real, at)) {
            return Ok(());
        }
        let Some(name) = self.names.get(at).cloned() else { return Ok(()) };
        let any_folders = name.as_str() == "**";
        if any_folders {
            self.below(folder, at + 1)?;
        }
        if matches!(name.as_str(), "." | "..") {
            return self.below(&folder.join(name.as_str()), at + 1);
        }
        let is_last = at + 1 == self.names.len();
        let mut entries =
            fs::read_dir(listed).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(unreadable)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = folder.join(entry.file_name());
            let matched = name.matches(&entry.file_name().to_string_lossy());
            if path.is_dir() {
                match any_folders {
                    true => self.below(&path, at)?,
                    false if matched => self.below(&path, at + 1)?,
                    false => {}
                }
            } else if is_last && matched && !any_folders && path.is_file() {
                self.files.push(path);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn folder(files: &[(&str, &[u8])]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        folder
    }

    fn path(folder: &TempDir, name: &str) -> String {
        folder.path().join(name).to_str().unwrap().to_string()
    }

    #[test]
    fn a_folder_is_read_in_order_without_hidden_and_binary_files() {
        let folder = folder(&[
            ("b.txt", b"second"),
            ("a/z.txt", b"first\n"),
            (".git/config", b"hidden"),
            ("c.bin", b"\0\0"),
            ("d.txt", b""),
        ]);
        let text = load(&[path(&folder, "")]).unwrap();
        assert_eq!(text.bytes, b"first\nsecond\n");
        let skipped: Vec<_> = text.skipped.iter().map(|s| s.reason.as_str()).collect();
        assert_eq!(skipped, ["a NUL byte at offset 0", "empty"]);
    }

    #[test]
    fn ignore_files_of_the_folder_count_and_no_others() {
        let folder = folder(&[
            (".gitignore", b"*.txt\n"),
            ("data/.gitignore", b"*.log\n/out/\n"),
            ("data/a.txt", b"a"),
            ("data/b.log", b"b"),
            ("data/out/c.txt", b"c"),
            ("data/sub/.ignore", b"d.*\n!keep.log\nnot [a pattern\n"),
            ("data/sub/d.txt", b"d"),
            ("data/sub/keep.log", b"kept"),
            ("data/sub/out/e.txt", b"e"),
        ]);
        let text = load(&[path(&folder, "data")]).unwrap();
        assert_eq!(text.bytes, b"a\nkept\ne\n");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("/dev/zero", folder.path().join("data/sub/out/.ignore")).unwrap();
            let error = load(&[path(&folder, "data")]).unwrap_err().to_string();
            assert!(
                error.ends_with("out/.ignore: cannot be read: it is a device, not a regular file"),
                "{error}"
            );
        }
        // Files named directly are read even if they are ignored.
        let named = load(&[path(&folder, "data/b.log"), path(&folder, "data/out/*")]).unwrap();
        assert_eq!(named.bytes, b"b\nc\n");
    }

    #[test]
    fn patterns_cross_folders_and_a_file_counts_once() {
        let folder = folder(&[("x/1.rs", b"one"), ("x/y/2.rs", b"two"), ("x/y/3.md", b"three")]);
        let text = load(&[path(&folder, "x/y/2.rs"), path(&folder, "**/*.rs")]).unwrap();
        assert_eq!(text.bytes, b"two\none\n");
        let again = load(&[path(&folder, "x/1.rs"), path(&folder, "x/1.*")]).unwrap();
        assert_eq!(again.bytes, b"one\n", "a pattern that only repeats files is no error");
    }

    #[cfg(unix)]
    #[test]
    fn links_that_make_cycles_are_followed_once() {
        let folder = folder(&[("x/1.txt", b"one"), ("y/2.txt", b"two")]);
        for name in ["a", "b", "x/c", "y/d"] {
            std::os::unix::fs::symlink(folder.path(), folder.path().join(name)).unwrap();
        }
        for pattern in ["**/*.txt", &"*/".repeat(40), "**/**/**/**/**/*.txt", "a/b/x/c/**/?.txt"] {
            let pattern = if pattern.ends_with('/') { &format!("{pattern}*.txt") } else { pattern };
            let text = load(&[path(&folder, pattern)]).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(text.bytes, b"one\ntwo\n", "{pattern}");
        }
        assert_eq!(load(&[path(&folder, "a/x/*.t?t")]).unwrap().bytes, b"one\n");
        assert_eq!(load(&[path(&folder, "[xy]/../?/2.*")]).unwrap().bytes, b"two\n");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let folder =
            folder(&[("empty", b""), ("binary", b"\x7fELF\0"), ("junk/a.bin", b"\0"), ("dir/.keep", b"")]);
        let message = |name: &str| {
            let given = path(&folder, name);
            let text = load(&[&given]).unwrap_err().to_string();
            text.strip_prefix(&given).unwrap_or_else(|| panic!("{text} does not name {given}")).to_string()
        };
        assert_eq!(message("nothing"), ": no such file or folder");
        assert_eq!(message("empty"), ": the file is empty");
        assert_eq!(message("binary"), ": the file is not text (a NUL byte at offset 4)");
        assert_eq!(message("*.rs"), ": no file matches");
        assert_eq!(message("junk"), ": no text in it (1 files, all of them empty or not text)");
        assert_eq!(message("dir"), ": no text in it (0 files, all of them empty or not text)");
        #[cfg(unix)]
        {
            let socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
            assert_eq!(message("socket"), ": neither a file nor a folder");
            drop(socket);
        }
        assert!(message("a***b").starts_with(": not a pattern: "));
    }
}
