//! Distinguishes paths to token files from paths to text.
//!
//! In: paths as the user gave them. Out: the files for training and evaluation, or `None` if the paths lead
//! to text. Invariant: a folder counts as one of token files only if its files have llm.c's or nanoGPT's
//! names, so an unrelated `.bin` file does not turn a folder of text into tokens.

use crate::data::DataError;
use crate::data::files::matches;
use std::fs;
use std::path::{Path, PathBuf};

/// Paths of token files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardPaths {
    /// Files for training, in order.
    pub training: Vec<PathBuf>,
    /// Files for evaluation: `val.bin`, `NAME_val.bin` and `NAME_val_000000.bin`. May be empty.
    pub held_out: Vec<PathBuf>,
}

impl ShardPaths {
    /// Finds the token files in `paths`.
    ///
    /// A path is a file or pattern that ends in `.bin`, or a folder that contains `train.bin`,
    /// `NAME_train.bin` or `NAME_train_000001.bin`. Returns `None` if the paths lead to text.
    ///
    /// # Errors
    /// Returns an error if some paths lead to text and others to token files, or if a pattern matches
    /// nothing.
    pub fn find<P: AsRef<str>>(paths: &[P]) -> Result<Option<Self>, DataError> {
        let mut all = Self::default();
        let mut is_text = false;
        for path in paths {
            let (given, path) = (path.as_ref(), Path::new(path.as_ref()));
            let files = match () {
                () if path.is_dir() => in_folder(path)?,
                () if !is_shard(path) => Vec::new(),
                () if path.exists() || !given.contains(['*', '?', '[']) => vec![path.to_path_buf()],
                () => matches(given)?,
            };
            let is_mixed = files.is_empty() != is_text && path != Path::new(paths[0].as_ref());
            if is_mixed {
                return Err(DataError::Mixed { path: path.to_path_buf() });
            }
            is_text = files.is_empty();
            for file in files {
                let part = if has_part(&file, "val") { &mut all.held_out } else { &mut all.training };
                if !part.contains(&file) {
                    part.push(file);
                }
            }
        }
        Ok((!is_text && !paths.is_empty()).then_some(all))
    }

    /// Returns the folder of the first file, which may also contain its tokenizer.
    pub fn folder(&self) -> Option<&Path> {
        let first = self.training.first().or(self.held_out.first())?;
        first.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
    }
}

fn is_shard(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "bin")
}

/// Returns `true` if `part`, such as `train`, is one of the words of the file's stem, which are separated by
/// underscores.
fn has_part(path: &Path, part: &str) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.split('_').any(|word| word == part)
}

/// Returns the token files in a folder, sorted by name, or an empty list if no file is for training.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let unreadable = |source| DataError::Unreadable { path: folder.to_path_buf(), source };
    let entries =
        fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(unreadable)?;
    let mut files: Vec<PathBuf> =
        entries.iter().map(fs::DirEntry::path).filter(|path| is_shard(path)).collect();
    files.retain(|path| has_part(path, "train") || has_part(path, "val"));
    files.sort();
    let is_of_tokens = files.iter().any(|path| has_part(path, "train"));
    Ok(if is_of_tokens { files } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_tokens_from_text() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
        for name in [
            "a/train.bin",
            "a/val.bin",
            "a/input.txt",
            "b/x_val_000000.bin",
            "b/x_train_000002.bin",
            "b/x_train_000001.bin",
            "c/weights.bin",
            "c/a.txt",
            "d/odd.bin",
        ] {
            fs::create_dir_all(Path::new(&place(name)).parent().unwrap()).unwrap();
            fs::write(place(name), "x").unwrap();
        }
        let find = |paths: &[&str]| {
            let paths: Vec<_> = paths.iter().map(|path| place(path)).collect();
            ShardPaths::find(&paths)
        };
        let found = |training: &[&str], held_out: &[&str]| {
            let paths = |names: &[&str]| names.iter().map(|name| PathBuf::from(place(name))).collect();
            Some(ShardPaths { training: paths(training), held_out: paths(held_out) })
        };
        assert_eq!(find(&["a"]).unwrap(), found(&["a/train.bin"], &["a/val.bin"]));
        let llm_c = found(&["b/x_train_000001.bin", "b/x_train_000002.bin"], &["b/x_val_000000.bin"]);
        assert_eq!(find(&["b"]).unwrap(), llm_c);
        assert_eq!(find(&["b/*.bin"]).unwrap(), llm_c);
        assert_eq!(find(&["b/x_train_*.bin", "b"]).unwrap(), llm_c, "a file counts once");
        assert_eq!(find(&["d/odd.bin"]).unwrap(), found(&["d/odd.bin"], &[]));
        assert_eq!(find(&["c"]).unwrap(), None);
        assert_eq!(find(&["c/a.txt", "c"]).unwrap(), None);
        assert_eq!(find(&[]).unwrap(), None);
        assert!(matches!(find(&["a", "c/a.txt"]), Err(DataError::Mixed { .. })));
        assert!(matches!(find(&["c/a.txt", "a"]), Err(DataError::Mixed { .. })));
        assert!(matches!(find(&["b/z*.bin"]), Err(DataError::NoMatch { .. })));
        assert_eq!(llm_c.unwrap().folder(), Some(folder.path().join("b").as_path()));
    }
}
