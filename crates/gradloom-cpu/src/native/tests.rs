//! Compares machine code and WebAssembly bit for bit with the interpreter's loops, and checks the text of
//! machine code.

mod checks;
mod wasm;

use super::{Call, Compiled};
use crate::InstructionSet;
use crate::device::compiled_loops;
use crate::elementwise::functions::function;
use crate::elementwise::{Operand, ResultRows};
use gradloom_codegen::cpu::loops::OPERANDS;

use crate::reduce::combine::{
    MaxF32, MaxI32, MaxU32, MinF32, MinI32, MinU32, ProdF32, ProdU32, Reducer, SumF32, SumU32, row_body,
};
use crate::testing::Random;
use gradloom_codegen::cpu::functions::MapOp;
use gradloom_codegen::cpu::lanes::{self, BinaryInst, LaneKind, Lanes, Scalar, UnaryInst};
use gradloom_codegen::cpu::machine::bounds::{Bounds, Window};
use gradloom_codegen::cpu::machine::{
    Allocation, Assembler, Builder, Frame, Invariant, Lines, Location, Op, OperandNumber, Pick, Reduction,
    Registers, Routine, Step, VectorIsa, VectorOperand, allocate, assemble, check,
};
use gradloom_core::ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};
use gradloom_device::guarded::Guarded;

const DTYPES: [DType; 4] = [DType::F32, DType::I32, DType::U32, DType::Bool];

/// Elements that start at a cache line, between guard pages. The remainder of the last line must not change.
struct Memory {
    bytes: Guarded,
    words: usize,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        let words = 16 * bytes.div_ceil(64);
        let memory = Self { bytes: Guarded::new(4 * words).expect("the system has some memory"), words };
        // SAFETY: the memory has `words` words, and nothing else refers to them.
        unsafe { std::slice::from_raw_parts_mut(memory.bytes.start().cast::<u32>().as_ptr(), words) }
            .fill(0x5a5a_5a5a);
        memory
    }

    fn of(elements: &[u32], bytes: usize) -> Self {
        let mut memory = Self::new(elements.len() * bytes);
        for (i, &element) in elements.iter().enumerate() {
            // SAFETY: there is room for all elements.
            unsafe {
                match bytes {
                    1 => memory.start().add(i).write(element as u8),
                    _ => memory.start().cast::<u32>().add(i).write(element),
                }
            }
        }
        memory
    }

    fn start(&mut self) -> *mut u8 {
        self.bytes.start().as_ptr()
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the memory has `4 * words` bytes, and nothing else refers to them.
        unsafe { std::slice::from_raw_parts_mut(self.start(), 4 * self.words) }
    }

    fn elements(&self) -> Vec<u32> {
        // SAFETY: the memory has `words` words, and nothing writes to them meanwhile.
        unsafe { std::slice::from_raw_parts(self.bytes.start().cast::<u32>().as_ptr(), self.words) }.to_vec()
    }
}

/// Returns bits for which functions have special cases, and random bits, as elements of a dtype.
fn elements(dtype: DType, count: usize, random: &mut Random) -> Vec<u32> {
    let special: [f32; 18] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        1e-45,
        -1e-45,
        1e-8,
        f32::MAX,
        f32::MIN,
        2_147_483_648.0,
        -2_147_483_648.0,
        4_294_967_296.0,
    ];
    let mut element = || match (dtype, random.below(4)) {
        (DType::Bool, _) => random.bits() & 1,
        (_, 0) => special[random.below(special.len())].to_bits(),
        (DType::F32, 1) => (100.0 * random.float()).to_bits(),
        (_, 1) => (random.below(9) as i32 - 4).cast_unsigned(),
        _ => random.bits(),
    };
    (0..count).map(|_| element()).collect()
}

fn same(a: u32, b: u32) -> bool {
    a == b || (f32::from_bits(a).is_nan() && f32::from_bits(b).is_nan())
}

/// Returns the dtypes of the operands and of the result.
fn dtypes(op: MapOp) -> (Vec<DType>, DType) {
    match op {
        MapOp::Unary(_, dtype) => (vec![dtype], dtype),
        MapOp::Binary(_, dtype) => (vec![dtype; 2], dtype),
        MapOp::Pair { .. } => (vec![DType::F32; 3], DType::F32),
        MapOp::Compare(_, dtype) => (vec![dtype; 2], DType::Bool),
        MapOp::Select(dtype) => (vec![DType::Bool, dtype, dtype], dtype),
        MapOp::Cast(from, to) => (vec![from], to),
    }
}

