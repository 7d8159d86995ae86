//! Runs routines as WebAssembly, in an interpreter.

use super::*;
use gradloom_codegen::cpu::machine::wasm::{FUNCTION, MEMORY, assemble};
use wasmi::{Engine, Linker, MemoryType, Module, Store};

const PAGE: usize = 65536;
/// Filler between operands, which must not change.
const BETWEEN: u8 = 0xa5;

/// Calls the module of a routine; see [`super::call`]. One of the operands, which varies with `columns`, ends
/// at the end of the memory, so that reads beyond it trap.
pub(super) fn call(
    routine: &Routine,
    first: usize,
    rows: usize,
    columns: usize,
    operands: &mut [(&mut Memory, usize)],
) {
    let (code, frame_bytes) = assemble(routine).expect("a short routine");
    let extents: Vec<usize> = operands
        .iter()
        .enumerate()
        .map(|(number, (_, stride))| {
            let element = usize::from(routine.operands[number]);
            let row = if has_columns(routine, n(number)) { columns * element } else { element };
            (rows - 1) * stride + row
        })
        .collect();
    let last = columns % operands.len();
    let mut starts = vec![0; operands.len()];
    let mut end = 1024 + frame_bytes;
    for number in (0..operands.len()).filter(|&number| number != last) {
        starts[number] = end.next_multiple_of(64);
        end = starts[number] + extents[number] + 64;
    }
    let pages = (end + extents[last]).div_ceil(PAGE);
    starts[last] = pages * PAGE - extents[last];

    let engine = Engine::default();
    let module = Module::new(&engine, &code).expect("a module that is valid");
    let mut store = Store::new(&engine, ());
    let pages = u32::try_from(pages).expect("a few pages");
    let memory = wasmi::Memory::new(&mut store, MemoryType::new(pages, None)).expect("memory");
    let mut linker = Linker::new(&engine);
    linker.define(MEMORY.0, MEMORY.1, memory).expect("one memory");
    let instance = linker.instantiate_and_start(&mut store, &module).expect("a module that wants a memory");
    let function = instance.get_typed_func::<u32, ()>(&store, FUNCTION).expect("a function");

    // Fill in the frame as the runtime does, with 32-bit addresses.
    let at = 1024;
    let data = memory.data_mut(&mut store);
    data.fill(BETWEEN);
    let mut word = |offset: usize, word: usize| {
        let word = u32::try_from(word).expect("a small memory");
        data[at + offset..][..4].copy_from_slice(&word.to_le_bytes());
    };
    word(Frame::ROWS, rows);
    word(Frame::COLUMNS, columns);
    for (number, (_, stride)) in operands.iter().enumerate() {
        word(Frame::operand(n(number)), starts[number]);
        word(Frame::operand(n(number)) + 8, *stride);
    }
    (0..16).for_each(|column| word(Frame::NUMBERS + 4 * column, first + column));
    for ((operand, _), (&start, &extent)) in operands.iter_mut().zip(starts.iter().zip(&extents)) {
        data[start..][..extent].copy_from_slice(&operand.bytes()[..extent]);
    }
    let before = data.to_vec();
    function.call(&mut store, at as u32).expect("no trap");
    let data = memory.data(&store);
    let mut is_own = vec![false; data.len()];
    is_own[at..at + frame_bytes].fill(true);
    for ((operand, _), (&start, &extent)) in operands.iter_mut().zip(starts.iter().zip(&extents)) {
        is_own[start..start + extent].fill(true);
        operand.bytes()[..extent].copy_from_slice(&data[start..][..extent]);
    }
    let stray = (0..data.len()).find(|&byte| !is_own[byte] && data[byte] != before[byte]);
    assert_eq!(stray, None, "a byte outside of operands and frame was written");
}

/// Returns `true` if an operand has an element for each column.
fn has_columns(routine: &Routine, operand: OperandNumber) -> bool {
    let lines = routine.picks.iter().map(|pick| &pick.lines).chain([&routine.lines]);
    lines.flat_map(|lines| &lines.all).any(|line| match line.op {
        Op::Load(of) | Op::LoadBytes(of) | Op::Store(of) | Op::StoreBytes(of) => of == operand,
        _ => false,
    })
}

/// Very long routines remain interpreted, so that they do not hold up the engine's compiler.
#[test]
fn very_long_routines_become_no_module() {
    let of = |lines: usize| {
        let mut builder = Builder::new(VectorIsa::Simd128);
        let mut sum = builder.load(n(0), 4);
        for i in 0..lines {
            let number = builder.float(i as f32);
            sum = builder.add(sum, number);
        }
        builder.store(n(0), 4, sum);
        Routine { lines: builder.finish(), operands: vec![4], ..Routine::default() }
    };
    assert!(assemble(&of(1000)).is_some() && assemble(&of(10_000)).is_none());
}
