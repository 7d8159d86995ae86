//! Detects the kind of a file from its first bytes.
//!
//! In: the beginning of a file. Out: its kind, a description for messages, and instructions for converting it
//! to tensors. Invariant: the file's name is not used.

use gradloom_device::regular_file;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;

/// Number of bytes at the beginning of a file from which its kind is detected.
pub const BEGINNING: u64 = 1 << 16;

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// No bytes.
    Empty,
    /// Tensors in safetensors format.
    Safetensors,
    /// A model in GGUF format.
    Gguf,
    /// A model in one of llama.cpp's formats before GGUF.
    Ggml,
    /// A zip archive of `torch.save` (PyTorch 1.6 and later) or of TorchScript.
    TorchZip,
    /// Pickles of `torch.save` before PyTorch 1.6.
    TorchPickle,
    /// Another Python pickle.
    Pickle,
    /// A NumPy zip archive, written by `numpy.savez`.
    Npz,
    /// A NumPy array, written by `numpy.save`.
    Npy,
    /// A Keras 3 zip archive.
    Keras,
    /// Another zip archive.
    Zip,
    /// HDF5, the format of Keras weights before version 3.
    Hdf5,
    /// A tar archive.
    Tar,
    /// A file compressed by gzip, xz, zstd, bzip2 or 7z.
    Packed(&'static str),
    /// A model in ONNX format.
    Onnx,
    /// A model in TensorFlow Lite format.
    TensorFlowLite,
    /// A Git LFS pointer in place of a large file.
    LfsPointer,
    /// An HTML page, as left by a failed download.
    Html,
    /// JSON, or the beginning of it.
    Json,
    /// Other UTF-8 text.
    Text,
    /// Bytes of none of these kinds.
    Other,
}

impl FileKind {
    /// Detects the kind of a file from its first [`BEGINNING`] bytes, or from all of them if it is shorter.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Empty;
        }
        if is_safetensors(bytes) {
            return Self::Safetensors;
        }
        let magic =
            MAGIC.iter().find(|(at, magic, _)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
        if let Some(&(_, _, kind)) = magic {
            return if kind == Self::Zip { zip(bytes) } else { kind };
        }
        if is_pickle(bytes) {
            return Self::Pickle;
        }
        // ONNX begins with `ir_version` and the name of the program that exported the model.
        if matches!(bytes, [8, 1..=32, 0x12, 1..=64, first, ..] if first.is_ascii_alphanumeric()) {
            return Self::Onnx;
        }
        match text(bytes) {
            Some(text) => text_kind(text),
            None => Self::Other,
        }
    }

    /// Detects the kind of a regular file.
    ///
    /// # Errors
    /// Returns the system's error, or a [`Refusal`](gradloom_device::regular_file::Refusal) if the path does
    /// not lead to a file.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut beginning = Vec::new();
        regular_file::open_to_read(path)?.take(BEGINNING).read_to_end(&mut beginning)?;
        Ok(Self::of(&beginning))
    }

    /// Returns `true` if the first bytes determine the kind with certainty. A file of tokens or other numbers
    /// does not begin with them by chance.
    pub fn is_certain(self) -> bool {
        use FileKind::{Ggml, Gguf, Hdf5, Keras, Npy, Npz, Safetensors, TorchPickle, TorchZip, Zip};
        [Safetensors, Gguf, Ggml, TorchZip, TorchPickle, Npz, Npy, Keras, Zip, Hdf5].contains(&self)
    }

    /// Returns `true` if a file of this kind can be read as text.
    pub fn may_be_text(self) -> bool {
        matches!(self, Self::Empty | Self::LfsPointer | Self::Html | Self::Json | Self::Text | Self::Other)
    }

    /// Returns the steps that convert a file of this kind to one that gradloom can read.
    pub fn remedy(self) -> &'static str {
        self.texts().1
    }

    /// Returns the kind's name and its remedy.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Empty => ("empty", "get the file once more: nothing of it arrived"),
            Self::Safetensors => ("a safetensors file", CHECK),
            Self::Gguf => ("a GGUF file", CHECK),
            Self::Ggml => (
                "a GGML file, the form before GGUF",
                "convert the model once more, by a llama.cpp that writes GGUF",
            ),
            Self::TorchZip => ("a zip archive of PyTorch's torch.save", LOAD_BY_TORCH),
            Self::TorchPickle => ("pickles of PyTorch's torch.save before version 1.6", LOAD_BY_TORCH),
            Self::Pickle => (
                "a Python pickle",
                "convert it in Python: read it by the program that wrote it, and write its tensors by \
                 save_file of safetensors.numpy",
            ),
            Self::Npz => ("a NumPy archive (.npz)", LOAD_BY_NUMPY),
            Self::Npy => ("a NumPy array (.npy)", LOAD_BY_NUMPY),
            Self::Keras => ("a Keras archive (.keras)", LOAD_BY_KERAS),
            Self::Zip => ("a zip archive", UNPACK),
            Self::Hdf5 => ("an HDF5 file", LOAD_BY_KERAS),
            Self::Tar => ("a tar archive", UNPACK),
            Self::Packed(by) => (by, UNPACK),
            Self::Onnx => ("an ONNX model", EXPORT),
            Self::TensorFlowLite => ("a TensorFlow Lite model", EXPORT),
            Self::LfsPointer => ("a pointer of Git LFS", "get the file itself: git lfs pull"),
            Self::Html => ("a web page (HTML)", "get the file itself: this is the page of a web site"),
            Self::Json => ("JSON", CHECK),
            Self::Text => ("text", CHECK),
            Self::Other => ("of no kind that is known here", CHECK),
        }
    }
}

