//! Matrix products by register tiles.
//!
//! A thread accumulates its results in vectors of four columns. The rows of a thread consist of strips (of 4
//! rows, or all if there are fewer): strip s of thread t is strip `s * threads + t` of the tile, so that
//! adjacent threads access adjacent memory. Columns are assigned in the same way.

use super::grid::Grid;
use super::operand::TiledOperand;
use super::staged::{Shape, Staged, TileThreads, pipeline};
use super::{At, Product};
use crate::narrow::narrow;
use crate::product::Along;
use crate::simt::{Builder, Kernel, Value, ValueType, Variable};
use gradloom_core::kernel::{Staging, Tile};

/// Access of a thread to one operand.
struct Reader<'k> {
    operand: TiledOperand<'k>,
    /// Number of rows (or columns) of the tile.
    extent: u32,
    /// Number of rows (or columns) of a strip.
    strip: u32,
    /// Number of strips of a thread.
    strips: u32,
    /// Number of threads along this axis.
    threads: u32,
    /// Index of the thread along this axis.
    place: Value<'k>,
    from: From<'k>,
}

/// Source of elements.
enum From<'k> {
    /// Buffer, with the start index of each row, or of each strip that is loaded as a vector.
    Registers(Vec<Value<'k>>),
    /// Shared memory.
    Tile(Staged<'k>),
}

/// Terms of a thread's rows (or columns).
enum Loaded<'k> {
    /// For each row, a vector of its terms.
    Terms(Vec<Value<'k>>),
    /// For each term, vectors of the elements of four rows.
    Strips(Vec<Vec<Value<'k>>>),
    /// For each term, the elements of the rows.
    Rows(Vec<Vec<Value<'k>>>),
}

impl<'k> Loaded<'k> {
    /// Returns the element of row `i` and term `t`.
    fn value(&self, i: u32, t: u32) -> Value<'k> {
        let (row, term) = (i as usize, t as usize);
        match self {
            Self::Terms(rows) => rows[row].component(t),
            Self::Strips(terms) => terms[term][row / 4].component(i % 4),
            Self::Rows(terms) => terms[term][row],
        }
    }

    /// Returns the elements of four rows, from row `i` on, at term `t`, as a vector.
    fn four(&self, k: &'k Builder, i: u32, t: u32) -> Value<'k> {
        match self {
            Self::Strips(terms) => terms[t as usize][i as usize / 4],
            _ => k.vector_of(&|lane| self.value(i + lane, t)),
        }
    }
}

impl<'k> Reader<'k> {
    fn new(
        operand: TiledOperand<'k>,
        [extent, each, strip]: [u32; 3],
        place: Value<'k>,
        tile: &Tile,
        group: TileThreads<'k>,
    ) -> Self {
        let staged = |buffers| {
            let shape = Shape { extent, depth: tile.k, matrix: None, strip, threads: tile.group(), buffers };
            From::Tile(Staged::new(operand, shape, group))
        };
        let from = match tile.staging {
            Staging::Workgroup(buffers) => staged(buffers),
            Staging::Sliced(_) => staged(1),
            Staging::Registers | Staging::Scalars | Staging::Lanes(_) => From::Registers(Vec::new()),
        };
        let mut reader =
            Self { operand, extent, strip, strips: each / strip, threads: extent / each, place, from };
        if matches!(reader.from, From::Registers(_)) {
            reader.from = From::Registers(reader.starts());
        }
        reader
    }

    fn count(&self) -> u32 {
        self.strip * self.strips
    }

    /// Returns the index of the thread's strip `s` among the strips of the tile.
    fn strip_place(&self, s: u32) -> Value<'k> {
        self.place + s * self.threads
    }

    /// Returns the index of the thread's row (or column) `i` in the operand.
    fn position(&self, i: u32) -> Value<'k> {
        self.operand.first + self.strip_place(i / self.strip) * self.strip + i % self.strip
    }

    /// Returns a bool that is true if a row exists; `None` if all rows do.
    fn inside(&self, position: Value<'k>) -> Option<Value<'k>> {
        let free = narrow(self.operand.side.free);
        self.operand.has_edge(self.extent).then(|| position.below(free))
    }

    /// Returns `true` if a strip is loaded as a vector.
    fn has_strip_vectors(&self) -> bool {
        let vectors = matches!(self.from, From::Tile(_)) || self.operand.has_fours;
        self.operand.side.along == Along::Free && self.strip == 4 && vectors
    }

    /// Returns the start indices of the rows, or of the strips that are loaded as vectors.
    fn starts(&self) -> Vec<Value<'k>> {
        let (step, k) = (if self.has_strip_vectors() { 4 } else { 1 }, self.operand.k);
        let start = |i| {
            let last = k.u32(narrow(self.operand.side.free.saturating_sub(step)));
            let position = self.position(i);
            let has_edge = self.operand.has_edge(self.extent);
            self.operand.row(if has_edge { position.min(last) } else { position })
        };
        (0..self.count()).step_by(step).map(start).collect()
    }

    /// Loads `terms` terms, 4 or 1, from `term` on. From shared memory, it always loads 4; `term` counts
    /// groups of 4, and `buffer` is the start of the tile.
    fn load(&self, term: Value<'k>, terms: u32, buffer: Value<'k>) -> Loaded<'k> {
        let by_terms = self.operand.side.along == Along::Contract && terms == 4;
        match &self.from {
            From::Tile(tile) if by_terms => Loaded::Terms(self.terms_of_tile(tile, buffer, term)),
            From::Tile(tile) => self.strips_of_tile(tile, buffer, term),
            From::Registers(starts) if by_terms => {
                let vector = |&start: &Value<'k>| self.vector_of_terms(start, term);
                Loaded::Terms(starts.iter().map(vector).collect())
            }
            From::Registers(starts) => {
                let load = |t: u32, &start: &Value<'k>| {
                    let at = self.operand.term(start, term + t);
                    if self.has_strip_vectors() { self.operand.four(at) } else { self.operand.element(at) }
                };
                let all = (0..terms).map(|t| starts.iter().map(|start| load(t, start)).collect()).collect();
                if self.has_strip_vectors() { Loaded::Strips(all) } else { Loaded::Rows(all) }
            }
        }
    }

    /// Loads four adjacent terms of the row whose first element is at `start`.
    fn vector_of_terms(&self, start: Value<'k>, term: Value<'k>) -> Value<'k> {
        let at = |t: u32| self.operand.term(start, term + t);
        match self.operand.has_fours {
            true => self.operand.four(at(0)),
            false => self.operand.k.vector_of(&|t| self.operand.element(at(t))),
        }
    }

    /// Loads four terms of each row from a tile in which terms are contiguous.
    fn terms_of_tile(&self, tile: &Staged<'k>, buffer: Value<'k>, four: Value<'k>) -> Vec<Value<'k>> {
        let row = |i: u32| self.strip_place(i / self.strip) + i % self.strip * (self.extent / self.strip);
        let item = |i: u32| self.operand.k.element(tile.array, buffer + row(i) * tile.pitch() + four);
        (0..self.count()).map(item).collect()
    }

    /// Loads four terms of each row from a tile in which rows are contiguous.
    fn strips_of_tile(&self, tile: &Staged<'k>, buffer: Value<'k>, four: Value<'k>) -> Loaded<'k> {
        let k = self.operand.k;
        let line = |t: u32| buffer + (four * 4 + t) * tile.pitch();
        if self.has_strip_vectors() {
            let item = |t: u32, s: u32| k.element(tile.array, line(t) + self.strip_place(s));
            let strips = |t: u32| (0..self.strips).map(|s| item(t, s)).collect();
            return Loaded::Strips((0..4).map(strips).collect());
        }
        let element = |t: u32, i: u32| {
            let at = self.strip_place(i / self.strip) * self.strip + i % self.strip;
            k.element_part(tile.array, line(t) + at / 4, at % 4)
        };
        let rows = |t: u32| (0..self.count()).map(|i| element(t, i)).collect();
        Loaded::Rows((0..4).map(rows).collect())
    }
}

impl Product<'_> {
    /// Returns the kernel of the product, or of its split-K partial sums.
    pub(super) fn portable(&self, tile: &Tile) -> Kernel {
        let grid = Grid::new(self, [tile.m, tile.n]);
        let k = Builder::new(&self.label(": parts"), tile.threads(), grid.count());
        let own = grid.tile(&k, self.problem);
        let [lhs, rhs] = TiledOperand::both(&k, self, &own);
        let slices = tile.slices();
        let slice = (slices > 1).then(|| k.local() / tile.group());
        let local = if slices > 1 { k.local() % tile.group() } else { k.local() };
        let group = TileThreads { local, slice, slices, terms: narrow(self.problem.k) / slices };
        let [row, column] = places(local, tile);
        let lhs = Reader::new(lhs, [tile.m, tile.thread_m, tile.thread_m.min(4)], row, tile, group);
        let rhs = Reader::new(rhs, [tile.n, tile.thread_n, 4], column, tile, group);
        let sum = || k.var(k.f32(0.0).splat());
        let sums: Vec<Vec<_>> = (0..lhs.count()).map(|_| (0..rhs.strips).map(|_| sum()).collect()).collect();
        if self.problem.k > 0 {
            let terms = match slices {
                1 => self.terms(&k, own.part),
                _ => [k.u32(0), k.u32(group.terms)],
            };
            match (&lhs.from, &rhs.from) {
                (From::Tile(left), From::Tile(right)) => {
                    pipeline(&k, [left, right], terms, |[left, right]| {
                        // Unroll the terms of a tile; in a loop, the kernel was a quarter slower (H100,
                        // 4096^3: 31 instead of 42 TFLOP/s).
                        for four in 0..tile.k / 4 {
                            let four = k.u32(four);
                            multiply(&k, &sums, &lhs.load(four, 4, left), &rhs.load(four, 4, right), 4);
                        }
                    });
                }
                _ => self.register_loop(&k, [&lhs, &rhs], terms, &sums),
            }
        }
        let at = At { own, row, column };
        match slice {
            None => self.results(&k, at, [&lhs, &rhs], &sums),
            Some(slice) => {
                add_slices(&k, &sums, tile, group, slice);
                k.when(slice.equals(k.u32(0)), || self.results(&k, at, [&lhs, &rhs], &sums));
            }
        }
        k.finish()
    }

    fn register_loop<'k>(
        &self,
        k: &'k Builder,
        [lhs, rhs]: [&Reader<'k>; 2],
        [first, end]: [Value<'k>; 2],
        sums: &[Vec<Variable<'k>>],
    ) {
        let none = k.u32(0);
        let step = |from: Value<'k>, to: Value<'k>, terms: u32| {
            k.count(from, to, k.u32(terms), |term| {
                multiply(k, sums, &lhs.load(term, terms, none), &rhs.load(term, terms, none), terms);
            });
        };
        if self.problem.k.is_multiple_of(4) {
            return step(first, end, 4);
        }
        let whole = first + (end - first) / 4 * 4;
        step(first, whole, 4);
        step(whole, end, 1);
    }

    /// Finishes or stores the sums.
    fn results<'k>(
        &self,
        k: &'k Builder,
        at: At<'k>,
        [lhs, rhs]: [&Reader<'k>; 2],
        sums: &[Vec<Variable<'k>>],
    ) {
        let lanes = self.lanes();
        for (i, sums) in (0..).zip(sums) {
            let row = lhs.position(i);
            k.guard([lhs.inside(row)], || {
                for (j, sum) in (0..).zip(sums) {
                    let sum = sum.get();
                    for lane in (0..4).step_by(lanes as usize) {
                        let column = rhs.position(4 * j + lane);
                        k.guard([rhs.inside(column)], || {
                            let value = if lanes == 4 { sum } else { sum.component(lane) };
                            self.put(k, At { row, column, ..at }, value);
                        });
                    }
                }
            });
        }
    }
}

/// Adds the sums of the other slices to those of the first, through shared memory.
fn add_slices<'k>(
    k: &'k Builder,
    sums: &[Vec<Variable<'k>>],
    tile: &Tile,
    group: TileThreads<'k>,
    slice: Value<'k>,
) {
    let all: Vec<&Variable<'k>> = sums.iter().flatten().collect();
    let (count, threads) = (narrow(all.len()), tile.group());
    let waiting = k.shared(ValueType::Vector(4), (group.slices - 1) * count * threads);
    let place = |slice: Value<'k>, i: u32| (slice * count + i) * threads + group.local;
    k.when(k.u32(0).less(slice), || {
        for (i, sum) in (0..).zip(&all) {
            k.set_element(waiting, place(slice - 1, i), sum.get());
        }
    });
    k.barrier();
    k.when(slice.equals(k.u32(0)), || {
        for (i, sum) in (0..).zip(&all) {
            for other in 0..group.slices - 1 {
                sum.set(sum.get() + k.element(waiting, place(k.u32(other), i)));
            }
        }
    });
}

/// Adds the products of loaded terms to the sums.
fn multiply<'k>(
    k: &'k Builder,
    sums: &[Vec<Variable<'k>>],
    left: &Loaded<'k>,
    right: &Loaded<'k>,
    terms: u32,
) {
    for t in 0..terms {
        let rights: Vec<_> = (0..).zip(&sums[0]).map(|(j, _)| right.four(k, 4 * j, t)).collect();
        for (i, sums) in (0..).zip(sums) {
            let left = left.value(i, t).splat();
            for (sum, &right) in sums.iter().zip(&rights) {
                sum.set(left.mul_add(right, sum.get()));
            }
        }
    }
}

/// Returns the thread's row and column in the tile. Blocks of 8 x 4 threads access the fewest distinct
/// addresses together.
fn places<'k>(thread: Value<'k>, tile: &Tile) -> [Value<'k>; 2] {
    let (rows, columns) = (tile.m / tile.thread_m, tile.n / tile.thread_n);
    if rows.is_multiple_of(4) && columns.is_multiple_of(8) && columns > 8 {
        let blocks = columns / 8;
        return [(thread / (32 * blocks)) * 4 + (thread / 8) % 4, (thread / 32 % blocks) * 8 + thread % 8];
    }
    [thread / columns, thread % columns]
}
