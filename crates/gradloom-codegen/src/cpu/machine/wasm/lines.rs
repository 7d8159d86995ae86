//! Encodes IR instructions as WebAssembly instructions over four lanes.
//!
//! In: an IR instruction. Out: WebAssembly instructions that read its sources from locals and write its value
//! to a local. A mask is a vector in which all bits of a lane are set, or none.

use super::{Emitter, Reduce, is_plain};
use crate::cpu::lanes::{BinaryInst, LaneKind, MaskOp, UnaryInst};
use crate::cpu::machine::frame::Frame;
use crate::cpu::machine::ir::{Line, Lines, Op, VectorOperand};
use crate::cpu::machine::numbers::OperandNumber;
use gradloom_core::ir::CompareOp;
use wasm_encoder::{InstructionSink, MemArg, MemArgTarget};

/// The columns that IR instructions process.
#[derive(Clone, Copy)]
pub(super) enum Columns {
    /// Four columns, starting this number of columns after the current one.
    Four { ahead: usize },
    /// The current column. Only the first lane is used.
    One,
}

impl Columns {
    fn ahead(self) -> usize {
        match self {
            Self::Four { ahead } => ahead,
            Self::One => 0,
        }
    }
}

/// Converts a number of locals, lanes or bytes to the type that instructions take.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).expect("routines are far below 2^32 lines and bytes")
}

/// Returns the memory operand for 4-byte elements, `offset` bytes after an address.
pub(super) fn word(offset: usize) -> MemArg {
    place(offset, 2)
}

/// Returns the memory operand for 1-byte elements, `offset` bytes after an address.
pub(super) fn byte(offset: usize) -> MemArg {
    place(offset, 0)
}

fn place(offset: usize, align: u32) -> MemArg {
    MemArg { offset: offset as u64, align, target: MemArgTarget::default(), ordering: None }
}

/// Returns a vector of these 4-byte words.
pub(super) fn words(words: [u32; 4]) -> i128 {
    words.iter().rev().fold(0, |all, &word| (all << 32) | i128::from(word))
}

/// Returns the byte indices of a shuffle that moves lane `(i + lanes) % 4` to lane `i`.
pub(super) fn shifted(lanes: u8) -> [u8; 16] {
    let mut byte = 4 * lanes;
    [(); 16].map(|()| {
        byte += 1;
        (byte - 1) % 16
    })
}

/// The locals and columns that IR instructions access.
struct Over<'a> {
    invariants: &'a [u32],
    /// Local of the first value.
    values: u32,
    columns: Columns,
}

impl<'a> Emitter<'a> {
    /// Emits IR instructions of the routine for these columns.
    pub(super) fn lines(&mut self, lines: &Lines, columns: Columns, reduce: Reduce<'_, 'a>) {
        let locals = self.locals;
        let over = Over { invariants: &locals.invariants, values: locals.values, columns };
        lines.all.iter().for_each(|line| self.line(line, &over, reduce));
    }

    /// Emits IR instructions that access no columns, with these locals for their invariants and values.
    pub(super) fn lines_over(&mut self, lines: &Lines, invariants: &[u32], values: u32) {
        debug_assert!(is_plain(lines), "lines that combine two");
        let over = Over { invariants, values, columns: Columns::One };
        lines.all.iter().for_each(|line| self.line(line, &over, &mut |_, _, _| {}));
    }

    /// Emits the address of an operand's current elements, and returns the memory operand that refers to it.
    fn elements(&mut self, operand: OperandNumber, bytes: usize, columns: Columns) -> MemArg {
        let address = self.locals.operands[operand.index()].0;
        self.code.local_get(address).local_get(self.locals.column);
        if bytes == 4 {
            self.code.i32_const(2).i32_shl();
        }
        self.code.i32_add();
        if bytes == 4 { word(4 * columns.ahead()) } else { byte(columns.ahead()) }
    }