/// Returns every op that has a lowering.
fn ops() -> Vec<MapOp> {
    let mut ops: Vec<MapOp> = Vec::new();
    for dtype in DTYPES {
        let accepted = UnaryOp::ALL.iter().filter(|op| op.accepts(dtype));
        ops.extend(accepted.map(|&op| MapOp::Unary(op, dtype)));
        let accepted = BinaryOp::ALL.iter().filter(|op| op.accepts(dtype));
        ops.extend(accepted.map(|&op| MapOp::Binary(op, dtype)));
        ops.extend(CompareOp::ALL.iter().map(|&op| MapOp::Compare(op, dtype)));
        ops.push(MapOp::Select(dtype));
        ops.extend(DTYPES.map(|to| MapOp::Cast(dtype, to)));
    }
    for (second, reversed) in [(BinaryOp::Mul, false), (BinaryOp::Sub, false), (BinaryOp::Sub, true)] {
        ops.push(MapOp::Pair { first: BinaryOp::Add, second, reversed });
    }
    ops.retain(|&op| Builder::can_map(op));
    ops
}

/// Returns a routine of one op, with its operands followed by its result. Operand `row`, if any, has one
/// element per row.
fn routine(isa: VectorIsa, op: MapOp, row: Option<usize>, streams: bool) -> Routine {
    let (from, to) = dtypes(op);
    let mut builder = Builder::new(isa);
    let sources: Vec<VectorOperand> = from
        .iter()
        .enumerate()
        .map(|(i, dtype)| match row == Some(i) {
            true => builder.row(n(i), dtype.bytes()),
            false => builder.load(n(i), dtype.bytes()),
        })
        .collect();
    let result = builder.map(op, &sources);
    builder.store(n(from.len()), to.bytes(), result);
    let operands = from.iter().chain([&to]).map(|dtype| dtype.bytes() as u8).collect();
    let streams = if streams { vec![n(from.len())] } else { Vec::new() };
    Routine { lines: builder.finish(), operands, streams, ..Routine::default() }
}

/// Returns the instruction sets whose code this machine can run. WebAssembly runs in an interpreter.
fn isas() -> Vec<VectorIsa> {
    let mut isas: Vec<VectorIsa> = InstructionSet::available()
        .into_iter()
        .filter_map(compiled_loops)
        .chain([VectorIsa::Simd128])
        .collect();
    isas.sort_unstable();
    isas.dedup();
    isas
}

/// Calls a routine's code for `rows` rows of `columns` columns. Each operand comes with its row stride in
/// bytes.
fn call(
    isa: VectorIsa,
    routine: &Routine,
    rows: usize,
    columns: usize,
    operands: &mut [(&mut Memory, usize)],
) {
    call_from(isa, routine, 0, rows, columns, operands);
}

/// Same as [`call`], for the columns from `first` on.
fn call_from(
    isa: VectorIsa,
    routine: &Routine,
    first: usize,
    rows: usize,
    columns: usize,
    operands: &mut [(&mut Memory, usize)],
) {
    if isa == VectorIsa::Simd128 {
        return wasm::call(routine, first, rows, columns, operands);
    }
    let code = Assembler::new(isa).assemble(routine.clone()).expect("machine code");
    let compiled = Compiled::new(&code).expect("this system takes machine code");
    let mut frame = Memory::new(compiled.frame_bytes());
    // SAFETY: tests run only if the machine supports the level; the operands have their elements.
    unsafe {
        let call = Call::new(frame.start(), rows, columns);
        for (number, (memory, row_stride)) in operands.iter_mut().enumerate() {
            call.operand(n(number), memory.start(), *row_stride);
        }
        call.first_column(first);
        compiled.run(&call);
    }
}

fn n(number: usize) -> OperandNumber {
    OperandNumber::new(number)
}

