//! Encodings for AVX-512.
//!
//! zmm0, zmm1 and k7 are scratch registers, k1 contains the lanes of a row's last elements, and zmm2 and up
//! and k2 to k6 are assigned to values. Invariants in memory are broadcast by the instructions that read
//! them.

use super::assembler::{Assembler, Label};
use super::encoding::{Encoding, ORDERED, UNORDERED, Vector, emit, float_predicate, invariant, low, two_by};
use crate::cpu::lanes::{BinaryInst, LaneKind, MaskOp, UnaryInst};
use gradloom_core::ir::CompareOp;
use iced_x86::{Code, Instruction, MemoryOperand, Register};

/// Mask of the lanes of a row's last elements.
pub(super) const LAST: Register = Register::K1;
const SCRATCH_MASK: Register = Register::K7;
const COMPARE_FLOATS: Code = Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae;

pub(super) struct Avx512;

fn push_under(asm: &mut Assembler, instruction: Instruction, mask: Option<Register>, zeroes: bool) {
    let mut instruction = instruction;
    if let Some(mask) = mask {
        instruction.set_op_mask(mask);
        instruction.set_zeroing_masking(zeroes);
    }
    asm.push(&instruction);
}

impl Encoding for Avx512 {
    const LANES: usize = 16;
    const VECTORS: usize = 30;
    const MASKS: Option<usize> = Some(5);
    const INVARIANT: usize = 4;
    const POOL_START: &'static [u32] = &[];
    const SCRATCH: [Register; 2] = [Register::ZMM0, Register::ZMM1];
    const COPY: Code = Code::EVEX_Vmovaps_zmm_k1z_zmmm512;
    const WRITE: Code = Code::EVEX_Vmovaps_zmmm512_k1z_zmm;
    const BROADCAST: Code = Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32;
    const STREAM: Code = Code::EVEX_Vmovntps_m512_zmm;
    const ADD_FIRST: Code = Code::EVEX_Vaddss_xmm_k1z_xmm_xmmm32_er;
    const STORE_FIRST: Code = Code::EVEX_Vmovss_m32_k1_xmm;

    fn vector(number: u8) -> Register {
        Register::ZMM2 + u32::from(number)
    }

    fn mask(number: u8) -> Register {
        Register::K2 + u32::from(number)
    }

