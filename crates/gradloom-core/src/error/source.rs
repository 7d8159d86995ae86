//! Reads the source line of an origin when an error is printed.
//!
//! Returns the line without its line break and trailing whitespace, or `None` if there is no file system, no
//! such file or no such line. A missing line is not an error, since the excerpt is optional.

use crate::ir::Origin;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

pub(super) fn line(origin: &Origin) -> Option<String> {
    // Browsers have no files, so the file code is omitted there.
    if cfg!(target_family = "wasm") {
        return None;
    }
    let file = open(Path::new(&origin.file))?;
    nth_line(BufReader::new(file), origin.line)
}

/// Opens a source file. The compiler reports paths relative to the workspace root, but tests and programs
/// often run in a subdirectory, so the ancestors of the current directory are tried as well, nearest first.
fn open(path: &Path) -> Option<File> {
    if path.is_absolute() {
        return open_file(path);
    }
    let folder = std::env::current_dir().ok()?;
    folder.ancestors().find_map(|folder| open_file(&folder.join(path)))
}

fn open_file(path: &Path) -> Option<File> {
    // Skip directories, which some systems can open but not read.
    path.is_file().then(|| File::open(path).ok())?
}

fn nth_line(reader: impl BufRead, line: u32) -> Option<String> {
    let index = line.checked_sub(1)?;
    let bytes = reader.split(b'\n').nth(index as usize)?.ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // Strip the byte order mark, which rustc does not count as a column. Only the first line can start with
    // one.
    Some(text.strip_prefix('\u{feff}').unwrap_or(&text).trim_end().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(file: &str, line: u32) -> Origin {
        Origin { file: file.to_string(), line, column: 1 }
    }

    #[test]
    fn lines_count_from_one() {
        let text = "\u{feff}first\r\nsecond  \n\nfourth".as_bytes();
        assert_eq!(nth_line(text, 0), None);
        assert_eq!(nth_line(text, 1).as_deref(), Some("first"));
        assert_eq!(nth_line(text, 2).as_deref(), Some("second"));
        assert_eq!(nth_line(text, 3).as_deref(), Some(""));
        assert_eq!(nth_line(text, 4).as_deref(), Some("fourth"));
        assert_eq!(nth_line(text, 5), None);
    }

    #[test]
    fn bytes_that_are_not_utf8_do_not_hide_the_line() {
        assert_eq!(nth_line(&b"a \xff b"[..], 1).as_deref(), Some("a \u{fffd} b"));
    }

    /// Tests run in the directory of the crate, while `file!()` is relative to the workspace.
    #[test]
    fn a_path_of_the_compiler_is_found_from_a_folder_below() {
        let found = line(&origin(file!(), line!()));
        assert_eq!(found.as_deref(), Some("        let found = line(&origin(file!(), line!()));"));
    }

    #[test]
    fn what_cannot_be_read_is_nothing() {
        assert_eq!(line(&origin("no/such/file.rs", 1)), None);
        assert_eq!(line(&origin("src", 1)), None);
        assert_eq!(line(&origin("", 1)), None);
        assert_eq!(line(&origin("https://example.org/model.js", 1)), None);
    }
}
