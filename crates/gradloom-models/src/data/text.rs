//! Text in memory, and the detection of binary files.

use gradloom_runtime::files::{BEGINNING, FileKind};
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Text to train on.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Concatenated contents of all sources. A source that does not end in a newline is terminated by one.
    pub bytes: Vec<u8>,
    /// Files that the text comes from, in order.
    pub sources: Vec<PathBuf>,
    /// Files in folders and patterns that were skipped.
    pub skipped: Vec<Skipped>,
}

/// A file in a folder or pattern that was skipped because it is empty or not text.
#[derive(Clone, Debug, PartialEq)]
pub struct Skipped {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason for skipping the file.
    pub reason: String,
}

impl Text {
    /// Creates a text that comes from no file, such as one that is built into a program.
    pub fn built_in(text: &str) -> Self {
        Self { bytes: text.as_bytes().to_vec(), sources: Vec::new(), skipped: Vec::new() }
    }

    /// Returns the SHA-256 of the bytes in hexadecimal. Runs with equal fingerprints read the same data.
    pub fn fingerprint(&self) -> String {
        Sha256::digest(&self.bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Fraction of bytes untypical of text above which a file counts as binary. Latin-1 prose has about 5% of
/// such bytes.
const LARGEST_ODD_SHARE: f64 = 0.3;

/// Returns evidence that the bytes are not text, or `None` if they are text. The evidence is the kind of
/// file, a NUL byte, or too many control characters and invalid UTF-8 bytes.
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

    /// SHA-256 of "abc" from the one-block example of FIPS 180-4.
    #[test]
    fn fingerprint_is_sha256() {
        assert_eq!(
            Text::built_in("abc").fingerprint(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
