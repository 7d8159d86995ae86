//! Encodings of IR instructions, one for each instruction set.
//!
//! In: the registers and memory of an IR instruction's sources and target. Out: machine instructions.
//! Invariant: no encoding changes a register that it is not given, except for rax, the scratch registers and
//! those that the instruction set reserves for itself.

use super::assembler::{Assembler, Label, displacement};
use crate::cpu::lanes::{BinaryInst, LaneKind, MaskOp, UnaryInst};
use gradloom_core::ir::CompareOp;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// Register that contains the address of the frame.
pub(super) const FRAME: Register = Register::RDI;
/// Register that contains the address of the pool of constants.
pub(super) const POOL: Register = Register::RSI;
/// Register that contains the index of the current column.
pub(super) const COLUMN: Register = Register::RCX;
/// Register that contains the end of a loop over columns, or the number of a row's last elements.
pub(super) const END: Register = Register::R8;

/// Predicate of float comparisons that holds where either number is NaN.
pub(super) const UNORDERED: i32 = 3;
/// Predicate of float comparisons that holds where neither number is NaN.
pub(super) const ORDERED: i32 = 7;

/// The encodings of an instruction set.
pub(super) trait Encoding {
    /// Number of elements of a vector.
    const LANES: usize;
    /// Number of vector registers that can be assigned.
    const VECTORS: usize;
    /// Number of mask registers that can be assigned; `None` if masks are in vector registers, as lanes whose
    /// bits are all equal.
    const MASKS: Option<usize>;
    /// Size in bytes of an invariant in memory: 4 if instructions can broadcast it, otherwise that of a
    /// vector that repeats it.
    const INVARIANT: usize;
    /// Words at the start of the pool of constants.
    const POOL_START: &'static [u32];
    /// Vector registers that an IR instruction may change.
    const SCRATCH: [Register; 2];
    /// Instruction that copies a register or loads an aligned vector.
    const COPY: Code;
    /// Instruction that stores an aligned vector.
    const WRITE: Code;
    /// Instruction that copies an element in memory to all lanes.
    const BROADCAST: Code;
    /// Instruction that stores an aligned vector past the caches.
    const STREAM: Code;
    /// Instruction that adds a number in memory to the first lane.
    const ADD_FIRST: Code;
    /// Instruction that stores the first lane.
    const STORE_FIRST: Code;

    /// Returns the vector register with this number.
    fn vector(number: u8) -> Register;
    /// Returns the register of the mask with this number.
    fn mask(number: u8) -> Register;
    /// Returns the machine instruction for a function of two lanes.
    fn two(op: BinaryInst) -> Code;
    /// Returns the machine instruction for a function of one lane, and its immediate operand, if any.
    fn one(op: UnaryInst) -> (Code, Option<i32>);
    /// Emits a copy of EAX to all lanes.
    fn broadcast_eax(asm: &mut Assembler, to: Register);
    /// Emits a store of EAX as an invariant.
    fn store_invariant(asm: &mut Assembler, to: MemoryOperand);
    /// Emits a comparison.
    fn compare(asm: &mut Assembler, which: (CompareOp, LaneKind), to: Register, a: Register, b: Vector);
    /// Emits a comparison of floats whose result is set where either is NaN.
    fn unordered(asm: &mut Assembler, to: Register, a: Register, b: Vector);
    /// Emits a comparison with 0 whose result is set where a lane is not 0.
    fn not_zero(asm: &mut Assembler, to: Register, a: Register);
    /// Emits a function of two masks.
    fn combine_masks(asm: &mut Assembler, op: MaskOp, to: Register, a: Register, b: Register);
    /// Emits `to = mask ? chosen : otherwise`.
    fn select(asm: &mut Assembler, to: Register, mask: Register, chosen: Vector, otherwise: Register);
    /// Emits the mask of the lanes below [`END`], which instructions for a row's last elements use.
    fn mask_last(asm: &mut Assembler);
    /// Emits a load of elements of 4 bytes. If `last`, only the row's last elements are loaded.
    fn load(asm: &mut Assembler, to: Register, from: MemoryOperand, last: bool);
    /// Emits a load of elements of 1 byte as lanes of 4 bytes.
    fn load_bytes(asm: &mut Assembler, to: Register, from: MemoryOperand, last: bool);
    /// Emits a store of elements of 4 bytes.
    fn store(asm: &mut Assembler, to: MemoryOperand, from: Register, last: bool);
    /// Emits a store of a mask as elements of 1 byte, 0 or 1. `to` emits the address.
    fn store_bytes(
        asm: &mut Assembler,
        to: &dyn Fn(&mut Assembler) -> MemoryOperand,
        mask: Register,
        last: bool,
    );
    /// Emits `to = a op b` for the maximum or minimum `op` of floats, which is NaN where either is NaN. `b`
    /// may be the second scratch register.
    fn extreme_or_nan(asm: &mut Assembler, op: BinaryInst, to: Register, a: Register, b: Register);
    /// Emits code that sets a flag in all lanes.
    fn set_flag(asm: &mut Assembler, flag: Register);
    /// Emits code that clears a flag in the lanes in which either of two vectors is NaN.
    fn keep_ordered(asm: &mut Assembler, flag: Register, a: Register, b: Register);
    /// Emits a jump that is taken if two flags are set in all lanes.
    fn jump_if_set(asm: &mut Assembler, flags: [Register; 2], to: Label);
    /// Emits `to[i] = from[i ^ distance]` for all lanes i, where the distance is a power of two.
    fn swap(asm: &mut Assembler, to: Register, from: Register, distance: usize);
}