/// Returns the value that the instructions in `lines` compute and store for one element, on any machine.
/// `operands` are the elements that they read.
fn interpret(lines: &Lines, operands: &[u32]) -> u32 {
    let mut values = vec![0u32; lines.values];
    let mut stored = None;
    for line in &lines.all {
        let sources: Vec<u32> = line
            .sources
            .iter()
            .flatten()
            .map(|source| match *source {
                VectorOperand::Value(value) => values[value.index()],
                VectorOperand::Invariant(number) => match lines.invariants[number.index()] {
                    Invariant::Constant(bits) => bits,
                    Invariant::Row(operand) => operands[operand.index()],
                },
            })
            .collect();
        let l = &mut Scalar;
        let result = match (line.op, &sources[..]) {
            (Op::Two(op), &[a, b]) => l.two(op, a, b),
            (Op::One(op), &[a]) => l.one(op, a),
            (Op::Compare(op, lane), &[a, b]) => l.compare(op, lane, a, b).into(),
            (Op::Unordered, &[a, b]) => (l.is_nan(a) || l.is_nan(b)).into(),
            (Op::NotZero, &[a]) => (a != 0).into(),
            (Op::Mask(op), &[a, b]) => l.mask(op, a != 0, b != 0).into(),
            (Op::Select, &[mask, a, b]) => l.select(mask != 0, a, b),
            (Op::Load(operand) | Op::LoadBytes(operand), []) => operands[operand.index()],
            (Op::Store(_) | Op::StoreBytes(_), &[a]) => *stored.insert(a),
            (op, sources) => panic!("{op:?} of {sources:?}"),
        };
        if let Some(value) = line.target {
            values[value.index()] = result;
        }
    }
    stored.expect("a result is stored")
}

#[test]
fn the_lines_of_every_op_mean_what_its_loop_computes() {
    for isa in [VectorIsa::Simd128, VectorIsa::Avx2, VectorIsa::Avx512] {
        let mut random = Random(3);
        for op in ops() {
            let (from, to) = dtypes(op);
            let lines = routine(isa, op, None, false).lines;
            let values: Vec<Vec<u32>> = from.iter().map(|&dtype| elements(dtype, 500, &mut random)).collect();
            for i in 0..500 {
                let bits: Vec<u32> = values.iter().map(|values| values[i]).collect();
                let mut operands = [Operand::none(); OPERANDS];
                operands
                    .iter_mut()
                    .zip(&bits)
                    .for_each(|(operand, bits)| *operand = Operand::row(std::ptr::from_ref(bits).cast()));
                let mut expected = 0u32;
                let target = ResultRows { start: std::ptr::from_mut(&mut expected).cast(), row_stride: 0 };
                // SAFETY: each operand and the result have one element of their dtype.
                unsafe { function(op, InstructionSet::Baseline)(1, 1, &operands, target) };
                let got = interpret(&lines, &bits);
                assert!(
                    if to == DType::Bool { got == expected } else { same(got, expected) },
                    "{isa:?}, {op:?} of {bits:x?}: {got:#x}, not {expected:#x}"
                );
            }
        }
    }
}

/// Instructions that an instruction set lacks are expanded to others with the same bits.
#[test]
fn expanded_instructions_have_the_bits_of_those_they_replace() {
    let mut random = Random(11);
    let numbers = elements(DType::F32, 20_000, &mut random);
    for pair in numbers.windows(2) {
        let [a, b] = [pair[0], pair[1]];
        let l = &mut Scalar;
        let got = lanes::float_of_unsigned(l, a);
        assert_eq!(got, l.one(UnaryInst::FloatOfUnsigned, a), "float of {a:#x}");
        let got = lanes::unsigned_of_float(l, a);
        assert_eq!(got, l.one(UnaryInst::UnsignedOfFloat, a), "integer of {a:#x}");
        for &op in CompareOp::ALL {
            let got = lanes::compare_unsigned(l, op, a, b);
            assert_eq!(got, l.compare(op, LaneKind::Unsigned, a, b), "{op:?} of {a:#x} and {b:#x}");
        }
        let exponent = (random.below(505) as f32 - 252.0).to_bits();
        let (got, expected) = (lanes::scale(l, a, exponent), l.two(BinaryInst::Scale, a, exponent));
        assert!(same(got, expected), "{a:#x} times 2 to the power {}", f32::from_bits(exponent));
    }
}

