//! WebAssembly, with vectors of four lanes.
//!
//! In: a [`Routine`]. Out: a module ([`assemble`]) with one function, over memory that it imports. Values are
//! in locals, which the engine assigns to registers. The function processes four columns at a time, and the
//! last columns of a row one by one. Invariant: a row is reduced in the order of the runtime's reductions
//! (see `x86`), with 64 running results, which are in the frame. The function accesses no operand outside of
//! a row's elements.

mod lines;
mod locals;

use super::frame::{Frame, VECTOR};
use super::ir::Op;
use super::ir::{Builder, Invariant, Lines, VectorOperand};
use super::isa::VectorIsa;
use super::numbers::OperandNumber;
use super::routine::{Reduction, Routine};
use lines::{Columns, word, words};
use locals::Locals;
use wasm_encoder::{
    BlockType, CodeSection, EntityType, ExportKind, ExportSection, Function, FunctionSection, ImportSection,
    InstructionSink, MemoryType, Module, TypeSection, ValType,
};

/// Module and name from which the memory is imported.
pub const MEMORY: (&str, &str) = ("host", "memory");
/// Name under which the function is exported.
pub const FUNCTION: &str = "loop";

/// Maximum number of IR instructions of a function. Engines take time and memory for each of them, so longer
/// routines stay interpreted.
const MOST_LINES: usize = 20_000;
/// Number of columns that the reduction of a long row processes at a time.
const CHUNK: i32 = 256;
/// Number of columns in a quarter of [`CHUNK`]: the distance between the four elements that are combined
/// first.
const FOURTH: i32 = 64;
/// Number of columns in a vector of the frame.
const VECTOR_COLUMNS: i32 = 16;
/// Number of vectors of the frame for each reduction: four of running results, and one of a row's last
/// elements.
const BUFFERS: usize = 5;

/// Returns the bytes of a routine's module, and the size of the frame that its function requires, in bytes.
/// Returns `None` if the routine is too long.
pub fn assemble(routine: &Routine) -> Option<(Vec<u8>, usize)> {
    let copies = if routine.long && !routine.reductions.is_empty() { 6 } else { 2 };
    let picks: usize = routine.picks.iter().map(|pick| pick.lines.len()).sum();
    if copies * routine.lines.len() + picks > MOST_LINES {
        return None;
    }
    let frame = Frame::new(routine.operands.len(), BUFFERS * routine.reductions.len(), 0, 0);
    let locals = Locals::new(routine);
    let mut function = Function::new(locals.types());
    let mut emitter = Emitter { code: function.instructions(), routine, locals: &locals, frame };
    emitter.function();
    Some((module(&function), frame.bytes(0)))
}

fn module(function: &Function) -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32], []);
    let mut imports = ImportSection::new();
    // With threads, the memory is shared, and a shared memory must have a maximum size.
    let shared = cfg!(target_os = "wasi");
    let maximum = shared.then_some(1 << 16);
    let memory = MemoryType { minimum: 0, maximum, memory64: false, shared, page_size_log2: None };
    imports.import(MEMORY.0, MEMORY.1, EntityType::Memory(memory));
    let mut functions = FunctionSection::new();
    functions.function(0);
    let mut exports = ExportSection::new();
    exports.export(FUNCTION, ExportKind::Func, 0);
    let mut code = CodeSection::new();
    code.function(function);
    let mut module = Module::new();
    module.section(&types).section(&imports).section(&functions).section(&exports).section(&code);
    module.finish()
}

struct Emitter<'a> {
    code: InstructionSink<'a>,
    routine: &'a Routine,
    locals: &'a Locals,
    frame: Frame,
}