// Remedies for several kinds.
const CHECK: &str = "check that this is the file you meant";
const EXPORT: &str = "export the model that it was made of as safetensors, which has the weights by name";
const LOAD_BY_KERAS: &str = "convert it in Python: read it by Keras or h5py, and write its weights by \
                             save_file of safetensors.numpy";
const LOAD_BY_NUMPY: &str = "convert it in Python: read it by numpy.load, and write its arrays by save_file \
                             of safetensors.numpy";
const LOAD_BY_TORCH: &str = "convert it in Python: read it by torch.load, and write its tensors by save_file \
                             of safetensors.torch";
const UNPACK: &str = "unpack it first";

/// Prints the kind with its article: `a NumPy archive (.npz)`.
impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packed = if matches!(self, Self::Packed(_)) { "packed by " } else { "" };
        write!(f, "{packed}{}", self.texts().0)
    }
}

/// Magic numbers, with their offsets and kinds.
const MAGIC: [(usize, &[u8], FileKind); 20] = [
    (0, b"GGUF", FileKind::Gguf),
    // GGUF in big-endian byte order.
    (0, b"FUGG", FileKind::Gguf),
    (0, b"lmgg", FileKind::Ggml),
    (0, b"fmgg", FileKind::Ggml),
    (0, b"tjgg", FileKind::Ggml),
    (0, b"PK\x03\x04", FileKind::Zip),
    // Empty zip archives.
    (0, b"PK\x05\x06", FileKind::Zip),
    // Protocol 2, then the magic number that `torch.save` wrote first.
    (0, b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19", FileKind::TorchPickle),
    (0, b"\x93NUMPY", FileKind::Npy),
    (0, b"\x89HDF\r\n\x1a\n", FileKind::Hdf5),
    (0, b"\x1f\x8b", FileKind::Packed("gzip")),
    (0, b"\xfd7zXZ\0", FileKind::Packed("xz")),
    (0, b"\x28\xb5\x2f\xfd", FileKind::Packed("zstd")),
    (4, b"1AY&SY", FileKind::Packed("bzip2")),
    (0, b"7z\xbc\xaf\x27\x1c", FileKind::Packed("7z")),
    (257, b"ustar", FileKind::Tar),
    (4, b"TFL3", FileKind::TensorFlowLite),
    (0, b"version https://git-lfs.github.com/spec", FileKind::LfsPointer),
    // HDF5 after a user block.
    (512, b"\x89HDF\r\n\x1a\n", FileKind::Hdf5),
    (1024, b"\x89HDF\r\n\x1a\n", FileKind::Hdf5),
];

/// Detects a length and a JSON header; either may be damaged.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, header)) = bytes.split_first_chunk() else { return false };
    let has = |word: &[u8]| header.windows(word.len()).any(|window| window == word);
    let is_small = u64::from_le_bytes(*length) <= super::header::LARGEST;
    (is_small && header.first() == Some(&b'{')) || has(b"\"data_offsets\"")
}

