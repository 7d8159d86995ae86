//! Proof that no instruction accesses memory outside of the frame, the constants, and the elements of
//! operands.
//!
//! In: each instruction as it is emitted, and the columns of the current row, from the current column on,
//! that the loops guarantee to exist ([`Window`]). Out: the first instruction that may access any other
//! memory. The instructions themselves show which register contains the address of which operand.

use super::avx512::LAST;
use super::encoding::{COLUMN, FRAME, POOL};
use crate::cpu::machine::frame::Frame;
use crate::cpu::machine::numbers::OperandNumber;
use iced_x86::{Code, Instruction, OpKind, Register};

/// Columns of the current row that instructions may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// No columns.
    None,
    /// This number of columns, from the current one on.
    Columns(usize),
    /// The columns of the lanes in `LAST`, from the current one on.
    Last,
}

/// The memory that instructions may access, and the first violation.
pub struct Bounds {
    frame_bytes: usize,
    pool_bytes: usize,
    /// Size of an element of each operand, in bytes.
    operands: Vec<u8>,
    /// General-purpose registers that contain an operand's address, each with the operand.
    addresses: Vec<(Register, OperandNumber)>,
    pub window: Window,
    pub broken: Option<String>,
}

impl Bounds {
    pub fn new(frame_bytes: usize, pool_bytes: usize, operands: &[u8]) -> Self {
        Self {
            frame_bytes,
            pool_bytes,
            operands: operands.to_vec(),
            addresses: Vec::new(),
            window: Window::None,
            broken: None,
        }
    }

    /// Marks a jump target, at which the contents of scratch registers are unknown.
    pub fn join(&mut self) {
        self.forget(Register::RAX);
    }

    fn forget(&mut self, register: Register) {
        self.addresses.retain(|&(known, _)| known != register);
    }

    /// Checks an instruction, and tracks which registers contain the addresses of operands.
    pub fn check(&mut self, instruction: &Instruction) {
        if self.broken.is_none()
            && instruction.memory_base() != Register::None
            && let Err(what) = self.access(instruction)
        {
            self.broken = Some(format!("{what}: {instruction:?}"));
        }
        if instruction.op0_kind() == OpKind::Register {
            // Writing EAX changes RAX, which is the only address register whose lower half is also written.
            let written = match instruction.op0_register() {
                Register::EAX => Register::RAX,
                register => register,
            };
            self.forget(written);
            if instruction.code() == Code::Mov_r64_rm64
                && instruction.memory_base() == FRAME
                && let Some(operand) = self.operand_at(instruction.memory_displacement64())
            {
                self.addresses.push((written, operand));
            }
        }
    }

    /// Returns the operand whose address is at this offset of the frame.
    fn operand_at(&self, displacement: u64) -> Option<OperandNumber> {
        let number = |&number: &OperandNumber| Frame::operand(number) as u64 == displacement;
        (0..self.operands.len()).map(OperandNumber::new).find(number)
    }

    fn access(&self, instruction: &Instruction) -> Result<(), &'static str> {
        // `lea` accesses no memory, and prefetches may access any address.
        if matches!(
            instruction.code(),
            Code::Lea_r64_m | Code::Lea_r32_m | Code::Prefetchw_m8 | Code::Prefetcht1_m8
        ) {
            return Ok(());
        }
        let bytes = instruction.memory_size().size();
        let start = usize::try_from(instruction.memory_displacement64()).map_err(|_| "a negative offset")?;
        let end = start.checked_add(bytes).ok_or("an offset that is too large")?;
        let inside = |end: usize, room: usize, what| if end <= room { Ok(()) } else { Err(what) };
        match (instruction.memory_base(), instruction.memory_index()) {
            (FRAME, Register::None) => inside(end, self.frame_bytes, "memory outside of the frame"),
            // RAX is the index of an element in a buffer, from which a whole vector may be accessed.
            (FRAME, Register::RAX) if instruction.memory_index_scale() == 4 => {
                inside(start + 4 * 64, self.frame_bytes, "memory outside of the frame")
            }
            (POOL, Register::None) => inside(end, self.pool_bytes, "memory outside of the constants"),
            (base, index) => {
                let known = self.addresses.iter().find(|(register, _)| *register == base);
                let &(_, operand) = known.ok_or("an address that is no operand's")?;
                let element = usize::from(self.operands[operand.index()]);
                match index {
                    Register::None => inside(end, element, "memory outside of a row's element"),
                    COLUMN if instruction.memory_index_scale() as usize == element => {
                        self.columns(instruction, start, end, element)
                    }
                    _ => Err("an index that is no column"),
                }
            }
        }
    }

    /// Checks an access to the bytes `start..end`, counted from the current column's element.
    fn columns(
        &self,
        instruction: &Instruction,
        start: usize,
        end: usize,
        element: usize,
    ) -> Result<(), &'static str> {
        match self.window {
            Window::Columns(columns) if end <= columns * element => Ok(()),
            Window::Last if start == 0 && instruction.op_mask() == LAST => Ok(()),
            _ => Err("columns that the row may not have"),
        }
    }
}
