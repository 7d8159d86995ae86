//! Assembles routines for an instruction set.

use super::{Builder, Routine, VectorIsa};
use std::collections::HashMap;
use std::sync::Arc;

/// Machine code of a routine, or a WebAssembly module with it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct MachineCode {
    pub bytes: Vec<u8>,
    /// Size in bytes of the frame that a call requires.
    pub frame_bytes: usize,
}

/// Assembler that assembles equal routines once.
#[derive(Debug)]
pub struct Assembler {
    isa: VectorIsa,
    known: HashMap<Routine, Option<Arc<MachineCode>>>,
}

impl Assembler {
    /// Creates an assembler for an instruction set.
    pub fn new(isa: VectorIsa) -> Self {
        Self { isa, known: HashMap::new() }
    }

    /// Returns the instruction set.
    pub fn isa(&self) -> VectorIsa {
        self.isa
    }

    /// Returns a builder of instructions for a routine.
    pub fn builder(&self) -> Builder {
        Builder::new(self.isa)
    }

    /// Returns the code of a routine, or `None` if it cannot be assembled.
    pub fn assemble(&mut self, routine: Routine) -> Option<Arc<MachineCode>> {
        if let Some(code) = self.known.get(&routine) {
            return code.clone();
        }
        let code = assemble(&routine, self.isa)
            .map(|(bytes, frame_bytes)| Arc::new(MachineCode { bytes, frame_bytes }));
        self.known.insert(routine, code.clone());
        code
    }
}

fn assemble(routine: &Routine, isa: VectorIsa) -> Option<(Vec<u8>, usize)> {
    match isa {
        #[cfg(feature = "wasm-loops")]
        VectorIsa::Simd128 => super::wasm::assemble(routine),
        #[cfg(target_arch = "x86_64")]
        VectorIsa::Avx2 | VectorIsa::Avx512 => {
            // An error is a bug in this compiler that the checks found, so the code is not run.
            super::x86::assemble(routine, isa)?
                .inspect_err(|what| debug_assert!(false, "machine code that is wrong: {what}\n{routine:?}"))
                .ok()
        }
        #[allow(unreachable_patterns, reason = "a build has the instruction sets of its target")]
        _ => None,
    }
}
