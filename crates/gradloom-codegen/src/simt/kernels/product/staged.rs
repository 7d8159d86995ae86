//! An operand's tile on its way from the buffer through registers to workgroup memory.
//!
//! The tile keeps the operand's own order, with neighbours along the axis that is contiguous in memory side
//! by side, so nothing is transposed on the way. Its rows are padded by one where that keeps the banks of
//! workgroup memory apart.

use super::operand::TiledOperand;
use crate::narrow::narrow;
use crate::product::Along;
use crate::simt::{Builder, Value, ValueType, Variable};
use gradloom_core::ir::DType;

/// Shape of a tile.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Rows (or columns).
    pub(super) extent: u32,
    /// Terms.
    pub(super) depth: u32,
    /// Dtype that it holds for matrix instructions, if these compute the product: floats of 16 bits, or
    /// f32.
    pub(super) matrix: Option<DType>,
    /// Rows that a thread reads together; they are stored this far apart from each other, so that
    /// neighbouring threads read neighbours.
    pub(super) strip: u32,
    /// Of the group that shares the tile.
    pub(super) threads: u32,
    pub(super) buffers: u32,
}

/// The group of threads that a tile belongs to.
#[derive(Clone, Copy)]
pub(super) struct TileThreads<'k> {
    /// This thread's number in it.
    pub(super) local: Value<'k>,
    /// Its number among the groups of the workgroup, if there are several.
    pub(super) slice: Option<Value<'k>>,
    /// Groups.
    pub(super) slices: u32,
    /// Terms of each, if there are several.
    pub(super) terms: u32,
}

impl<'k> TileThreads<'k> {
    /// Returns the group of all threads of a workgroup.
    pub(super) fn whole(k: &'k Builder) -> Self {
        Self { local: k.local(), slice: None, slices: 1, terms: 0 }
    }
}

/// A tile of `extent` rows (or columns) by `depth` terms, in items of four neighbours.
pub(super) struct Staged<'k> {
    operand: TiledOperand<'k>,
    shape: Shape,
    group: TileThreads<'k>,
    /// The array of the workgroup.
    pub(super) array: u32,
    rounds: Vec<Round<'k>>,
}

/// One of the items that a thread brings.
struct Round<'k> {
    /// Row (or column) and term of the item in the matrix and in the tile.
    free: Value<'k>,
    term: Value<'k>,
    /// Its place in a buffer.
    slot: Value<'k>,
    next: Variable<'k>,
    /// When the thread has an item, where not every thread has.
    active: Option<Value<'k>>,
}

/// Writes the loop over the tiles of both operands, from the first to the last term: while `body` works on
/// one tile, whose buffers start at the items that it is given, the next one is loaded into registers.
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
    /// Returns the dtype of what it holds for matrix instructions.
    fn held(&self) -> Option<DType> {
        self.matrix
    }

    /// Returns the distance between rows along the contiguous axis in workgroup memory, in items.
    fn pitch(&self, along: Along) -> u32 {
        match (along, self.held()) {
            // Of f32, the elements that a matrix load takes at once lie in as many banks so.
            (Along::Contract, None | Some(DType::F32)) => self.depth / 4 + 1,
            // Reads of vectors from one such row never meet in a bank.
            (Along::Free, None) => self.extent / 4,
            // Matrix loads take 16 bytes of several rows at once.
            (Along::Contract, Some(_)) => self.depth / 4 + 2,
            (Along::Free, Some(_)) => self.extent / 4 + 2,
        }
    }

    fn items(&self) -> u32 {
        self.extent * self.depth / 4
    }

    /// Rounds an item to what the tile holds.
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

    /// Returns the line of a row in a tile with contiguous terms: strips are dealt out.
    fn dealt(&self, row: Value<'k>) -> Value<'k> {
        let Shape { strip, extent, .. } = self.shape;
        if strip == 1 { row } else { (row % strip) * (extent / strip) + row / strip }
    }

    /// Returns the source and the target of this thread's item of a round.
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
        // The same round of the loop is at other terms in other groups.
        let term = match self.group.slice {
            Some(slice) => term + slice * self.group.terms,
            _ => term,
        };
        for round in &self.rounds {
            self.operand.k.guard([round.active], || round.next.set(self.value(round, term)));
        }
    }

    /// Stores the registers into the buffer that starts at an item.
    fn store(&self, start: Value<'k>) {
        let k = self.operand.k;
        for round in &self.rounds {
            k.guard([round.active], || k.set_element(self.array, start + round.slot, round.next.get()));
        }
    }

    /// Returns the item of a round, zero where there are no terms; rows and columns beyond the operand
    /// repeat its last ones.
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

    /// Returns the index of a lane of the round's item; clamped, so that `width` elements from there exist.
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