#[test]
fn every_op_has_the_bits_of_its_loop() {
    for isa in isas() {
        let mut random = Random(1);
        for op in ops() {
            let (from, to) = dtypes(op);
            for (columns, row) in
                [(1, None), (15, None), (16, Some(0)), (17, None), (64, Some(1)), (1000, None)]
            {
                let row = row.filter(|&row| row < from.len());
                let rows = if row.is_some() { 3 } else { 1 };
                let values: Vec<Vec<u32>> =
                    from.iter().map(|&dtype| elements(dtype, rows * columns, &mut random)).collect();
                let mut reads: Vec<Memory> = values
                    .iter()
                    .zip(&from)
                    .map(|(values, dtype)| Memory::of(values, dtype.bytes()))
                    .collect();
                let bytes = rows * columns * to.bytes();
                let (mut expected, mut got) = (Memory::new(bytes), Memory::new(bytes));
                let strides: Vec<usize> = from
                    .iter()
                    .enumerate()
                    .map(|(i, dtype)| dtype.bytes() * if row == Some(i) { 1 } else { columns })
                    .collect();
                let mut operands = [Operand::none(); OPERANDS];
                for (i, read) in reads.iter_mut().enumerate() {
                    operands[i] =
                        Operand { start: read.start(), row_stride: strides[i], repeated: row == Some(i) };
                }
                let target = ResultRows { start: expected.start(), row_stride: columns * to.bytes() };
                // SAFETY: the operands and the result have elements of the op's dtypes at all positions.
                unsafe { function(op, InstructionSet::Baseline)(rows, columns, &operands, target) };
                let streams = to.bytes() == 4 && columns % 16 == 0;
                let mut all: Vec<(&mut Memory, usize)> = reads.iter_mut().zip(strides).collect();
                all.push((&mut got, columns * to.bytes()));
                call(isa, &routine(isa, op, row, streams), rows, columns, &mut all);
                for (at, (got, expected)) in got.elements().into_iter().zip(expected.elements()).enumerate() {
                    assert!(
                        same(got, expected),
                        "{op:?} of {columns} columns, word {at}: {got:#x}, not {expected:#x}"
                    );
                }
            }
        }
    }
}

#[test]
fn functions_agree_over_all_magnitudes() {
    for isa in isas() {
        // Prime steps, so that all exponents and many fractions occur.
        let step = if isa == VectorIsa::Simd128 { 131_071 } else { 8191 };
        let bits: Vec<u32> = (0..u32::MAX).step_by(step).collect();
        let mut read = Memory::of(&bits, 4);
        for op in UnaryOp::ALL.iter().filter(|op| op.accepts(DType::F32)) {
            let op = MapOp::Unary(*op, DType::F32);
            if !Builder::can_map(op) {
                continue;
            }
            let (mut expected, mut got) = (Memory::new(4 * bits.len()), Memory::new(4 * bits.len()));
            let operands = [Operand::row(read.start()), Operand::none(), Operand::none()];
            // SAFETY: the operand and the result have `bits.len()` elements.
            unsafe {
                function(op, InstructionSet::detect())(
                    1,
                    bits.len(),
                    &operands,
                    ResultRows { start: expected.start(), row_stride: 0 },
                );
            }
            call(isa, &routine(isa, op, None, false), 1, bits.len(), &mut [(&mut read, 0), (&mut got, 0)]);
            for ((got, expected), bits) in got.elements().into_iter().zip(expected.elements()).zip(&bits) {
                assert!(same(got, expected), "{op:?} of {bits:#x}: {got:#x}, not {expected:#x}");
            }
        }
    }
}

#[test]
fn rows_are_reduced_in_the_same_order() {
    for isa in isas() {
        fn check<F: Reducer<T = T>, T: Copy>(
            isa: VectorIsa,
            op: ReduceOp,
            dtype: DType,
            bits: impl Fn(T) -> u32,
        ) {
            let mut random = Random(7);
            for columns in [1, 7, 8, 9, 15, 16, 17, 24, 31, 63, 64, 80, 255, 256, 263, 300, 335, 1024, 1111] {
                let rows = 3;
                // Use values with inexact sums, sometimes with a NaN.
                let values: Vec<u32> = match columns % 5 {
                    0 => elements(dtype, rows * columns, &mut random),
                    _ => (0..rows * columns).map(|_| (1.0 + 0.1 * random.float()).to_bits()).collect(),
                };
                let mut read = Memory::of(&values, 4);
                let identity = bits(F::IDENTITY);
                for long in [columns >= 256, true] {
                    let mut got = Memory::of(&vec![identity; rows], 4);
                    let routine = Routine {
                        lines: {
                            let mut builder = Builder::new(isa);
                            let source = builder.load(n(0), 4);
                            builder.reduce(0, source);
                            builder.finish()
                        },
                        operands: vec![4, 4],
                        reductions: vec![Reduction { op, dtype, identity, target: n(1) }],
                        long,
                        ..Routine::default()
                    };
                    call(isa, &routine, rows, columns, &mut [(&mut read, 4 * columns), (&mut got, 4)]);
                    for row in 0..rows {
                        // SAFETY: the row has `columns` elements of the type.
                        let expected = unsafe {
                            let from = read.start().cast::<F::T>().add(row * columns);
                            bits(F::combine(F::IDENTITY, row_body::<F>(columns, from)))
                        };
                        let got = got.elements()[row];
                        assert!(
                            same(got, expected),
                            "{op:?} of {columns} {dtype}: {got:#x}, not {expected:#x}"
                        );
                    }
                }
            }
        }
        check::<SumF32, _>(isa, ReduceOp::Sum, DType::F32, f32::to_bits);
        check::<ProdF32, _>(isa, ReduceOp::Prod, DType::F32, f32::to_bits);
        check::<MaxF32, _>(isa, ReduceOp::Max, DType::F32, f32::to_bits);
        check::<MinF32, _>(isa, ReduceOp::Min, DType::F32, f32::to_bits);
        check::<SumU32, _>(isa, ReduceOp::Sum, DType::I32, u32::from);
        check::<ProdU32, _>(isa, ReduceOp::Prod, DType::U32, u32::from);
        check::<MaxI32, _>(isa, ReduceOp::Max, DType::I32, i32::cast_unsigned);
        check::<MinI32, _>(isa, ReduceOp::Min, DType::I32, i32::cast_unsigned);
        check::<MaxU32, _>(isa, ReduceOp::Max, DType::U32, u32::from);
        check::<MinU32, _>(isa, ReduceOp::Min, DType::U32, u32::from);
    }
}

