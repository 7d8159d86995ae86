//! Encodes IR instructions over registers as AVX-512 instructions.
//!
//! In: an IR instruction, and the locations of its sources and target. Out: machine instructions. zmm0, zmm1
//! and k7 are scratch registers, k1 contains the lanes of a row's last elements, and zmm2 and up and k2 to k6
//! are assigned to values. Invariants without a register are read from memory as embedded broadcasts.
//! Invariant: no IR instruction changes a register that it does not name, except for zmm0, zmm1, k7 and rax.

use super::assembler::{Assembler, displacement};
use crate::cpu::lanes::{BinaryInst, LaneKind, UnaryInst};
use gradloom_core::ir::CompareOp;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// Number of vector registers that can be assigned.
pub(super) const VECTORS: usize = 30;
/// Number of mask registers that can be assigned.
pub(super) const MASKS: usize = 5;
/// Register that contains the address of the frame.
pub(super) const FRAME: Register = Register::RDI;
/// Register that contains the address of the pool of constants.
pub(super) const POOL: Register = Register::RSI;
/// Register that contains the index of the current column.
pub(super) const COLUMN: Register = Register::RCX;
/// Mask of the lanes of a row's last elements.
pub(super) const LAST: Register = Register::K1;
pub(super) const SCRATCH: [Register; 2] = [Register::ZMM0, Register::ZMM1];
pub(super) const SCRATCH_MASK: Register = Register::K7;

/// Returns the vector register with this number.
pub(super) fn vector(number: u8) -> Register {
    Register::ZMM2 + u32::from(number)
}

pub(super) fn mask(number: u8) -> Register {
    Register::K2 + u32::from(number)
}

pub(super) fn low(register: Register) -> Register {
    Register::XMM0 + (register as u32 - Register::ZMM0 as u32)
}

/// A register, or an element in memory that is broadcast to all lanes.
#[derive(Clone, Copy)]
pub(super) enum Vector {
    Register(Register),
    Repeated(Register, usize),
    /// Base, index (scaled by 4), and offset in bytes.
    RepeatedAt(Register, Register, usize),
}

fn memory(base: Register, bytes: usize, is_broadcast: bool) -> MemoryOperand {
    MemoryOperand::new(base, Register::None, 1, displacement(bytes), 1, is_broadcast, Register::None)
}

/// Returns `base + displacement`.
pub(super) fn at(base: Register, displacement: usize) -> MemoryOperand {
    memory(base, displacement, false)
}

macro_rules! emit {
    ($asm:expr, $code:ident $(, $operand:expr)*) => {{
        let instruction = emit!(@make $code $(, $operand)*);
        $asm.push(&instruction);
    }};
    (@make $code:ident, $a:expr) => {
        Instruction::with1(Code::$code, $a).expect("operands of the instruction")
    };
    (@make $code:ident, $a:expr, $b:expr) => {
        Instruction::with2(Code::$code, $a, $b).expect("operands of the instruction")
    };
    (@make $code:ident, $a:expr, $b:expr, $c:expr) => {
        Instruction::with3(Code::$code, $a, $b, $c).expect("operands of the instruction")
    };
    (@make $code:ident, $a:expr, $b:expr, $c:expr, $d:expr) => {
        Instruction::with4(Code::$code, $a, $b, $c, $d).expect("operands of the instruction")
    };
    (@make $code:ident) => { Instruction::with(Code::$code) };
}
pub(super) use emit;

pub(super) fn push(asm: &mut Assembler, instruction: Result<Instruction, iced_x86::IcedError>) {
    asm.push(&instruction.expect("operands of the instruction"));
}

pub(super) fn push_under(
    asm: &mut Assembler,
    instruction: Instruction,
    mask: Option<Register>,
    zeroes: bool,
) {
    let mut instruction = instruction;
    if let Some(mask) = mask {
        instruction.set_op_mask(mask);
        instruction.set_zeroing_masking(zeroes);
    }
    asm.push(&instruction);
}

impl Vector {
    pub(super) fn memory(self) -> Option<MemoryOperand> {
        match self {
            Vector::Register(_) => None,
            Vector::Repeated(base, displacement) => Some(memory(base, displacement, true)),
            Vector::RepeatedAt(base, index, bytes) => {
                Some(MemoryOperand::new(base, index, 4, displacement(bytes), 1, true, Register::None))
            }
        }
    }

    /// Returns the register that contains the vector, which is loaded to `scratch` if it is in memory.
    pub(super) fn in_register(self, asm: &mut Assembler, scratch: Register) -> Register {
        match self {
            Vector::Register(register) => register,
            _ => {
                load_repeated(asm, scratch, self);
                scratch
            }
        }
    }
}