/// Returns the kind of a zip archive, from the names of its first files.
fn zip(bytes: &[u8]) -> FileKind {
    const FILE: &[u8] = b"PK\x03\x04";
    let starts = bytes.windows(FILE.len()).enumerate().filter(|(_, window)| *window == FILE);
    for (at, _) in starts {
        let length =
            bytes.get(at + 26..at + 28).map_or(0, |two| usize::from(two[0]) | usize::from(two[1]) << 8);
        let Some(name) = bytes.get(at + 30..at + 30 + length) else { break };
        let name = String::from_utf8_lossy(name);
        if name.ends_with(".npy") {
            return FileKind::Npz;
        }
        // Ignore the name of the folder that contains PyTorch's files, as in `archive/data.pkl`.
        let within = name.split_once('/').map_or("", |(_, within)| within);
        let of_torch = ["data.pkl", "constants.pkl", "byteorder", "version", ".format_version", ".data/"];
        if of_torch.iter().any(|part| within.starts_with(part)) {
            return FileKind::TorchZip;
        }
        if name.ends_with(".weights.h5") || name == "metadata.json" {
            return FileKind::Keras;
        }
    }
    FileKind::Zip
}

/// Detects the beginning of a pickle: of protocol 2 or later, or of a dictionary or list in an older
/// protocol.
fn is_pickle(bytes: &[u8]) -> bool {
    let old: [&[u8]; 6] = [b"(dp0\n", b"(dp1\n", b"(lp0\n", b"(lp1\n", b"}q\0", b"]q\0"];
    match bytes {
        // An opcode or a frame follows the protocol number.
        [0x80, 2..=5, op, ..] => b"}](cX\x8a\x95JKM\x8c)".contains(op),
        _ => old.iter().any(|begin| bytes.starts_with(begin)),
    }
}

/// Returns the bytes as text, without a truncated last character.
fn text(bytes: &[u8]) -> Option<&str> {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let is_control = |c: char| c.is_control() && !c.is_whitespace() && !"\u{8}\u{1b}".contains(c);
    (!text.is_empty() && !text.chars().any(is_control)).then_some(text)
}

fn text_kind(text: &str) -> FileKind {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let lower: String = start.chars().take(16).collect::<String>().to_ascii_lowercase();
    if lower.starts_with("<!doctype html") || lower.starts_with("<html") {
        return FileKind::Html;
    }
    if !start.starts_with(['{', '[']) {
        return FileKind::Text;
    }
    // Test for characters that can follow the bracket in JSON, but not in a table or a link that begins with
    // a bracket.
    let rest = start[1..].trim_start();
    let word = ["true", "false", "null"].iter().any(|word| rest.starts_with(word));
    let is_json = match start.as_bytes()[0] {
        b'{' => rest.is_empty() || rest.starts_with(['"', '}']),
        _ => {
            rest.is_empty() || word || rest.starts_with(|c: char| "\"{[]-".contains(c) || c.is_ascii_digit())
        }
    };
    if is_json { FileKind::Json } else { FileKind::Text }
}