#[test]
fn one_nan_anywhere_makes_the_extreme_of_a_row_nan() {
    for isa in isas() {
        let columns = 603;
        for op in [ReduceOp::Max, ReduceOp::Min] {
            let identity = if op == ReduceOp::Max { f32::NEG_INFINITY } else { f32::INFINITY };
            let mut builder = Builder::new(isa);
            let source = builder.load(n(0), 4);
            builder.reduce(0, source);
            let routine = Routine {
                lines: builder.finish(),
                operands: vec![4, 4],
                reductions: vec![Reduction {
                    op,
                    dtype: DType::F32,
                    identity: identity.to_bits(),
                    target: n(1),
                }],
                long: true,
                ..Routine::default()
            };
            // For each column, one row has a NaN there; the last row has none.
            let mut values: Vec<u32> =
                (0..columns * (columns + 1)).map(|i| ((i % 977) as f32).to_bits()).collect();
            (0..columns).for_each(|at| values[at * columns + at] = f32::NAN.to_bits());
            let (mut read, mut got) =
                (Memory::of(&values, 4), Memory::of(&vec![identity.to_bits(); columns + 1], 4));
            call(isa, &routine, columns + 1, columns, &mut [(&mut read, 4 * columns), (&mut got, 4)]);
            let got = got.elements();
            assert!(got[..columns].iter().all(|&bits| f32::from_bits(bits).is_nan()), "{op:?}");
            assert!(!f32::from_bits(got[columns]).is_nan(), "{op:?}");
        }
    }
}

#[test]
fn rows_pick_the_element_of_their_index_before_it_is_overwritten() {
    for isa in isas() {
        // The routine adds twice the selected element to a sum, and negates the row in place.
        let mut builder = Builder::new(isa);
        let x = builder.load(n(0), 4);
        let two = builder.float(2.0);
        let doubled = builder.mul(x, two);
        let negated = builder.negated(x);
        builder.store(n(0), 4, negated);
        let all = builder.finish();
        let routine = Routine {
            picks: vec![Pick { index: n(1), lines: all.adding(doubled, n(2)) }],
            lines: all.used(),
            operands: vec![4, 4, 4],
            ..Routine::default()
        };
        assert!(routine.lines.all.len() < all.all.len(), "what only a pick takes is computed for it alone");
        let (columns, indices) = (37, [0, 15, 16, 36, 37, -1, i32::MIN]);
        let values: Vec<u32> = (0..columns * indices.len()).map(|i| (1.0 + i as f32).to_bits()).collect();
        let (mut x, mut sums) = (Memory::of(&values, 4), Memory::of(&[1f32.to_bits(); 7], 4));
        let mut indices_in_memory = Memory::of(&indices.map(i32::cast_unsigned), 4);
        let operands = &mut [(&mut x, 4 * columns), (&mut indices_in_memory, 4), (&mut sums, 4)];
        call(isa, &routine, indices.len(), columns, operands);
        for (row, &index) in indices.iter().enumerate() {
            let picked = usize::try_from(index).ok().filter(|&index| index < columns);
            let expected = picked.map_or(1.0, |index| 1.0 + 2.0 * (1 + row * columns + index) as f32);
            assert_eq!(f32::from_bits(sums.elements()[row]), expected, "index {index}");
        }
        let negated = |&bits: &u32| (-f32::from_bits(bits)).to_bits();
        assert_eq!(x.elements()[..values.len()], values.iter().map(negated).collect::<Vec<_>>());
    }
}

