//! Tensors in safetensors files.
//!
//! In: files of ours, of PyTorch, of anyone; or named tensors and notes. Out: [`Weights`], from which a
//! session takes what fits ([`Load`]), and files that any safetensors reader opens. Always holds: a file
//! under its final name is complete (it is written beside, flushed to the disk, and renamed); the same
//! contents give the same bytes; a file whose structure is not sound is refused when it is opened, and one of
//! ours whose names, shapes, notes or data changed since, too.
//!
//! The header's metadata of our files has one key, `gradloom`: a JSON object with `sha256`, the checksum, and
//! `entries`, the writer's notes.

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
mod weights;

pub use atomic::replace_file;
pub use bytes::Bytes;
pub use checkpoint::Restored;
pub use convert::transposed;
pub use error::Differences;
pub use kind::{BEGINNING, FileKind};
pub use load::{Load, LoadReport, Source};
pub use save::{TensorBytes, swapped, write, write_for_transformers};
pub use weights::{Found, Weights};

use std::collections::BTreeMap;

/// Notes in a file: names and texts.
pub type Entries = BTreeMap<String, String>;

/// The key of our notes in the header's metadata. One key only: the safetensors crate keeps several in no
/// fixed order.
const METADATA_KEY: &str = "gradloom";

/// Returns the safetensors name of an element type.
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
