//! Encodings for AVX2.
//!
//! ymm0 to ymm2 are scratch registers, and ymm3 and up are assigned to values. Masks are vectors, in which
//! all bits of a lane are set, or none. The mask of a row's last elements is in the frame, and in ymm2 when
//! it is used: `vmaskmovps` then touches no other element (AMD's manual allows processors on which it would
//! raise exceptions for those; none is known). Invariants in memory are repeated in all lanes.

use super::assembler::{Assembler, Label};
use super::encoding::{
    END, Encoding, FRAME, ORDERED, POOL, UNORDERED, Vector, at, emit, float_predicate, low, two, two_by,
};
use crate::cpu::lanes::{BinaryInst, LaneKind, MaskOp, UnaryInst};
use crate::cpu::machine::frame::Frame;
use gradloom_core::ir::CompareOp;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// Scratch register of this encoding alone. It contains the mask of a row's last elements when that is used.
pub(super) const LAST: Register = Register::YMM2;
const COMPARE_FLOATS: Code = Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8;

pub(super) struct Avx2;

/// Inverts a mask, with the last scratch register.
fn invert(asm: &mut Assembler, mask: Register) {
    emit!(asm, VEX_Vpcmpeqd_ymm_ymm_ymmm256, LAST, LAST, LAST);
    emit!(asm, VEX_Vpxor_ymm_ymm_ymmm256, mask, mask, LAST);
}

/// Loads the mask of a row's last elements.
fn load_last(asm: &mut Assembler) {
    emit!(asm, VEX_Vmovaps_ymm_ymmm256, LAST, at(FRAME, Frame::LAST));
}

/// Emits the instruction of `element` for each index of a row's last elements. All but the first follow a
/// jump that skips the rest.
fn each_last(asm: &mut Assembler, mut element: impl FnMut(&mut Assembler, i32)) {
    let end = asm.label();
    for number in 0..i32::try_from(Avx2::LANES).expect("a few lanes") - 1 {
        // There is at least one.
        if number > 0 {
            emit!(asm, Cmp_rm64_imm8, END, number);
            asm.jump(Code::Jbe_rel32_64, end);
        }
        element(asm, number);
    }
    asm.place(end);
}

/// Returns the memory operand for an element of 1 byte, this number of elements after another.
fn after(memory: MemoryOperand, number: i32) -> MemoryOperand {
    MemoryOperand { displacement: memory.displacement + i64::from(number), ..memory }
}

impl Encoding for Avx2 {
    const LANES: usize = 8;
    const VECTORS: usize = 13;
    const MASKS: Option<usize> = None;
    const INVARIANT: usize = 32;
    // The indices of the lanes.
    const POOL_START: &'static [u32] = &[0, 1, 2, 3, 4, 5, 6, 7];
    const SCRATCH: [Register; 2] = [Register::YMM0, Register::YMM1];
    const COPY: Code = Code::VEX_Vmovaps_ymm_ymmm256;
    const WRITE: Code = Code::VEX_Vmovaps_ymmm256_ymm;
    const BROADCAST: Code = Code::VEX_Vbroadcastss_ymm_m32;
    const STREAM: Code = Code::VEX_Vmovntps_m256_ymm;
    const ADD_FIRST: Code = Code::VEX_Vaddss_xmm_xmm_xmmm32;
    const STORE_FIRST: Code = Code::VEX_Vmovss_m32_xmm;

    fn vector(number: u8) -> Register {
        Register::YMM3 + u32::from(number)
    }

    fn mask(number: u8) -> Register {
        Self::vector(number)
    }

    fn two(op: BinaryInst) -> Code {
        match op {
            BinaryInst::Add => Code::VEX_Vaddps_ymm_ymm_ymmm256,
            BinaryInst::Sub => Code::VEX_Vsubps_ymm_ymm_ymmm256,
            BinaryInst::Mul => Code::VEX_Vmulps_ymm_ymm_ymmm256,
            BinaryInst::Div => Code::VEX_Vdivps_ymm_ymm_ymmm256,
            BinaryInst::Min => Code::VEX_Vminps_ymm_ymm_ymmm256,
            BinaryInst::Max => Code::VEX_Vmaxps_ymm_ymm_ymmm256,
            BinaryInst::Scale => unreachable!("the builder expands it"),
            BinaryInst::And => Code::VEX_Vpand_ymm_ymm_ymmm256,
            BinaryInst::Or => Code::VEX_Vpor_ymm_ymm_ymmm256,
            BinaryInst::Xor => Code::VEX_Vpxor_ymm_ymm_ymmm256,
            BinaryInst::AddInt => Code::VEX_Vpaddd_ymm_ymm_ymmm256,
            BinaryInst::SubInt => Code::VEX_Vpsubd_ymm_ymm_ymmm256,
            BinaryInst::MulInt => Code::VEX_Vpmulld_ymm_ymm_ymmm256,
            BinaryInst::MinSigned => Code::VEX_Vpminsd_ymm_ymm_ymmm256,
            BinaryInst::MinUnsigned => Code::VEX_Vpminud_ymm_ymm_ymmm256,
            BinaryInst::MaxSigned => Code::VEX_Vpmaxsd_ymm_ymm_ymmm256,
            BinaryInst::MaxUnsigned => Code::VEX_Vpmaxud_ymm_ymm_ymmm256,
            BinaryInst::ShiftLeft => Code::VEX_Vpsllvd_ymm_ymm_ymmm256,
            BinaryInst::ShiftRightSigned => Code::VEX_Vpsravd_ymm_ymm_ymmm256,
            BinaryInst::ShiftRightUnsigned => Code::VEX_Vpsrlvd_ymm_ymm_ymmm256,
        }
    }

