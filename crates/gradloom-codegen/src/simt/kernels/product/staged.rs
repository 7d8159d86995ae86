//! Staging of an operand's tile: from the buffer through registers into shared memory.
//!
//! Elements that are adjacent in the operand stay adjacent in the tile, so nothing is transposed. Lines are
//! padded where that avoids bank conflicts.

use super::operand::TiledOperand;
use crate::narrow::narrow;
use crate::product::Along;
use crate::simt::{Builder, Value, ValueType, Variable};
use gradloom_core::ir::DType;

/// Shape of a tile.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Number of rows (or columns).
    pub(super) extent: u32,
    /// Number of terms.
    pub(super) depth: u32,
    /// Dtype of the elements for matrix instructions, a 16-bit float or f32; `None` if the product uses none.
    pub(super) matrix: Option<DType>,
    /// Number of consecutive rows that a thread reads. They are stored `extent / strip` lines apart, so that
    /// adjacent threads read adjacent lines.
    pub(super) strip: u32,
    /// Number of threads that share the tile.
    pub(super) threads: u32,
    pub(super) buffers: u32,
}

/// Group of threads that share a tile.
#[derive(Clone, Copy)]
pub(super) struct TileThreads<'k> {
    /// Index of the thread in the group.
    pub(super) local: Value<'k>,
    /// Index of the group in the workgroup, if there are several.
    pub(super) slice: Option<Value<'k>>,
    /// Number of groups.
    pub(super) slices: u32,
    /// Number of terms of each group, if there are several.
    pub(super) terms: u32,
}

impl<'k> TileThreads<'k> {
    /// Returns the group of all threads of a workgroup.
    pub(super) fn whole(k: &'k Builder) -> Self {
        Self { local: k.local(), slice: None, slices: 1, terms: 0 }
    }
}

/// Tile of an operand in shared memory: [`Shape::extent`] rows (or columns) by [`Shape::depth`] terms, in
/// items of four adjacent elements.
pub(super) struct Staged<'k> {
    operand: TiledOperand<'k>,
    shape: Shape,
    group: TileThreads<'k>,
    /// Number of the array in shared memory.
    pub(super) array: u32,
    rounds: Vec<Round<'k>>,
}

/// One of the items that a thread loads.
struct Round<'k> {
    /// Row (or column) of the item in the matrix.
    free: Value<'k>,
    /// First term of the item in the tile.
    term: Value<'k>,
    /// Index of the item in a buffer.
    slot: Value<'k>,
    next: Variable<'k>,
    /// True if the thread has an item in this round; `None` if all threads do.
    active: Option<Value<'k>>,
}

