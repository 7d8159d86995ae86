//! Machine code under construction: consecutive instructions, labels and jumps, followed by a pool of
//! constants.
//!
//! Invariant: all jumps and all references to the pool are resolved in the code that [`Assembler::finish`]
//! returns.

use super::bounds::Bounds;
use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};

/// Converts a number of bytes to the type that instructions take.
pub(super) fn displacement(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("frames and routines are far below 2^63 bytes")
}

/// A position in the code.
#[derive(Clone, Copy)]
pub(super) struct Label(usize);

pub(super) struct Assembler {
    encoder: Encoder,
    length: usize,
    labels: Vec<Option<usize>>,
    /// Fixups: the offset after each 4-byte displacement, and the label that the displacement refers to.
    jumps: Vec<(usize, Label)>,
    pool: Vec<u32>,
    pool_label: Label,
    pub bounds: Bounds,
}

impl Assembler {
    /// Creates an assembler for code with these constants, a frame of this size, and operands with elements
    /// of these sizes.
    pub(super) fn new(pool: Vec<u32>, frame_bytes: usize, operands: &[u8]) -> Self {
        Self {
            encoder: Encoder::new(64),
            length: 0,
            labels: vec![None],
            jumps: Vec::new(),
            bounds: Bounds::new(frame_bytes, 4 * pool.len(), operands),
            pool,
            pool_label: Label(0),
        }
    }

    pub(super) fn push(&mut self, instruction: &Instruction) {
        self.bounds.check(instruction);
        let length = self.encoder.encode(instruction, self.length as u64);
        self.length += length.unwrap_or_else(|error| panic!("gradloom emitted {instruction:?}: {error}"));
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label at the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.length);
        self.bounds.join();
    }

    /// Appends a jump with a 4-byte distance.
    pub(super) fn jump(&mut self, code: Code, to: Label) {
        let jump = Instruction::with_branch(code, self.length as u64).expect("a jump");
        self.push(&jump);
        self.jumps.push((self.length, to));
    }

    /// Appends `register = address of the pool`.
    pub(super) fn load_pool(&mut self, register: Register) {
        let here = MemoryOperand::with_base_displ_size(Register::RIP, displacement(self.length), 4);
        self.push(&Instruction::with2(Code::Lea_r64_m, register, here).expect("an address"));
        self.jumps.push((self.length, self.pool_label));
    }

    /// Returns the code, which runs at any address that is a multiple of 64.
    ///
    /// # Errors
    /// Returns an error if an instruction may access memory outside of its bounds. The error describes the
    /// first such instruction.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, String> {
        if let Some(broken) = self.bounds.broken {
            return Err(broken);
        }
        let mut bytes = self.encoder.take_buffer();
        // Pads with `int3`, which is never executed after a return.
        bytes.resize(bytes.len().next_multiple_of(64), 0xcc);
        self.labels[self.pool_label.0] = Some(bytes.len());
        bytes.extend(self.pool.iter().flat_map(|constant| constant.to_le_bytes()));
        for (end, label) in self.jumps {
            let to = self.labels[label.0].expect("every label was placed");
            let distance =
                i32::try_from(displacement(to) - displacement(end)).expect("routines are far below 2 GB");
            bytes[end - 4..end].copy_from_slice(&distance.to_le_bytes());
        }
        Ok(bytes)
    }
}
