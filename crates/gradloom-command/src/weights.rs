//! Types for a model's stored matrices, as named on the command line.

use gradloom::ir::BlockFormat;
use gradloom::nn::Stored;

/// Type in which the matrices of a model are stored.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Weights {
    /// 32 bits
    F32,
    /// 16 bits
    F16,
    /// 16 bits with the range of f32
    Bf16,
    /// 8.5 bits, in blocks
    #[value(name = "q8_0")]
    Q8_0,
    /// 4.5 bits, in blocks
    #[value(name = "q4_0")]
    Q4_0,
}

impl Weights {
    /// Returns the library's value; `None` for f32.
    pub(crate) fn stored(self) -> Option<Stored> {
        match self {
            Self::F32 => None,
            Self::F16 => Some(Stored::F16),
            Self::Bf16 => Some(Stored::BF16),
            Self::Q8_0 => Some(Stored::Blocks(BlockFormat::Q8_0)),
            Self::Q4_0 => Some(Stored::Blocks(BlockFormat::Q4_0)),
        }
    }
}