    fn line(&mut self, line: &Line, over: &Over<'_>, reduce: Reduce<'_, 'a>) {
        let local = |source: VectorOperand| match source {
            VectorOperand::Value(value) => over.values + number(value.index()),
            VectorOperand::Invariant(invariant) => over.invariants[invariant.index()],
        };
        let source = |i: usize| local(line.sources[i].expect("a line has its sources"));
        let locals = self.locals;
        match line.op {
            Op::Two(op) => self.two(op, source(0), source(1)),
            Op::One(op) => self.one(op, source(0)),
            Op::Compare(op, lane) => {
                self.code.local_get(source(0)).local_get(source(1));
                compare(&mut self.code, op, lane);
            }
            Op::Unordered => {
                let (a, b) = (source(0), source(1));
                self.code.local_get(a).local_get(a).f32x4_ne();
                if a != b {
                    self.code.local_get(b).local_get(b).f32x4_ne().v128_or();
                }
            }
            Op::NotZero => {
                self.code.local_get(source(0)).v128_const(0).i32x4_ne();
            }
            Op::Mask(op) => {
                let (a, b) = (source(0), source(1));
                match op {
                    MaskOp::And => self.code.local_get(a).local_get(b).v128_and(),
                    MaskOp::Or => self.code.local_get(a).local_get(b).v128_or(),
                    MaskOp::Xor => self.code.local_get(a).local_get(b).v128_xor(),
                    MaskOp::Same => self.code.local_get(a).local_get(b).v128_xor().v128_not(),
                    // `andnot(x, y)` is `x & !y`, so the operands are swapped.
                    MaskOp::Without => self.code.local_get(b).local_get(a).v128_andnot(),
                };
            }
            Op::Select => {
                self.code.local_get(source(1)).local_get(source(2)).local_get(source(0)).v128_bitselect();
            }
            Op::Columns => {
                // The frame contains the indices of the call's first columns, and `column` counts from the
                // first of them.
                self.code.local_get(locals.column).i32x4_splat();
                self.code.local_get(locals.frame).v128_load(word(Frame::NUMBERS)).i32x4_add();
                let ahead = number(over.columns.ahead());
                if ahead > 0 {
                    self.code.v128_const(words([ahead; 4])).i32x4_add();
                }
            }
            Op::Load(operand) => {
                let place = self.elements(operand, 4, over.columns);
                match over.columns {
                    Columns::Four { .. } => self.code.v128_load(place),
                    Columns::One => self.code.v128_load32_splat(place),
                };
            }
            Op::LoadBytes(operand) => {
                let place = self.elements(operand, 1, over.columns);
                match over.columns {
                    Columns::Four { .. } => self
                        .code
                        .v128_load32_zero(place)
                        .i16x8_extend_low_i8x16_u()
                        .i32x4_extend_low_i16x8_u(),
                    Columns::One => self.code.i32_load8_u(place).i32x4_splat(),
                };
            }
            Op::Store(operand) => {
                let place = self.elements(operand, 4, over.columns);
                self.code.local_get(source(0));
                match over.columns {
                    Columns::Four { .. } => self.code.v128_store(place),
                    Columns::One => self.code.v128_store32_lane(place, 0),
                };
            }
            Op::StoreBytes(operand) => {
                let place = self.elements(operand, 1, over.columns);
                self.code.local_get(source(0)).v128_const(words([1; 4])).v128_and();
                match over.columns {
                    Columns::Four { .. } => {
                        let ones = locals.scratch;
                        self.code.local_tee(ones).local_get(ones).i16x8_narrow_i32x4_u();
                        self.code.local_tee(ones).local_get(ones).i8x16_narrow_i16x8_u();
                        self.code.v128_store32_lane(place, 0)
                    }
                    Columns::One => self.code.v128_store8_lane(place, 0),
                };
            }
            // WebAssembly has no instruction for prefetches.
            Op::Fetch(_) => {}
            Op::AddFirst(operand) => {
                let address = locals.operands[operand.index()].0;
                self.code.local_get(address).local_get(address).f32_load(word(0));
                self.code.local_get(source(0)).f32x4_extract_lane(0).f32_add().f32_store(word(0));
            }
            Op::Reduce(reduction) => reduce(self, reduction, source(0)),
        }
        if let Some(target) = line.target {
            self.code.local_set(local(VectorOperand::Value(target)));
        }
    }

    fn two(&mut self, op: BinaryInst, a: u32, b: u32) {
        let code = &mut self.code;
        match op {
            BinaryInst::Add => drop(code.local_get(a).local_get(b).f32x4_add()),
            BinaryInst::Sub => drop(code.local_get(a).local_get(b).f32x4_sub()),
            BinaryInst::Mul => drop(code.local_get(a).local_get(b).f32x4_mul()),
            BinaryInst::Div => drop(code.local_get(a).local_get(b).f32x4_div()),
            // WebAssembly's `pmin(x, y)` is `y < x ? y : x`, so the operands are swapped. The same applies to
            // `pmax`.
            BinaryInst::Min => drop(code.local_get(b).local_get(a).f32x4_pmin()),
            BinaryInst::Max => drop(code.local_get(b).local_get(a).f32x4_pmax()),
            BinaryInst::Scale => unreachable!("the builder expands it"),
            BinaryInst::And => drop(code.local_get(a).local_get(b).v128_and()),
            BinaryInst::Or => drop(code.local_get(a).local_get(b).v128_or()),
            BinaryInst::Xor => drop(code.local_get(a).local_get(b).v128_xor()),
            BinaryInst::AddInt => drop(code.local_get(a).local_get(b).i32x4_add()),
            BinaryInst::SubInt => drop(code.local_get(a).local_get(b).i32x4_sub()),
            BinaryInst::MulInt => drop(code.local_get(a).local_get(b).i32x4_mul()),
            BinaryInst::MinSigned => drop(code.local_get(a).local_get(b).i32x4_min_s()),
            BinaryInst::MinUnsigned => drop(code.local_get(a).local_get(b).i32x4_min_u()),
            BinaryInst::MaxSigned => drop(code.local_get(a).local_get(b).i32x4_max_s()),
            BinaryInst::MaxUnsigned => drop(code.local_get(a).local_get(b).i32x4_max_u()),
            BinaryInst::ShiftLeft => self.shift(a, b, |code| _ = code.i32_shl()),
            BinaryInst::ShiftRightSigned => self.shift(a, b, |code| _ = code.i32_shr_s()),
            BinaryInst::ShiftRightUnsigned => self.shift(a, b, |code| _ = code.i32_shr_u()),
        }
    }