#[test]
fn columns_have_their_numbers_in_the_middle_of_rows_too() {
    for isa in isas() {
        // The routine writes the column numbers, and adds the element that the index selects, if it is among
        // these columns.
        let mut builder = Builder::new(isa);
        let (x, number) = (builder.load(n(0), 4), builder.columns());
        builder.store(n(1), 4, number);
        let all = builder.finish();
        let routine = Routine {
            picks: vec![Pick { index: n(2), lines: all.adding(x, n(3)) }],
            lines: all.used(),
            operands: vec![4; 4],
            ..Routine::default()
        };
        let (first, columns, indices) = (100, 22, [99, 100, 121, 122]);
        let values: Vec<u32> = (0..4 * columns).map(|i| (1.0 + i as f32).to_bits()).collect();
        let (mut x, mut numbers) = (Memory::of(&values, 4), Memory::new(16 * columns));
        let mut index = Memory::of(&indices, 4);
        let mut sums = Memory::of(&[0; 4], 4);
        let operands =
            &mut [(&mut x, 4 * columns), (&mut numbers, 4 * columns), (&mut index, 4), (&mut sums, 4)];
        call_from(isa, &routine, first, 4, columns, operands);
        let expected: Vec<u32> = (0..4 * columns).map(|i| (first + i % columns) as u32).collect();
        assert_eq!(numbers.elements()[..4 * columns], expected, "{isa:?}");
        let picked = [0.0, 1.0 + columns as f32, 1.0 + (2 * columns + 21) as f32, 0.0];
        assert_eq!(sums.elements()[..4], picked.map(f32::to_bits), "{isa:?}");
    }
}

