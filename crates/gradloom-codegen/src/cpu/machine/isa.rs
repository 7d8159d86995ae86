//! Instruction sets that routines are assembled for.

/// An instruction set with vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VectorIsa {
    /// WebAssembly with vectors of 128 bits.
    Simd128,
    /// x86-64 with AVX2: vectors of 256 bits.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL: vectors of 512 bits.
    Avx512,
}

impl VectorIsa {
    /// Returns `true` if there is an instruction for
    /// [`BinaryInst::Scale`](crate::cpu::lanes::BinaryInst::Scale).
    pub fn scales(self) -> bool {
        self == Self::Avx512
    }

    /// Returns `true` if there are instructions that compare unsigned numbers and convert them from and to
    /// floats.
    pub fn has_unsigned(self) -> bool {
        self != Self::Avx2
    }

    /// Returns `true` if there are stores past the caches.
    pub fn streams(self) -> bool {
        self != Self::Simd128
    }
}