/// A register, or an invariant in memory.
#[derive(Clone, Copy)]
pub(super) enum Vector {
    Register(Register),
    /// Base and offset in bytes.
    Invariant(Register, usize),
}

impl Vector {
    /// Returns the register that contains the vector, which is loaded to `scratch` if it is in memory.
    pub(super) fn in_register<I: Encoding>(self, asm: &mut Assembler, scratch: Register) -> Register {
        if let Vector::Register(register) = self {
            return register;
        }
        load_vector::<I>(asm, scratch, self);
        scratch
    }
}

/// Returns the memory operand for an invariant, which the instruction broadcasts if it is an element.
pub(super) fn invariant<I: Encoding>(base: Register, bytes: usize) -> MemoryOperand {
    let is_broadcast = I::INVARIANT == 4;
    MemoryOperand::new(base, Register::None, 1, displacement(bytes), 1, is_broadcast, Register::None)
}

macro_rules! emit {
    ($asm:expr, $code:ident $(, $operand:expr)*) => {{
        let instruction = emit!(@make Code::$code $(, $operand)*);
        $asm.push(&instruction);
    }};
    ($asm:expr, [$code:expr] $(, $operand:expr)*) => {{
        let instruction = emit!(@make $code $(, $operand)*);
        $asm.push(&instruction);
    }};
    (@make $code:expr, $a:expr) => {
        Instruction::with1($code, $a).expect("operands of the instruction")
    };
    (@make $code:expr, $a:expr, $b:expr) => {
        Instruction::with2($code, $a, $b).expect("operands of the instruction")
    };
    (@make $code:expr, $a:expr, $b:expr, $c:expr) => {
        Instruction::with3($code, $a, $b, $c).expect("operands of the instruction")
    };
    (@make $code:expr, $a:expr, $b:expr, $c:expr, $d:expr) => {
        Instruction::with4($code, $a, $b, $c, $d).expect("operands of the instruction")
    };
    (@make $code:expr) => { Instruction::with($code) };
}
pub(super) use emit;

/// Emits `to = op(a, b)`; `b` may be in memory.
pub(super) fn two<I: Encoding>(asm: &mut Assembler, code: Code, to: Register, a: Register, b: Vector) {
    match b {
        Vector::Register(b) => emit!(asm, [code], to, a, b),
        Vector::Invariant(base, bytes) => emit!(asm, [code], to, a, invariant::<I>(base, bytes)),
    }
}

/// Emits a three-operand instruction with an immediate operand; `b` may be in memory.
pub(super) fn two_by<I: Encoding>(
    asm: &mut Assembler,
    code: Code,
    to: Register,
    a: Register,
    b: Vector,
    immediate: i32,
) {
    match b {
        Vector::Register(b) => emit!(asm, [code], to, a, b, immediate),
        Vector::Invariant(base, bytes) => emit!(asm, [code], to, a, invariant::<I>(base, bytes), immediate),
    }
}

/// Emits code that loads an invariant to all lanes, or copies a register.
pub(super) fn load_vector<I: Encoding>(asm: &mut Assembler, to: Register, from: Vector) {
    match from {
        Vector::Invariant(base, bytes) if I::INVARIANT == 4 => {
            emit!(asm, [I::BROADCAST], to, at(base, bytes))
        }
        Vector::Invariant(base, bytes) => emit!(asm, [I::COPY], to, at(base, bytes)),
        Vector::Register(from) if from != to => emit!(asm, [I::COPY], to, from),
        Vector::Register(_) => {}
    }
}

/// Returns `base + displacement`.
pub(super) fn at(base: Register, bytes: usize) -> MemoryOperand {
    MemoryOperand::with_base_displ(base, displacement(bytes))
}

/// Returns the XMM register that is the low part of a vector register.
pub(super) fn low(register: Register) -> Register {
    let first = if register >= Register::ZMM0 { Register::ZMM0 } else { Register::YMM0 };
    Register::XMM0 + (register as u32 - first as u32)
}

/// Returns the predicate of a comparison of floats. The predicates are quiet, and only that of `Ne` holds for
/// NaN.
pub(super) fn float_predicate(op: CompareOp) -> i32 {
    match op {
        CompareOp::Eq => 0x00,
        CompareOp::Ne => 0x04,
        CompareOp::Lt => 0x11,
        CompareOp::Le => 0x12,
        CompareOp::Gt => 0x1e,
        CompareOp::Ge => 0x1d,
    }
}