    fn one(op: UnaryInst) -> (Code, Option<i32>) {
        match op {
            UnaryInst::Sqrt => (Code::VEX_Vsqrtps_ymm_ymmm256, None),
            // Rounds down, without an exception for numbers that are not integers.
            UnaryInst::Floor => (Code::VEX_Vroundps_ymm_ymmm256_imm8, Some(9)),
            UnaryInst::AbsInt => (Code::VEX_Vpabsd_ymm_ymmm256, None),
            UnaryInst::FloatOfSigned => (Code::VEX_Vcvtdq2ps_ymm_ymmm256, None),
            UnaryInst::SignedOfFloat => (Code::VEX_Vcvttps2dq_ymm_ymmm256, None),
            UnaryInst::FloatOfUnsigned | UnaryInst::UnsignedOfFloat => {
                unreachable!("the builder expands it")
            }
            UnaryInst::ShiftLeftBy(count) => (Code::VEX_Vpslld_ymm_ymm_imm8, Some(count.into())),
            UnaryInst::ShiftRightBy(count) => (Code::VEX_Vpsrad_ymm_ymm_imm8, Some(count.into())),
        }
    }

    fn broadcast_eax(asm: &mut Assembler, to: Register) {
        let low = low(to);
        emit!(asm, VEX_Vmovd_xmm_rm32, low, Register::EAX);
        emit!(asm, VEX_Vpbroadcastd_ymm_xmmm32, to, low);
    }

    fn store_invariant(asm: &mut Assembler, to: MemoryOperand) {
        let element = Self::SCRATCH[0];
        Self::broadcast_eax(asm, element);
        emit!(asm, [Self::WRITE], to, element);
    }

    fn compare(asm: &mut Assembler, which: (CompareOp, LaneKind), to: Register, a: Register, b: Vector) {
        let (op, lane) = which;
        let (equal, greater) = (Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256);
        match (lane, op) {
            (LaneKind::Unsigned, _) => unreachable!("the builder expands it"),
            (LaneKind::Float, _) => two_by::<Self>(asm, COMPARE_FLOATS, to, a, b, float_predicate(op)),
            (LaneKind::Signed, CompareOp::Eq | CompareOp::Ne) => two::<Self>(asm, equal, to, a, b),
            (LaneKind::Signed, CompareOp::Gt | CompareOp::Le) => two::<Self>(asm, greater, to, a, b),
            (LaneKind::Signed, CompareOp::Lt | CompareOp::Ge) => {
                let b = b.in_register::<Self>(asm, Self::SCRATCH[1]);
                two::<Self>(asm, greater, to, b, Vector::Register(a));
            }
        }
        if lane == LaneKind::Signed && matches!(op, CompareOp::Ne | CompareOp::Le | CompareOp::Ge) {
            invert(asm, to);
        }
    }

    fn unordered(asm: &mut Assembler, to: Register, a: Register, b: Vector) {
        two_by::<Self>(asm, COMPARE_FLOATS, to, a, b, UNORDERED);
    }

    fn not_zero(asm: &mut Assembler, to: Register, a: Register) {
        let zero = Self::SCRATCH[1];
        emit!(asm, VEX_Vpxor_ymm_ymm_ymmm256, zero, zero, zero);
        emit!(asm, VEX_Vpcmpeqd_ymm_ymm_ymmm256, to, a, zero);
        invert(asm, to);
    }

    fn combine_masks(asm: &mut Assembler, op: MaskOp, to: Register, a: Register, b: Register) {
        match op {
            MaskOp::And => emit!(asm, VEX_Vpand_ymm_ymm_ymmm256, to, a, b),
            MaskOp::Or => emit!(asm, VEX_Vpor_ymm_ymm_ymmm256, to, a, b),
            MaskOp::Xor => emit!(asm, VEX_Vpxor_ymm_ymm_ymmm256, to, a, b),
            MaskOp::Same => emit!(asm, VEX_Vpcmpeqd_ymm_ymm_ymmm256, to, a, b),
            MaskOp::Without => emit!(asm, VEX_Vpandn_ymm_ymm_ymmm256, to, a, b),
        }
    }