/// Appends the loop over the tiles of both operands, from the first to the last term. While `body` processes
/// a tile of each operand, given the start of its buffer, the next tiles are loaded into registers.
pub(super) fn pipeline<'k>(
    k: &'k Builder,
    sides: [&Staged<'k>; 2],
    [first, end]: [Value<'k>; 2],
    body: impl FnOnce([Value<'k>; 2]),
) {
    let Shape { depth, buffers, .. } = sides[0].shape;
    let fetch = |term: Value<'k>| sides.iter().for_each(|side| side.fetch(term));
    let is_double = buffers == 2;
    let buffer = is_double.then(|| k.var(k.u32(0)));
    let starts = || {
        sides.map(|side| match buffer {
            Some(buffer) => buffer.get() * side.size(),
            None => match side.group.slice {
                Some(slice) => slice * side.size(),
                _ => k.u32(0),
            },
        })
    };
    let store = || sides.iter().zip(starts()).for_each(|(side, start)| side.store(start));
    fetch(first);
    if is_double {
        store();
        k.barrier();
    }
    k.count(first, end, k.u32(depth), |term| {
        if !is_double {
            store();
            k.barrier();
        }
        let next = term + depth;
        let has_more = next.less(end);
        k.when(has_more, || fetch(next));
        body(starts());
        if let Some(buffer) = buffer {
            buffer.set(k.u32(1) - buffer.get());
            k.when(has_more, store);
        }
        k.barrier();
    });
}

impl Shape {
    /// Returns the dtype of the elements for matrix instructions.
    fn held(&self) -> Option<DType> {
        self.matrix
    }

    /// Returns the stride between lines in shared memory, in items.
    fn pitch(&self, along: Along) -> u32 {
        match (along, self.held()) {
            // Padding of one item places the elements of a matrix load of f32 in distinct banks.
            (Along::Contract, None | Some(DType::F32)) => self.depth / 4 + 1,
            // Vector loads from a line have no bank conflicts, so lines are not padded.
            (Along::Free, None) => self.extent / 4,
            // Matrix loads read 16 bytes of several lines together; padding of two items places them in
            // distinct banks.
            (Along::Contract, Some(_)) => self.depth / 4 + 2,
            (Along::Free, Some(_)) => self.extent / 4 + 2,
        }
    }

    fn items(&self) -> u32 {
        self.extent * self.depth / 4
    }

    /// Rounds an item to the dtype of the tile.
    fn rounded<'k>(&self, four: Value<'k>) -> Value<'k> {
        match self.held() {
            None | Some(DType::F32) => four.to_vector(),
            Some(half) => four.to_half(half),
        }
    }

    fn item(&self) -> ValueType {
        ValueType::four(self.held().unwrap_or(DType::F32))
    }
}

impl<'k> Staged<'k> {
    pub(super) fn new(operand: TiledOperand<'k>, shape: Shape, group: TileThreads<'k>) -> Self {
        let k = operand.k;
        let lines = if operand.side.along == Along::Contract { shape.extent } else { shape.depth };
        let size = shape.pitch(operand.side.along) * lines;
        let array = k.shared(shape.item(), group.slices * shape.buffers * size);
        let mut staged = Self { operand, shape, group, array, rounds: Vec::new() };
        staged.rounds = (0..shape.items().div_ceil(shape.threads)).map(|round| staged.round(round)).collect();
        staged
    }

    pub(super) fn pitch(&self) -> u32 {
        self.shape.pitch(self.operand.side.along)
    }

    /// Returns the number of items of one buffer.
    fn size(&self) -> u32 {
        let Shape { extent, depth, .. } = self.shape;
        self.pitch() * if self.operand.side.along == Along::Contract { extent } else { depth }
    }

    /// Returns the line of a row in a tile whose terms are contiguous. Rows of a strip are spread over the
    /// tile.
    fn dealt(&self, row: Value<'k>) -> Value<'k> {
        let Shape { strip, extent, .. } = self.shape;
        if strip == 1 { row } else { (row % strip) * (extent / strip) + row / strip }
    }

    /// Returns the source and destination of the thread's item of a round.
    fn round(&self, round: u32) -> Round<'k> {
        let (k, Shape { extent, depth, threads, .. }) = (self.operand.k, self.shape);
        let number = self.group.local + round * threads;
        let is_contract = self.operand.side.along == Along::Contract;
        let width = if is_contract { depth } else { extent } / 4;
        let (along, other) = (number % width, number / width);
        let (free, term, line) = match is_contract {
            true => (other, along * 4, self.dealt(other)),
            false => (along * 4, other, other),
        };
        let zero = k.f32(0.0).splat();
        Round {
            free: self.operand.first + free,
            term,
            slot: line * self.pitch() + along,
            next: k.var(self.shape.rounded(zero)),
            active: ((round + 1) * threads > self.shape.items()).then(|| number.below(self.shape.items())),
        }
    }

    /// Loads the tile of terms from `term` on into registers.
    fn fetch(&self, term: Value<'k>) {
        // Add the start of the group's range of terms: in the same iteration, each group processes terms of a
        // different range.
        let term = match self.group.slice {
            Some(slice) => term + slice * self.group.terms,
            _ => term,
        };
        for round in &self.rounds {
            self.operand.k.guard([round.active], || round.next.set(self.value(round, term)));
        }
    }

    /// Stores the registers into the buffer that starts at item `start`.
    fn store(&self, start: Value<'k>) {
        let k = self.operand.k;
        for round in &self.rounds {
            k.guard([round.active], || k.set_element(self.array, start + round.slot, round.next.get()));
        }
    }

    /// Returns the item of a round. Terms beyond the operand are zero; rows and columns beyond it repeat the
    /// last.
    fn value(&self, round: &Round<'k>, term: Value<'k>) -> Value<'k> {
        let k = self.operand.k;
        let contract = narrow(self.operand.side.contract);
        let has_edge = !self.operand.side.contract.is_multiple_of(self.shape.depth as usize);
        let is_contract = self.operand.side.along == Along::Contract;
        let inside = |value: Value<'k>, lane: u32, zero: Value<'k>| match has_edge {
            true => {
                let lane = if is_contract { lane } else { 0 };
                (term + round.term + lane).below(contract).select(value, zero)
            }
            false => value,
        };
        let rounded = |four: Value<'k>| self.shape.rounded(four);
        if self.operand.has_fours {
            let zero = rounded(k.f32(0.0).splat());
            return inside(rounded(self.operand.stored_four(self.index(round, term, 0, 4))), 0, zero);
        }
        let lane =
            |lane: u32| inside(self.operand.element(self.index(round, term, lane, 1)), lane, k.f32(0.0));
        rounded(k.vector_of(&lane))
    }

    /// Returns the index of a lane of the round's item, clamped so that `width` elements exist from there on.
    fn index(&self, round: &Round<'k>, term: Value<'k>, lane: u32, width: usize) -> Value<'k> {
        let k = self.operand.k;
        let side = &self.operand.side;
        let (free_lane, term_lane, free_width, term_width) = match side.along {
            Along::Free => (lane, 0, width, 1),
            Along::Contract => (0, lane, 1, width),
        };
        let clamp = |value: Value<'k>, tile: u32, extent: usize, width: usize| match extent
            .is_multiple_of(tile as usize)
        {
            true => value,
            false => value.min(k.u32(narrow(extent.saturating_sub(width)))),
        };
        let free = clamp(round.free + free_lane, self.shape.extent, side.free, free_width);
        let term = clamp(term + round.term + term_lane, self.shape.depth, side.contract, term_width);
        self.operand.term(self.operand.row(free), term)
    }
}