/// Broadcasts an element to all lanes, or copies a register.
pub(super) fn load_repeated(asm: &mut Assembler, to: Register, from: Vector) {
    match from.memory() {
        Some(mut memory) => {
            memory.is_broadcast = false;
            emit!(asm, EVEX_Vbroadcastss_zmm_k1z_xmmm32, to, memory);
        }
        None => {
            let Vector::Register(from) = from else { unreachable!("what is not in memory is a register") };
            if from != to {
                emit!(asm, EVEX_Vmovaps_zmm_k1z_zmmm512, to, from);
            }
        }
    }
}

pub(super) fn code_of_two(op: BinaryInst) -> Code {
    match op {
        BinaryInst::Add => Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er,
        BinaryInst::Sub => Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er,
        BinaryInst::Mul => Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er,
        BinaryInst::Div => Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er,
        BinaryInst::Min => Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae,
        BinaryInst::Max => Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae,
        BinaryInst::Scale => Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er,
        BinaryInst::And => Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::Or => Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::Xor => Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::AddInt => Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::SubInt => Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::MulInt => Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::MinSigned => Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::MinUnsigned => Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::MaxSigned => Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::MaxUnsigned => Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::ShiftLeft => Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::ShiftRightSigned => Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32,
        BinaryInst::ShiftRightUnsigned => Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32,
    }
}

/// Returns the machine instruction for a function of one lane, and its immediate operand, if any.
pub(super) fn code_of_one(op: UnaryInst) -> (Code, Option<i32>) {
    match op {
        UnaryInst::Sqrt => (Code::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, None),
        // Rounds down, without an exception for numbers that are not integers.
        UnaryInst::Floor => (Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, Some(9)),
        UnaryInst::AbsInt => (Code::EVEX_Vpabsd_zmm_k1z_zmmm512b32, None),
        UnaryInst::FloatOfSigned => (Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, None),
        UnaryInst::FloatOfUnsigned => (Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er, None),
        UnaryInst::SignedOfFloat => (Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae, None),
        UnaryInst::UnsignedOfFloat => (Code::EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae, None),
        UnaryInst::ShiftLeftBy(count) => (Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, Some(count.into())),
        UnaryInst::ShiftRightBy(count) => (Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, Some(count.into())),
    }
}

/// Returns the machine instruction for a comparison, and the immediate operand that selects the comparison.
pub(super) fn code_of_compare(op: CompareOp, lane: LaneKind) -> (Code, i32) {
    let code = match lane {
        LaneKind::Float => Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae,
        LaneKind::Signed => Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8,
        LaneKind::Unsigned => Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
    };
    // The predicates for floats are quiet, and only `Ne` holds for NaN.
    let [float, int] = match op {
        CompareOp::Eq => [0x00, 0],
        CompareOp::Ne => [0x04, 4],
        CompareOp::Lt => [0x11, 1],
        CompareOp::Le => [0x12, 2],
        CompareOp::Gt => [0x1e, 6],
        CompareOp::Ge => [0x1d, 5],
    };
    (code, if lane == LaneKind::Float { float } else { int })
}

pub(super) const UNORDERED: i32 = 3;
const ORDERED: i32 = 7;

/// Clears the bits of the mask `ordered` where either of two vectors is NaN.
pub(super) fn keep_ordered(asm: &mut Assembler, ordered: Register, a: Register, b: Register) {
    let code = code_of_compare(CompareOp::Eq, LaneKind::Float).0;
    let compare = Instruction::with4(code, ordered, a, b, ORDERED).expect("operands of the instruction");
    push_under(asm, compare, Some(ordered), false);
}

/// Emits `to = op(a, b)`; `b` may be in memory.
pub(super) fn two(asm: &mut Assembler, code: Code, to: Register, a: Register, b: Vector) {
    push(
        asm,
        match (b, b.memory()) {
            (_, Some(memory)) => Instruction::with3(code, to, a, memory),
            (Vector::Register(b), None) => Instruction::with3(code, to, a, b),
            _ => unreachable!("what is not in memory is a register"),
        },
    );
}

pub(super) fn compare(asm: &mut Assembler, code: Code, to: Register, a: Register, b: Vector, which: i32) {
    push(
        asm,
        match (b, b.memory()) {
            (_, Some(memory)) => Instruction::with4(code, to, a, memory, which),
            (Vector::Register(b), None) => Instruction::with4(code, to, a, b, which),
            _ => unreachable!("what is not in memory is a register"),
        },
    );
}