impl Emitter<'_> {
    fn function(&mut self) {
        let Locals { frame, rows, columns, .. } = *self.locals;
        for (local, place) in [(rows, Frame::ROWS), (columns, Frame::COLUMNS)] {
            self.code.local_get(frame).i32_load(word(place)).local_set(local);
        }
        for (number, &(address, stride)) in self.locals.operands.iter().enumerate() {
            let place = Frame::operand(OperandNumber::new(number));
            self.code.local_get(frame).i32_load(word(place)).local_set(address);
            self.code.local_get(frame).i32_load(word(place + 8)).local_set(stride);
        }
        for (number, invariant) in self.routine.lines.invariants.iter().enumerate() {
            if let Invariant::Constant(bits) = *invariant {
                self.code.v128_const(words([bits; 4])).local_set(self.locals.invariants[number]);
            }
        }
        self.code.loop_(BlockType::Empty);
        self.row();
        // Decrement `rows`, and continue with the next row if there is one.
        self.code.local_get(rows).i32_const(1).i32_sub().local_tee(rows).if_(BlockType::Empty);
        for &(address, stride) in &self.locals.operands {
            self.code.local_get(address).local_get(stride).i32_add().local_set(address);
        }
        self.code.br(1).end().end().end();
    }

    fn row(&mut self) {
        for (number, invariant) in self.routine.lines.invariants.iter().enumerate() {
            let Invariant::Row(operand) = *invariant else { continue };
            self.code.local_get(self.locals.operands[operand.index()].0);
            match self.routine.operands[operand.index()] {
                1 => self.code.i32_load8_u(lines::byte(0)).i32x4_splat(),
                _ => self.code.v128_load32_splat(word(0)),
            };
            self.code.local_set(self.locals.invariants[number]);
        }
        (0..self.routine.picks.len()).for_each(|pick| self.pick(pick));
        if self.routine.lines.is_empty() {
            return;
        }
        self.code.i32_const(0).local_set(self.locals.column);
        if self.routine.reductions.is_empty() {
            self.walk(false);
        } else {
            self.reduced_row();
        }
    }

    /// Emits the instructions of a pick, for the column that the row's index selects, if the row has this
    /// column.
    fn pick(&mut self, number: usize) {
        let Locals { frame, column, columns, .. } = *self.locals;
        let routine = self.routine;
        let pick = &routine.picks[number];
        self.code.local_get(self.locals.operands[pick.index.index()].0).i32_load(word(0));
        self.code.local_get(frame).i32_load(word(Frame::NUMBERS)).i32_sub().local_tee(column);
        // As unsigned numbers, negative indices exceed the number of columns.
        self.code.local_get(columns).i32_lt_u().if_(BlockType::Empty);
        self.lines(&pick.lines, Columns::One, &mut |_, _, _| unreachable!("picks reduce nothing"));
        self.code.end();
    }

    /// Emits `local = columns`, rounded down to a multiple of `multiple`, a power of two.
    fn round_down(&mut self, local: u32, multiple: i32) {
        self.code.local_get(self.locals.columns).i32_const(-multiple).i32_and().local_set(local);
    }

    /// Emits a loop over columns, from the current one up to `end`. `body` must advance the current column.
    fn columns_until(&mut self, end: u32, body: impl FnOnce(&mut Self)) {
        let column = self.locals.column;
        self.code.local_get(column).local_get(end).i32_lt_u().if_(BlockType::Empty);
        self.code.loop_(BlockType::Empty);
        body(self);
        self.code.local_get(column).local_get(end).i32_lt_u().br_if(0).end().end();
    }

    fn advance(&mut self, columns: i32) {
        let column = self.locals.column;
        self.code.local_get(column).i32_const(columns).i32_add().local_set(column);
    }

    /// Emits loops over all columns from the current one on: four columns at a time, then one by one.
    fn walk(&mut self, reduces: bool) {
        let Locals { end, columns, .. } = *self.locals;
        self.round_down(end, 4);
        for (end, step, count) in [(end, Columns::Four { ahead: 0 }, 4), (columns, Columns::One, 1)] {
            self.columns_until(end, |this| {
                if reduces {
                    this.place();
                }
                let lines = &this.routine.lines;
                this.lines(lines, step, &mut |this, reduction, from| this.keep(reduction, step, from));
                this.advance(count);
            });
        }
    }

    fn reduced_row(&mut self) {
        let reductions = &self.routine.reductions;
        for (number, reduction) in reductions.iter().enumerate() {
            for vector in 0..4 * BUFFERS {
                self.code.local_get(self.locals.frame).v128_const(words([reduction.identity; 4]));
                self.code.v128_store(word(self.running(number) + 16 * vector));
            }
        }
        self.round_down(self.locals.end_of_fourths, FOURTH);
        self.round_down(self.locals.end_of_vectors, VECTOR_COLUMNS);
        if self.routine.long {
            self.chunks();
        }
        self.walk(true);
        (0..reductions.len()).for_each(|reduction| self.reduced(reduction));
    }

    /// Returns the offset in the frame of a reduction's running results, which a row's last elements follow.
    fn running(&self, reduction: usize) -> usize {
        self.frame.buffer(BUFFERS * reduction)
    }

    /// Emits the reduction of whole chunks of columns. In each chunk, four elements that are [`FOURTH`]
    /// columns apart are combined first.
    fn chunks(&mut self) {
        let Locals { frame, end, column, address, .. } = *self.locals;
        self.round_down(end, CHUNK);
        self.columns_until(end, |this| {
            this.code.local_get(column).i32_const(FOURTH - 1).i32_and().i32_const(2).i32_shl();
            this.code.local_get(frame).i32_add().local_set(address);
            for fourth in 0..4 {
                let lines = &this.routine.lines;
                let columns = Columns::Four { ahead: 64 * fourth };
                this.lines(lines, columns, &mut |this, reduction, from| this.fourth(reduction, fourth, from));
            }
            this.advance(4);
            // At the end of the first fourth, the other three are done too, so advance to the next chunk.
            this.code.local_get(column).i32_const(FOURTH - 1).i32_and().i32_eqz().if_(BlockType::Empty);
            this.advance(CHUNK - FOURTH);
            this.code.end();
        });
    }

    /// Emits the combination of one of four elements with those before it. After the last element, the result
    /// is combined with the running results.
    fn fourth(&mut self, reduction: usize, fourth: usize, from: u32) {
        let [first, second] = self.locals.halves[reduction];
        match fourth {
            0 => self.copy(from, first),
            1 => self.combine(reduction, [first, from], first),
            2 => self.copy(from, second),
            _ => {
                self.combine(reduction, [second, from], second);
                self.combine(reduction, [first, second], first);
                self.keep(reduction, Columns::Four { ahead: 0 }, first);
            }
        }
    }

    fn copy(&mut self, from: u32, to: u32) {
        self.code.local_get(from).local_set(to);
    }

    /// Emits `address = frame + offset`, where `offset` locates the results of the current columns: one of
    /// the 64 running results per column while at least 64 columns remain, then one of the first 16 while at
    /// least 16 remain, then a separate element for each of the last columns.
    fn place(&mut self) {
        let Locals { frame, column, end_of_fourths, end_of_vectors, address, .. } = *self.locals;
        self.code.local_get(column).i32_const(FOURTH - 1).i32_and();
        let among_first = |code: &mut InstructionSink<'_>| {
            code.local_get(column).i32_const(VECTOR_COLUMNS - 1).i32_and();
        };
        among_first(&mut self.code);
        among_first(&mut self.code);
        self.code.i32_const(FOURTH).i32_add();
        self.code.local_get(column).local_get(end_of_vectors).i32_lt_u().select();
        self.code.local_get(column).local_get(end_of_fourths).i32_lt_u().select();
        self.code.i32_const(2).i32_shl().local_get(frame).i32_add().local_set(address);
    }

    /// Emits code that combines a vector, or its first lane, with the results at `address`, and stores the
    /// combination there.
    fn keep(&mut self, reduction: usize, columns: Columns, from: u32) {
        let Locals { address, result, .. } = *self.locals;
        let place = word(self.running(reduction));
        self.code.local_get(address).v128_load(place).local_set(result);
        self.combine(reduction, [result, from], result);
        self.code.local_get(address).local_get(result);
        match columns {
            Columns::Four { .. } => self.code.v128_store(place),
            Columns::One => self.code.v128_store32_lane(place, 0),
        };
    }

    /// Emits `to = a op b` for the operator of a reduction.
    fn combine(&mut self, reduction: usize, [a, b]: [u32; 2], to: u32) {
        let Reduction { op, dtype, .. } = self.routine.reductions[reduction];
        let mut builder = Builder::new(VectorIsa::Simd128);
        let [x, y] = [0, 1].map(|number| builder.row(OperandNumber::new(number), 4));
        let VectorOperand::Value(combined) = builder.combine(op, dtype, x, y) else {
            unreachable!("a combination is a line");
        };
        let lines: Lines = builder.finish();
        self.lines_over(&lines, &[a, b], self.locals.combining);
        self.copy(self.locals.combining + lines::number(combined.index()), to);
    }

    /// Emits code that combines the running results with each other, then with the last elements, then with
    /// the row's result.
    fn reduced(&mut self, reduction: usize) {
        let Locals { frame, column, columns, end_of_vectors, result, other, .. } = *self.locals;
        let running = self.running(reduction);
        for width in [8, 4, 2, 1] {
            for vector in 0..width {
                let [a, b] = [vector, vector + width].map(|vector| word(running + 16 * vector));
                self.code.local_get(frame).v128_load(a).local_set(result);
                self.code.local_get(frame).v128_load(b).local_set(other);
                self.combine(reduction, [result, other], result);
                self.code.local_get(frame).local_get(result).v128_store(a);
            }
        }
        for apart in [2, 1] {
            self.code.local_get(result).local_get(result).i8x16_shuffle(lines::shifted(apart));
            self.code.local_set(other);
            self.combine(reduction, [result, other], result);
        }
        self.copy(end_of_vectors, column);
        self.columns_until(columns, |this| {
            this.code.local_get(column).i32_const(VECTOR_COLUMNS - 1).i32_and().i32_const(2).i32_shl();
            this.code.local_get(frame).i32_add().v128_load32_splat(word(running + 4 * VECTOR));
            this.code.local_set(other);
            this.combine(reduction, [result, other], result);
            this.advance(1);
        });
        let target = self.locals.operands[self.routine.reductions[reduction].target.index()].0;
        self.code.local_get(target).v128_load32_splat(word(0)).local_set(other);
        self.combine(reduction, [other, result], result);
        self.code.local_get(target).local_get(result).v128_store32_lane(word(0), 0);
    }
}

/// Function that emits the code for [`Op::Reduce`], given the index of the reduction and the local that
/// contains the vector.
type Reduce<'a, 'b> = &'a mut dyn FnMut(&mut Emitter<'b>, usize, u32);

/// Returns `true` if no instruction is a reduction.
fn is_plain(lines: &Lines) -> bool {
    !lines.all.iter().any(|line| matches!(line.op, Op::Reduce(_)))
}