    fn select(asm: &mut Assembler, to: Register, mask: Register, chosen: Vector, otherwise: Register) {
        let code = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
        match chosen {
            Vector::Register(chosen) => emit!(asm, [code], to, otherwise, chosen, mask),
            Vector::Invariant(base, bytes) => emit!(asm, [code], to, otherwise, at(base, bytes), mask),
        }
    }

    fn mask_last(asm: &mut Assembler) {
        let count = Self::SCRATCH[0];
        emit!(asm, Mov_r32_rm32, Register::EAX, Register::R8D);
        Self::broadcast_eax(asm, count);
        emit!(asm, VEX_Vpcmpgtd_ymm_ymm_ymmm256, count, count, at(POOL, 0));
        emit!(asm, [Self::WRITE], at(FRAME, Frame::LAST), count);
    }

    fn load(asm: &mut Assembler, to: Register, from: MemoryOperand, last: bool) {
        if !last {
            return emit!(asm, VEX_Vmovups_ymm_ymmm256, to, from);
        }
        load_last(asm);
        emit!(asm, VEX_Vmaskmovps_ymm_ymm_m256, to, LAST, from);
    }

    fn load_bytes(asm: &mut Assembler, to: Register, from: MemoryOperand, last: bool) {
        if !last {
            return emit!(asm, VEX_Vpmovzxbd_ymm_xmmm64, to, from);
        }
        let bytes = low(Self::SCRATCH[0]);
        emit!(asm, VEX_Vpxor_xmm_xmm_xmmm128, bytes, bytes, bytes);
        each_last(asm, |asm, number| {
            emit!(asm, VEX_Vpinsrb_xmm_xmm_r32m8_imm8, bytes, bytes, after(from, number), number);
        });
        emit!(asm, VEX_Vpmovzxbd_ymm_xmmm64, to, bytes);
    }

    fn store(asm: &mut Assembler, to: MemoryOperand, from: Register, last: bool) {
        if !last {
            return emit!(asm, VEX_Vmovups_ymmm256_ymm, to, from);
        }
        load_last(asm);
        emit!(asm, VEX_Vmaskmovps_m256_ymm_ymm, to, LAST, from);
    }

    fn store_bytes(
        asm: &mut Assembler,
        to: &dyn Fn(&mut Assembler) -> MemoryOperand,
        mask: Register,
        last: bool,
    ) {
        let ones = Self::SCRATCH[0];
        let [bytes, high] = Self::SCRATCH.map(low);
        emit!(asm, VEX_Vpsrld_ymm_ymm_imm8, ones, mask, 31);
        emit!(asm, VEX_Vextracti128_xmmm128_ymm_imm8, high, ones, 1);
        emit!(asm, VEX_Vpackssdw_xmm_xmm_xmmm128, bytes, bytes, high);
        emit!(asm, VEX_Vpacksswb_xmm_xmm_xmmm128, bytes, bytes, bytes);
        let to = to(asm);
        if !last {
            return emit!(asm, VEX_Vmovq_xmmm64_xmm, to, bytes);
        }
        each_last(asm, |asm, number| {
            emit!(asm, VEX_Vpextrb_r32m8_xmm_imm8, after(to, number), bytes, number);
        });
    }

    fn extreme_or_nan(asm: &mut Assembler, op: BinaryInst, to: Register, a: Register, b: Register) {
        let extreme = Self::SCRATCH[0];
        emit!(asm, [Self::two(op)], extreme, a, b);
        Self::unordered(asm, LAST, a, Vector::Register(a));
        emit!(asm, VEX_Vblendvps_ymm_ymm_ymmm256_ymm, to, extreme, a, LAST);
    }

    fn set_flag(asm: &mut Assembler, flag: Register) {
        emit!(asm, VEX_Vpcmpeqd_ymm_ymm_ymmm256, flag, flag, flag);
    }

    fn keep_ordered(asm: &mut Assembler, flag: Register, a: Register, b: Register) {
        emit!(asm, [COMPARE_FLOATS], LAST, a, b, ORDERED);
        emit!(asm, VEX_Vpand_ymm_ymm_ymmm256, flag, flag, LAST);
    }

    fn jump_if_set(asm: &mut Assembler, [first, second]: [Register; 2], to: Label) {
        emit!(asm, VEX_Vpand_ymm_ymm_ymmm256, LAST, first, second);
        emit!(asm, VEX_Vmovmskps_r32_ymm, Register::EAX, LAST);
        emit!(asm, Cmp_rm32_imm32, Register::EAX, 0xff);
        asm.jump(Code::Je_rel32_64, to);
    }

    fn swap(asm: &mut Assembler, to: Register, from: Register, distance: usize) {
        match distance {
            4 => emit!(asm, VEX_Vperm2f128_ymm_ymm_ymmm256_imm8, to, from, from, 1),
            2 => emit!(asm, VEX_Vpshufd_ymm_ymmm256_imm8, to, from, 0x4e),
            1 => emit!(asm, VEX_Vpshufd_ymm_ymmm256_imm8, to, from, 0xb1),
            _ => unreachable!("a distance of {distance} lanes"),
        }
    }
}