    fn two(op: BinaryInst) -> Code {
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

    fn one(op: UnaryInst) -> (Code, Option<i32>) {
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

    fn broadcast_eax(asm: &mut Assembler, to: Register) {
        emit!(asm, EVEX_Vpbroadcastd_zmm_k1z_r32, to, Register::EAX);
    }

    fn store_invariant(asm: &mut Assembler, to: MemoryOperand) {
        emit!(asm, Mov_rm32_r32, to, Register::EAX);
    }

    fn compare(asm: &mut Assembler, which: (CompareOp, LaneKind), to: Register, a: Register, b: Vector) {
        let (op, lane) = which;
        let code = match lane {
            LaneKind::Float => return two_by::<Self>(asm, COMPARE_FLOATS, to, a, b, float_predicate(op)),
            LaneKind::Signed => Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8,
            LaneKind::Unsigned => Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
        };
        let predicate = match op {
            CompareOp::Eq => 0,
            CompareOp::Lt => 1,
            CompareOp::Le => 2,
            CompareOp::Ne => 4,
            CompareOp::Ge => 5,
            CompareOp::Gt => 6,
        };
        two_by::<Self>(asm, code, to, a, b, predicate);
    }

    fn unordered(asm: &mut Assembler, to: Register, a: Register, b: Vector) {
        two_by::<Self>(asm, COMPARE_FLOATS, to, a, b, UNORDERED);
    }

    fn not_zero(asm: &mut Assembler, to: Register, a: Register) {
        emit!(asm, EVEX_Vptestmd_kr_k1_zmm_zmmm512b32, to, a, a);
    }

    fn combine_masks(asm: &mut Assembler, op: MaskOp, to: Register, a: Register, b: Register) {
        match op {
            MaskOp::And => emit!(asm, VEX_Kandw_kr_kr_kr, to, a, b),
            MaskOp::Or => emit!(asm, VEX_Korw_kr_kr_kr, to, a, b),
            MaskOp::Xor => emit!(asm, VEX_Kxorw_kr_kr_kr, to, a, b),
            MaskOp::Same => emit!(asm, VEX_Kxnorw_kr_kr_kr, to, a, b),
            MaskOp::Without => emit!(asm, VEX_Kandnw_kr_kr_kr, to, a, b),
        }
    }

    fn select(asm: &mut Assembler, to: Register, mask: Register, chosen: Vector, otherwise: Register) {
        let code = Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32;
        let instruction = match chosen {
            Vector::Register(chosen) => emit!(@make code, to, otherwise, chosen),
            Vector::Invariant(base, bytes) => {
                emit!(@make code, to, otherwise, invariant::<Self>(base, bytes))
            }
        };
        push_under(asm, instruction, Some(mask), false);
    }

    fn mask_last(asm: &mut Assembler) {
        emit!(asm, Xor_r32_rm32, Register::EAX, Register::EAX);
        emit!(asm, Bts_rm32_r32, Register::EAX, Register::R8D);
        emit!(asm, Dec_rm32, Register::EAX);
        emit!(asm, VEX_Kmovw_kr_r32, LAST, Register::EAX);
    }

    fn load(asm: &mut Assembler, to: Register, from: MemoryOperand, last: bool) {
        let load = emit!(@make Code::EVEX_Vmovups_zmm_k1z_zmmm512, to, from);
        push_under(asm, load, last.then_some(LAST), true);
    }

    fn load_bytes(asm: &mut Assembler, to: Register, from: MemoryOperand, last: bool) {
        let load = emit!(@make Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128, to, from);
        push_under(asm, load, last.then_some(LAST), true);
    }

    fn store(asm: &mut Assembler, to: MemoryOperand, from: Register, last: bool) {
        let store = emit!(@make Code::EVEX_Vmovups_zmmm512_k1z_zmm, to, from);
        push_under(asm, store, last.then_some(LAST), false);
    }

    fn store_bytes(
        asm: &mut Assembler,
        to: &dyn Fn(&mut Assembler) -> MemoryOperand,
        mask: Register,
        last: bool,
    ) {
        let bytes = Self::SCRATCH[0];
        let low = low(bytes);
        emit!(asm, Mov_r32_imm32, Register::EAX, 0x0101_0101);
        emit!(asm, EVEX_Vpbroadcastd_zmm_k1z_r32, bytes, Register::EAX);
        let ones = emit!(@make Code::EVEX_Vmovdqu8_xmm_k1z_xmmm128, low, low);
        push_under(asm, ones, Some(mask), true);
        let to = to(asm);
        let store = emit!(@make Code::EVEX_Vmovdqu8_xmmm128_k1z_xmm, to, low);
        push_under(asm, store, last.then_some(LAST), false);
    }

    fn extreme_or_nan(asm: &mut Assembler, op: BinaryInst, to: Register, a: Register, b: Register) {
        let extreme = Self::SCRATCH[0];
        Self::unordered(asm, SCRATCH_MASK, a, Vector::Register(a));
        emit!(asm, [Self::two(op)], extreme, a, b);
        let keep = emit!(@make Self::COPY, extreme, a);
        push_under(asm, keep, Some(SCRATCH_MASK), false);
        emit!(asm, [Self::COPY], to, extreme);
    }

    fn set_flag(asm: &mut Assembler, flag: Register) {
        emit!(asm, VEX_Kxnorw_kr_kr_kr, flag, flag, flag);
    }

    fn keep_ordered(asm: &mut Assembler, flag: Register, a: Register, b: Register) {
        let compare = emit!(@make COMPARE_FLOATS, flag, a, b, ORDERED);
        push_under(asm, compare, Some(flag), false);
    }

    fn jump_if_set(asm: &mut Assembler, [first, second]: [Register; 2], to: Label) {
        emit!(asm, VEX_Kandw_kr_kr_kr, SCRATCH_MASK, first, second);
        emit!(asm, VEX_Kortestw_kr_kr, SCRATCH_MASK, SCRATCH_MASK);
        asm.jump(Code::Jb_rel32_64, to);
    }

    fn swap(asm: &mut Assembler, to: Register, from: Register, distance: usize) {
        match distance {
            8 => emit!(asm, EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8, to, from, from, 0x4e),
            4 => emit!(asm, EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8, to, from, from, 0xb1),
            2 => emit!(asm, EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8, to, from, 0x4e),
            1 => emit!(asm, EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8, to, from, 0xb1),
            _ => unreachable!("a distance of {distance} lanes"),
        }
    }
}
