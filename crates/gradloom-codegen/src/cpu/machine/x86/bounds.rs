//! Proof that no instruction accesses memory outside of the frame, the constants, and the elements of
//! operands.
//!
//! In: each instruction as it is emitted, and the columns of the current row, from the current column on,
//! that the loops guarantee to exist ([`Window`]). Out: the first instruction that may access any other
//! memory. The instructions themselves show which register contains the address of which operand.

use super::encoding::{COLUMN, END, FRAME, POOL};
use super::{avx2, avx512};
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
    /// The columns of the lanes in the mask of the last elements, from the current one on.
    Last,
}

/// Number of a row's last elements that are stored in a frame's buffer and combined one by one.
const LAST_ELEMENTS: usize = 16;

/// The memory that instructions may access, and the first violation.
pub struct Bounds {
    frame_bytes: usize,
    pool_bytes: usize,
    /// Size of an element of each operand, in bytes.
    operands: Vec<u8>,
    /// General-purpose registers that contain an operand's address, each with the operand.
    addresses: Vec<(Register, OperandNumber)>,
    /// True if [`avx2::LAST`] contains the mask of the last elements.
    has_last: bool,
    /// Upper bound of RAX; `None` if none is known.
    index_below: Option<usize>,
    /// Number that [`END`] was compared with by the previous instruction.
    compared: Option<usize>,
    /// Minimum number of last elements where there are any.
    least_last: usize,
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
            has_last: false,
            index_below: None,
            compared: None,
            least_last: 1,
            window: Window::None,
            broken: None,
        }
    }

    /// Marks a jump target, at which the contents of scratch registers are unknown.
    pub fn join(&mut self) {
        self.has_last = false;
        self.compared = None;
        self.least_last = 1;
        self.forget(Register::RAX);
    }

    fn forget(&mut self, register: Register) {
        if register == Register::RAX {
            self.index_below = None;
        }
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
            if matches!(written, Register::XMM2 | avx2::LAST) {
                self.has_last = instruction.code() == Code::VEX_Vmovaps_ymm_ymmm256
                    && instruction.memory_base() == FRAME
                    && instruction.memory_index() == Register::None
                    && instruction.memory_displacement64() == Frame::LAST as u64;
            }
            if instruction.code() == Code::And_rm32_imm8 && written == Register::RAX {
                self.index_below = usize::try_from(instruction.immediate(1)).ok().map(|mask| mask + 1);
            }
            if instruction.code() == Code::Mov_r64_rm64
                && instruction.memory_base() == FRAME
                && let Some(operand) = self.operand_at(instruction.memory_displacement64())
            {
                self.addresses.push((written, operand));
            }
        }
        self.count(instruction);
    }

    /// Tracks comparisons of [`END`], the number of a row's last elements, and the jumps that follow them.
    fn count(&mut self, instruction: &Instruction) {
        let compared = self.compared.take();
        let is_of_end = instruction.op0_kind() == OpKind::Register
            && matches!(instruction.op0_register(), END | Register::R8D);
        match (instruction.code(), compared) {
            (Code::Cmp_rm64_imm8, _) if is_of_end => {
                self.compared = usize::try_from(instruction.immediate(1)).ok();
            }
            (Code::Jbe_rel32_64, Some(number)) => self.least_last = number + 1,
            _ if is_of_end => self.least_last = 1,
            _ => {}
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
            (FRAME, Register::None) => {
                let is_store = instruction.op0_kind() == OpKind::Memory;
                let is_of_mask = start < Frame::LAST + Frame::LAST_BYTES && end > Frame::LAST;
                if is_store && is_of_mask && self.window != Window::None {
                    return Err("a write to the mask of the last elements while it is used");
                }
                inside(end, self.frame_bytes, "memory outside of the frame")
            }
            // RAX is the index of an element in a buffer. Vectors start at multiples of their lanes.
            (FRAME, Register::RAX) if instruction.memory_index_scale() == 4 => {
                let elements = match self.index_below {
                    Some(below) => below,
                    None if bytes == 4 => LAST_ELEMENTS,
                    None => return Err("an index without a bound"),
                };
                inside(start + 4 * elements, self.frame_bytes, "memory outside of the frame")
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
            Window::Last if start == 0 && self.is_masked(instruction) => Ok(()),
            Window::Last if end <= self.least_last * element => Ok(()),
            _ => Err("columns that the row may not have"),
        }
    }

    /// Returns `true` if an instruction only accesses the lanes in the mask of the last elements.
    fn is_masked(&self, instruction: &Instruction) -> bool {
        let mask = match instruction.code() {
            Code::VEX_Vmaskmovps_ymm_ymm_m256 | Code::VEX_Vmaskmovps_m256_ymm_ymm => {
                instruction.op1_register()
            }
            _ => instruction.op_mask(),
        };
        mask == avx512::LAST || (mask == avx2::LAST && self.has_last)
    }
}