/// The row-level values would fill all registers that the instructions leave free, but selections need
/// registers too.
#[test]
fn rows_with_more_values_than_registers_pick_too() {
    for isa in isas() {
        let given = 40;
        let mut builder = Builder::new(isa);
        let x = builder.load(n(0), 4);
        let of_rows: Vec<VectorOperand> = (0..given).map(|i| builder.row(n(3 + i), 4)).collect();
        let more = builder.add(x, of_rows[0]);
        builder.store(n(0), 4, more);
        // All products are live at the same time, and there are more products than registers.
        let products: Vec<VectorOperand> = of_rows.iter().map(|&of_row| builder.mul(x, of_row)).collect();
        let mut chosen = products[0];
        for &product in &products[1..] {
            chosen = builder.add(chosen, product);
        }
        let all = builder.finish();
        let routine = Routine {
            picks: vec![Pick { index: n(1), lines: all.adding(chosen, n(2)) }],
            lines: all.used(),
            operands: vec![4; 3 + given],
            ..Routine::default()
        };
        let (rows, columns) = (3, 21);
        let values: Vec<u32> = (0..rows * columns).map(|i| (i as f32).to_bits()).collect();
        let mut memories = vec![Memory::of(&values, 4), Memory::of(&[4, 20, 0], 4), Memory::of(&[0; 3], 4)];
        // Row-level value `i` is `i` more than the row's number.
        let of_row = |i: usize| [0, 1, 2].map(|row| ((row + i) as f32).to_bits());
        memories.extend((0..given).map(|i| Memory::of(&of_row(i), 4)));
        let strides = [&[4 * columns][..], &vec![4; 2 + given]].concat();
        let mut operands: Vec<(&mut Memory, usize)> = memories.iter_mut().zip(strides).collect();
        call(isa, &routine, rows, columns, &mut operands);
        for (row, picked) in [4, 20, 0].into_iter().enumerate() {
            let factors = (0..given).map(|i| row + i).sum::<usize>();
            let expected = (row * columns + picked) * factors;
            assert_eq!(f32::from_bits(memories[2].elements()[row]), expected as f32, "row {row}");
            let expected = (row * columns..(row + 1) * columns).map(|x| (x + row) as f32);
            let got = memories[0].elements()[row * columns..][..columns].to_vec();
            assert_eq!(got.into_iter().map(f32::from_bits).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
    }
}

#[test]
fn more_values_than_registers_go_through_memory() {
    for isa in isas() {
        // The routine sums the values twice, the second time in reverse order, so all of them are live after
        // the first sum.
        let live = 50;
        let mut builder = Builder::new(isa);
        let x = builder.load(n(0), 4);
        let values: Vec<VectorOperand> = (0..live)
            .map(|i| {
                let factor = builder.float(1.0 + i as f32);
                builder.mul(x, factor)
            })
            .collect();
        let mut sum = values[0];
        for &value in values[1..].iter().chain(values.iter().rev()) {
            sum = builder.add(sum, value);
        }
        builder.store(n(1), 4, sum);
        let routine = Routine { lines: builder.finish(), operands: vec![4, 4], ..Routine::default() };
        let numbers: Vec<u32> = (0..37).map(|i| (i as f32).to_bits()).collect();
        let (mut read, mut got) = (Memory::of(&numbers, 4), Memory::new(4 * numbers.len()));
        call(isa, &routine, 1, numbers.len(), &mut [(&mut read, 0), (&mut got, 0)]);
        for (i, &got) in got.elements()[..numbers.len()].iter().enumerate() {
            assert_eq!(f32::from_bits(got), (i * live * (live + 1)) as f32);
        }
    }
}

/// Two interleaved vectors are spilled, whose slots must not be those of invariants of the row.
#[test]
fn interleaved_vectors_that_are_spilled_leave_the_invariants_alone() {
    for isa in isas() {
        for live in 4..32 {
            let mut builder = Builder::new(isa);
            let x = builder.load(n(0), 4);
            let of_row = builder.row(n(1), 4);
            let mut values = vec![builder.add(x, of_row)];
            for i in 1..live {
                let last = values[i - 1];
                values.push(builder.add(last, of_row));
            }
            // Uses the values in the order in which they were made, so that all are live at once, and again.
            let mut sum = of_row;
            for _ in 0..10 {
                sum = builder.add(sum, x);
            }
            for &value in &values {
                sum = builder.add(sum, value);
            }
            builder.store(n(2), 4, sum);
            let routine = Routine { lines: builder.finish(), operands: vec![4; 3], ..Routine::default() };
            let (rows, columns) = (3, 45);
            let numbers: Vec<u32> = (0..rows * columns).map(|i| (i as f32).to_bits()).collect();
            let of_rows = [1f32, 5.0, 7.0];
            let (mut read, mut row) = (Memory::of(&numbers, 4), Memory::of(&of_rows.map(f32::to_bits), 4));
            let mut got = Memory::new(4 * numbers.len());
            let operands = &mut [(&mut read, 4 * columns), (&mut row, 4), (&mut got, 4 * columns)];
            call(isa, &routine, rows, columns, operands);
            for (i, got) in got.elements()[..numbers.len()].iter().enumerate() {
                let of_row = of_rows[i / columns];
                let expected = of_row * (1 + live * (live + 1) / 2) as f32 + ((10 + live) * i) as f32;
                assert_eq!(f32::from_bits(*got), expected, "{isa:?}, {live} values, element {i}");
            }
        }
    }
}

/// Returns the reduction of a row in the order of the runtime's reductions.
fn reduced(op: ReduceOp, row: &[u32]) -> u32 {
    let row: Vec<f32> = row.iter().map(|&bits| f32::from_bits(bits)).collect();
    // SAFETY: the row has `row.len()` elements.
    unsafe {
        match op {
            ReduceOp::Sum => row_body::<SumF32>(row.len(), row.as_ptr()),
            ReduceOp::Max => row_body::<MaxF32>(row.len(), row.as_ptr()),
            _ => row_body::<MinF32>(row.len(), row.as_ptr()),
        }
    }
    .to_bits()
}

#[test]
fn several_reductions_share_the_registers() {
    let identity = |op| match op {
        ReduceOp::Sum => 0.0,
        ReduceOp::Max => f32::NEG_INFINITY,
        _ => f32::INFINITY,
    };
    let (sum, max, min) = (ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min);
    for isa in isas() {
        let mut random = Random(5);
        for ops in [vec![sum, max], vec![max, min, max], vec![sum, sum, sum], vec![min, sum, max]] {
            for columns in [5, 8, 31, 72, 256, 700] {
                let rows = 2;
                let values: Vec<u32> =
                    (0..rows * columns).map(|_| (1.0 + 0.1 * random.float()).to_bits()).collect();
                // Each reduction is of another value: x, 2 x, 3 x.
                let mut builder = Builder::new(isa);
                let x = builder.load(n(0), 4);
                let mut reductions = Vec::new();
                let mut operands = vec![4];
                for (i, &op) in ops.iter().enumerate() {
                    let factor = builder.float(1.0 + i as f32);
                    let value = builder.mul(x, factor);
                    builder.reduce(i, value);
                    operands.push(4);
                    let identity = f32::to_bits(identity(op));
                    reductions.push(Reduction { op, dtype: DType::F32, identity, target: n(1 + i) });
                }
                let lines = builder.finish();
                let routine = Routine { lines, operands, reductions, long: true, ..Routine::default() };
                let mut read = Memory::of(&values, 4);
                let mut results: Vec<Memory> =
                    ops.iter().map(|&op| Memory::of(&vec![f32::to_bits(identity(op)); rows], 4)).collect();
                let mut all = vec![(&mut read, 4 * columns)];
                all.extend(results.iter_mut().map(|result| (result, 4)));
                call(isa, &routine, rows, columns, &mut all);
                for (i, &op) in ops.iter().enumerate() {
                    for row in 0..rows {
                        let of_row = &values[row * columns..][..columns];
                        let factor = 1.0 + i as f32;
                        let scaled: Vec<u32> =
                            of_row.iter().map(|&x| (factor * f32::from_bits(x)).to_bits()).collect();
                        let got = results[i].elements()[row];
                        assert_eq!(got, reduced(op, &scaled), "{isa:?}, {ops:?}, {columns} columns, {i}");
                    }
                }
            }
        }
    }
}

#[test]
fn rows_that_start_inside_a_vector_are_told_apart() {
    let mut frame = Memory::new(1024);
    // SAFETY: the frame has room for an operand; no code is called.
    let mut starts = |address: usize, row_stride: usize, rows: usize| unsafe {
        let call = Call::new(frame.start(), rows, 16);
        call.operand(n(0), std::ptr::without_provenance(address), row_stride);
        call.starts_at_vectors(n(0), rows)
    };
    let cases = [(640, 64, 3), (640, 4, 1), (644, 64, 1), (640, 68, 2)];
    assert_eq!(
        cases.map(|(address, stride, rows)| starts(address, stride, rows)),
        [true, true, false, false]
    );
}

#[test]
fn equal_routines_are_compiled_once() {
    let isa = VectorIsa::Avx2;
    let of = |factor: f32| {
        let mut builder = Builder::new(isa);
        let (x, factor) = (builder.load(n(0), 4), builder.float(factor));
        let product = builder.mul(x, factor);
        builder.store(n(1), 4, product);
        Routine { lines: builder.finish(), operands: vec![4, 4], ..Routine::default() }
    };
    let mut assembler = Assembler::new(isa);
    let [a, b, c] = [2.0, 2.0, 3.0].map(|factor| assembler.assemble(of(factor)).expect("machine code"));
    assert!(std::sync::Arc::ptr_eq(&a, &b) && !std::sync::Arc::ptr_eq(&a, &c));
    // Another assembler makes equal code, which is loaded once.
    let again = Assembler::new(isa).assemble(of(2.0)).expect("machine code");
    let [a, b, c] = [&a, &again, &c].map(|code| Compiled::new(code).expect("this system takes machine code"));
    assert!(std::sync::Arc::ptr_eq(&a, &b) && !std::sync::Arc::ptr_eq(&a, &c));
}

#[test]
fn the_text_of_a_small_routine() {
    use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
    let files = [
        (VectorIsa::Avx2, include_str!("addition_avx2.txt")),
        (VectorIsa::Avx512, include_str!("addition_avx512.txt")),
    ];
    for (isa, expected) in files {
        let op = MapOp::Binary(BinaryOp::Add, DType::F32);
        let assembled = assemble(&routine(isa, op, Some(1), false), isa).expect("registers for all masks");
        let (code, _) = assembled.expect("its memory is its own");
        let mut text = String::new();
        let mut formatter = IntelFormatter::new();
        for instruction in &mut Decoder::with_ip(64, &code, 0, DecoderOptions::NONE) {
            text.push_str(&format!("{:3x} ", instruction.ip()));
            formatter.format(&instruction, &mut text);
            text.push('\n');
            if instruction.mnemonic() == iced_x86::Mnemonic::Ret {
                break;
            }
        }
        assert_eq!(text, expected, "{text}");
    }
}
