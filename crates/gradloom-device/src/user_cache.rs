//! Files in the user's cache folder, which save work and can be recreated at any time.
//!
//! In: names and bytes. Out: complete files or none. Invariant: no process reads a partially written file.

use crate::regular_file;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns gradloom's folder in the user's cache folder, by the conventions of the system; `None` if no
/// environment variable specifies one.
pub fn folder() -> Option<PathBuf> {
    user_folder(|name| std::env::var_os(name)).map(|folder| folder.join("gradloom"))
}

/// Replaces a file, creating its folders as needed.
///
/// # Errors
/// Returns the error of the file system; the file is then unchanged.
pub fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    // A temporary file is written first and then renamed. Its name is unique to the process and the thread.
    let mut beside = file.as_os_str().to_owned();
    beside.push(format!(".{}.{:?}.tmp", std::process::id(), std::thread::current().id()));
    let written = regular_file::write(beside.as_ref(), bytes).and_then(|()| fs::rename(&beside, file));
    if written.is_err() {
        // Ignore an error, because a leftover temporary file does no harm.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Computes a 64-bit hash like FNV-1a, but over 8-byte words. It detects accidental damage, not malicious
/// changes.
pub fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    let start = step(0xcbf2_9ce4_8422_2325, bytes.len() as u64);
    bytes.chunks(8).fold(start, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        step(hash, u64::from_le_bytes(word))
    })
}

fn user_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // Ignore relative paths, as the XDG specification requires.
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(folder) = absolute("XDG_CACHE_HOME") {
        return Some(folder);
    }
    if cfg!(windows) {
        return absolute("LOCALAPPDATA");
    }
    let home = absolute("HOME")?;
    Some(if cfg!(target_os = "macos") { home.join("Library/Caches") } else { home.join(".cache") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_follows_the_systems_conventions() {
        let set = |pairs: &'static [(&str, &str)]| {
            move |name: &str| pairs.iter().find(|pair| pair.0 == name).map(|pair| OsString::from(pair.1))
        };
        assert_eq!(user_folder(set(&[])), None);
        if cfg!(target_os = "linux") {
            assert_eq!(user_folder(set(&[("HOME", "/home/a")])), Some("/home/a/.cache".into()));
            assert_eq!(user_folder(set(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/home/a")])), Some("/c".into()));
            assert_eq!(
                user_folder(set(&[("XDG_CACHE_HOME", "c"), ("HOME", "/home/a")])),
                Some("/home/a/.cache".into())
            );
        }
    }

    #[test]
    fn every_bit_and_the_length_count() {
        let bytes: Vec<u8> = (0..37).map(|i| i * 7).collect();
        let whole = hash(&bytes);
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(hash(&damaged), whole, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_ne!(hash(&bytes[..length]), whole);
        }
        assert_ne!(hash(&[0; 8]), hash(&[0; 7]));
    }
}
