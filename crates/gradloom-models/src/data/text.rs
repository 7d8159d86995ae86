//! Text in memory, and the check that a file is text.

use gradloom_runtime::files::{BEGINNING, FileKind};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Text to train on.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// The bytes of all sources, one after the other; a source that does not end in a newline gets one.
    pub bytes: Vec<u8>,
    /// The files, in the order of their bytes.
    pub sources: Vec<PathBuf>,
    /// Files of folders and patterns that were left out.
    pub skipped: Vec<Skipped>,
}

/// A file that a folder or pattern led to and that holds no text.
#[derive(Clone, Debug, PartialEq)]
pub struct Skipped {
    /// The path of the file.
    pub path: PathBuf,
    /// The reason, in a few words.
    pub reason: String,
}

impl Text {
    /// Makes a text that comes from no file, such as the one built into a program.
    pub fn built_in(text: &str) -> Self {
        Self { bytes: text.as_bytes().to_vec(), sources: Vec::new(), skipped: Vec::new() }
    }

    /// Returns the SHA-256 of the bytes in hexadecimal: two runs with one fingerprint read the same data.
    pub fn fingerprint(&self) -> String {
        Sha256::digest(&self.bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Share of bytes that belong to no text above which a file counts as binary. Latin-1 prose has some 5% of
/// such bytes.
const LARGEST_ODD_SHARE: f64 = 0.3;

/// Returns evidence that these bytes are no text, if they are none: the kind of file that they are, a NUL
/// byte, or too many control characters and broken UTF-8 sequences.
pub(super) fn binary_evidence(bytes: &[u8]) -> Option<String> {
    let evidence = odd_bytes(bytes)?;
    let kind = FileKind::of(&bytes[..bytes.len().min(BEGINNING as usize)]);
    Some(if kind.may_be_text() { evidence } else { format!("it is {kind}") })
}

fn odd_bytes(bytes: &[u8]) -> Option<String> {
    if let Some(position) = bytes.iter().position(|&byte| byte == 0) {
        return Some(format!("a NUL byte at offset {position}"));
    }
    let is_control = |byte: &&u8| **byte < 32 && !matches!(**byte, b'\t' | b'\n' | b'\r' | 8 | 12 | 27);
    let controls = bytes.iter().filter(is_control).count();
    let broken: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    let share = (controls + broken) as f64 / bytes.len().max(1) as f64;
    (share > LARGEST_ODD_SHARE).then(|| format!("{:.0}% of it is no character", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_byte_is_found() {
        assert_eq!(binary_evidence(b"abc\0def").unwrap(), "a NUL byte at offset 3");
        assert_eq!(binary_evidence(b"\x93NUMPY\x01\0v\0").unwrap(), "it is a NumPy array (.npy)");
    }

    #[test]
    fn text_in_any_script_passes() {
        for text in ["plain\r\n\ttext\n", "Größe, naïve, Ωμέγα, 文字, 🧵", ""] {
            assert_eq!(binary_evidence(text.as_bytes()), None, "{text}");
        }
        let latin1 = b"stra\xdfe und gr\xfc\xdfe aus k\xf6ln an alle freunde\n";
        assert_eq!(binary_evidence(latin1), None);
    }

    #[test]
    fn noise_does_not_pass() {
        let noise: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 | 1).collect();
        assert!(binary_evidence(&noise).unwrap().ends_with("is no character"));
    }

    /// SHA-256 of "abc": FIPS 180-4, example of one block.
    #[test]
    fn fingerprint_is_sha256() {
        assert_eq!(
            Text::built_in("abc").fingerprint(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
