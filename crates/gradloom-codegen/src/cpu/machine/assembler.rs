//! Assembles routines for the machine that compiles them.

use super::Routine;
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
#[derive(Debug, Default)]
pub struct Assembler {
    known: HashMap<Routine, Option<Arc<MachineCode>>>,
}

impl Assembler {
    /// Returns the code of a routine, or `None` if it cannot be assembled for this machine.
    pub fn assemble(&mut self, routine: Routine) -> Option<Arc<MachineCode>> {
        if let Some(code) = self.known.get(&routine) {
            return code.clone();
        }
        let code =
            assemble(&routine).map(|(bytes, frame_bytes)| Arc::new(MachineCode { bytes, frame_bytes }));
        self.known.insert(routine, code.clone());
        code
    }
}

#[cfg(target_arch = "x86_64")]
fn assemble(routine: &Routine) -> Option<(Vec<u8>, usize)> {
    // An error is a bug in this compiler that the checks found, so the code is not run.
    super::x86::assemble(routine)?
        .inspect_err(|what| debug_assert!(false, "machine code that is wrong: {what}\n{routine:?}"))
        .ok()
}

#[cfg(all(target_arch = "wasm32", feature = "wasm-loops"))]
fn assemble(routine: &Routine) -> Option<(Vec<u8>, usize)> {
    super::wasm::assemble(routine)
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "wasm32", feature = "wasm-loops"))))]
fn assemble(_: &Routine) -> Option<(Vec<u8>, usize)> {
    None
}
