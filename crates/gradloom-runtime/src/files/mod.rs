//! Saves and loads tensors in safetensors files.
//!
//! In: files written by gradloom, PyTorch, or other programs; or named tensors and notes. Out: [`Weights`],
//! from which a session loads tensors ([`Load`]), and files that any safetensors reader can open. Invariant:
//! a file under its final name is complete, because it is written under another name, flushed to the disk,
//! and renamed; the same contents are written as the same bytes; a file with an invalid structure is rejected
//! when it is opened, as is a file of gradloom whose names, shapes, notes or data were changed.
//!
//! The header's metadata in gradloom's files has one key, `gradloom`: a JSON object with `sha256`, the
//! checksum, and `entries`, the writer's notes.

mod adapters;
mod atomic;
mod bytes;
mod checkpoint;
mod checksum;
mod convert;
mod error;
mod header;
mod kind;
mod load;
mod save;
mod shards;
mod weights;

pub use atomic::replace_file;
pub use bytes::Bytes;
pub use checkpoint::Restored;
pub use convert::transposed;
pub use error::Differences;
pub use kind::{BEGINNING, FileKind};
pub use load::{Load, LoadReport, Source};
pub use save::{TensorBytes, swapped, write, write_for_transformers};
pub use shards::{ShardWriter, remove_shards};
pub use weights::{Found, Weights};

use std::collections::BTreeMap;

/// Notes in a file, by name.
pub type Entries = BTreeMap<String, String>;

/// Key of gradloom's notes in the header's metadata. There is only one key because the safetensors crate
/// writes several in no fixed order.
const METADATA_KEY: &str = "gradloom";

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
