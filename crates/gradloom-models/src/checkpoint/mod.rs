//! Tensors in safetensors files that are written whole or not at all.
//!
//! In: named tensors and metadata. Out: a file that any safetensors reader opens, and [`Checkpoint`] from it
//! again. Always holds: a file under its final name is complete (it is written beside, flushed to the disk,
//! and renamed); the same contents give the same bytes; and a file whose names, shapes, metadata or data
//! changed since is refused when it is opened.
//!
//! The header's metadata has one key, `gradloom`: a JSON object with `sha256`, the checksum, and `entries`,
//! the caller's metadata.

mod atomic;
mod checksum;
mod error;
mod read;
mod write;

pub use atomic::replace_file;
pub use error::CheckpointError;
pub use read::Checkpoint;
pub use write::{TensorBytes, write};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The caller's metadata: names and texts.
pub type Entries = BTreeMap<String, String>;

/// The key of our metadata in the header. One key only: the safetensors crate keeps several in no fixed
/// order.
const METADATA_KEY: &str = "gradloom";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    sha256: String,
    entries: Entries,
}

/// The safetensors name of an element type.
fn safetensors_dtype(dtype: gradloom_core::ir::DType) -> safetensors::Dtype {
    use gradloom_core::ir::DType;
    match dtype {
        DType::F32 => safetensors::Dtype::F32,
        DType::I32 => safetensors::Dtype::I32,
        DType::U32 => safetensors::Dtype::U32,
        DType::Bool => safetensors::Dtype::BOOL,
        DType::F16 => safetensors::Dtype::F16,
        DType::BF16 => safetensors::Dtype::BF16,
        DType::U8 => safetensors::Dtype::U8,
        DType::I64 => safetensors::Dtype::I64,
    }
}