    /// Emits the shift of each lane by its own count, one lane at a time, because WebAssembly has no
    /// instruction for the whole vector.
    fn shift(&mut self, a: u32, b: u32, shift: impl Fn(&mut InstructionSink<'_>)) {
        self.code.local_get(a);
        for lane in 0..4 {
            self.code.local_get(a).i32x4_extract_lane(lane).local_get(b).i32x4_extract_lane(lane);
            shift(&mut self.code);
            self.code.i32x4_replace_lane(lane);
        }
    }

    fn one(&mut self, op: UnaryInst, a: u32) {
        let code = &mut self.code;
        code.local_get(a);
        match op {
            UnaryInst::Sqrt => code.f32x4_sqrt(),
            UnaryInst::Floor => code.f32x4_floor(),
            UnaryInst::AbsInt => code.i32x4_abs(),
            UnaryInst::FloatOfSigned => code.f32x4_convert_i32x4_s(),
            UnaryInst::FloatOfUnsigned => code.f32x4_convert_i32x4_u(),
            // WebAssembly's conversions saturate, and convert NaN to 0. Replace their results where
            // [`UnaryInst`] differs.
            UnaryInst::SignedOfFloat => code
                .i32x4_trunc_sat_f32x4_s()
                .v128_const(words([i32::MIN.cast_unsigned(); 4]))
                .local_get(a)
                .v128_const(words([2_147_483_648f32.to_bits(); 4]))
                .f32x4_lt()
                .v128_bitselect(),
            UnaryInst::UnsignedOfFloat => code
                .i32x4_trunc_sat_f32x4_u()
                .v128_const(words([u32::MAX; 4]))
                .local_get(a)
                .v128_const(words([(-1f32).to_bits(); 4]))
                .f32x4_gt()
                .v128_bitselect(),
            UnaryInst::ShiftLeftBy(count) => code.i32_const(count.into()).i32x4_shl(),
            UnaryInst::ShiftRightBy(count) => code.i32_const(count.into()).i32x4_shr_s(),
        };
    }
}

fn compare(code: &mut InstructionSink<'_>, op: CompareOp, lane: LaneKind) {
    match (op, lane) {
        (CompareOp::Eq, LaneKind::Float) => code.f32x4_eq(),
        (CompareOp::Ne, LaneKind::Float) => code.f32x4_ne(),
        (CompareOp::Lt, LaneKind::Float) => code.f32x4_lt(),
        (CompareOp::Le, LaneKind::Float) => code.f32x4_le(),
        (CompareOp::Gt, LaneKind::Float) => code.f32x4_gt(),
        (CompareOp::Ge, LaneKind::Float) => code.f32x4_ge(),
        (CompareOp::Eq, _) => code.i32x4_eq(),
        (CompareOp::Ne, _) => code.i32x4_ne(),
        (CompareOp::Lt, LaneKind::Signed) => code.i32x4_lt_s(),
        (CompareOp::Le, LaneKind::Signed) => code.i32x4_le_s(),
        (CompareOp::Gt, LaneKind::Signed) => code.i32x4_gt_s(),
        (CompareOp::Ge, LaneKind::Signed) => code.i32x4_ge_s(),
        (CompareOp::Lt, LaneKind::Unsigned) => code.i32x4_lt_u(),
        (CompareOp::Le, LaneKind::Unsigned) => code.i32x4_le_u(),
        (CompareOp::Gt, LaneKind::Unsigned) => code.i32x4_gt_u(),
        (CompareOp::Ge, LaneKind::Unsigned) => code.i32x4_ge_u(),
    };
}
