//! Element types of GGUF tensors.
//!
//! In: the type number in a file. Out: a [`TensorType`] with its block size. Invariant: the sizes are those
//! of the structures in `ggml-common.h`, also for types whose elements cannot be read, so that a tensor of
//! any type in the table can be located.

use std::fmt;

/// Defines the enum and its table in one place. A line `name = number: elements, bytes;` contains the numbers
/// of elements and bytes per block.
macro_rules! types {
    ($($name:ident = $id:literal: $elements:literal, $bytes:literal;)*) => {
        /// An element type, with ggml's name and number. Elements are stored in blocks, which do not cross
        /// rows.
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum TensorType {
            $($name = $id,)*
        }

        impl TensorType {
            /// Returns the type with this number, if ggml has one.
            pub(super) fn of(id: u32) -> Option<Self> {
                Some(match id {
                    $($id => Self::$name,)*
                    _ => return None,
                })
            }

            /// Returns the numbers of elements and bytes in a block.
            pub const fn block(self) -> (usize, usize) {
                match self {
                    $(Self::$name => ($elements, $bytes),)*
                }
            }
        }
    };
}

types! {
    F32 = 0: 1, 4;
    F16 = 1: 1, 2;
    Q4_0 = 2: 32, 18;
    Q4_1 = 3: 32, 20;
    Q5_0 = 6: 32, 22;
    Q5_1 = 7: 32, 24;
    Q8_0 = 8: 32, 34;
    Q8_1 = 9: 32, 36;
    Q2_K = 10: 256, 84;
    Q3_K = 11: 256, 110;
    Q4_K = 12: 256, 144;
    Q5_K = 13: 256, 176;
    Q6_K = 14: 256, 210;
    Q8_K = 15: 256, 292;
    IQ2_XXS = 16: 256, 66;
    IQ2_XS = 17: 256, 74;
    IQ3_XXS = 18: 256, 98;
    IQ1_S = 19: 256, 50;
    IQ4_NL = 20: 32, 18;
    IQ3_S = 21: 256, 110;
    IQ2_S = 22: 256, 82;
    IQ4_XS = 23: 256, 136;
    I8 = 24: 1, 1;
    I16 = 25: 1, 2;
    I32 = 26: 1, 4;
    I64 = 27: 1, 8;
    F64 = 28: 1, 8;
    IQ1_M = 29: 256, 56;
    BF16 = 30: 1, 2;
    TQ1_0 = 34: 256, 54;
    TQ2_0 = 35: 256, 66;
    MXFP4 = 39: 32, 17;
    NVFP4 = 40: 64, 36;
    Q1_0 = 41: 128, 18;
    Q2_0 = 42: 64, 18;
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
