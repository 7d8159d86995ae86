//! Sorting of rows, of which only the first elements and their indices may be needed.
//!
//! In: rows in any layout. Out: elements and i32 indices, contiguous. A workgroup sorts a part of a row in
//! shared memory with Batcher's bitonic sort (1968), and passes on its first elements, until one part is
//! left. If too many elements are needed for that, all tiles of a row are sorted by a radix sort: Satish,
//! Harris and Garland, "Designing efficient sorting algorithms for manycore GPUs", 2009. Invariant: of equal
//! keys, the smaller index comes first.

use super::super::index::axes;
use super::super::index_at;
use super::super::ir::{Kernel, Role};
use super::{Builder, Value, Views, WORKGROUP, key};
use crate::narrow::narrow;
use gradloom_core::ir::DType;
use gradloom_core::kernel::{DIGIT_VALUES, Layout, SortMethod, SortSchedule};

/// Key and index of a missing element.
const NONE: u32 = u32::MAX;
/// Number of bits of a digit.
const DIGIT_BITS: u32 = DIGIT_VALUES.ilog2();
/// Number of words for the counts of all digits, two counts per word.
const PAIRS: u32 = 8;

/// A `Sort` op whose kernels are being built.
struct Sort<'v> {
    views: &'v Views<'v>,
    schedule: &'v SortSchedule,
    descending: bool,
    stride: u32,
    /// Layout of the first elements of the rows.
    outer: Layout,
}

pub(super) fn sort(views: &Views<'_>, schedule: &SortSchedule, descending: bool) -> Vec<Kernel> {
    if views.elements() == 0 {
        return Vec::new();
    }
    let layout = views.reads[0].layout;
    let last = layout.shape.rank() - 1;
    let outer = Layout { offset: layout.offset, ..axes(layout, 0, last) };
    let this = Sort { views, schedule, descending, stride: narrow(layout.strides[last]), outer };
    match schedule.method {
        SortMethod::Parts(part) => {
            let rounds = schedule.rounds();
            (0..rounds.len()).map(|round| this.round(part, &rounds, round)).collect()
        }
        SortMethod::Digits(tile) => (0..u32::BITS / DIGIT_BITS)
            .flat_map(|pass| [this.counts(tile, pass), this.places(), this.scatter(tile, pass)])
            .collect(),
    }
}

/// Source of the elements of a pass.
enum List {
    Operand,
    /// Keys and indices in the scratch memory.
    Scratch(u32, u32),
}

impl Sort<'_> {
    fn scratch(&self, k: &Builder, number: usize) -> u32 {
        let bytes = &self.schedule.scratch()[number];
        k.buffer(Role::Workspace { start: bytes.start, bytes: bytes.end - bytes.start }, DType::U32)
    }

    /// Loads an element of a row.
    fn load<'k>(&self, k: &'k Builder, row: Value<'k>, index: Value<'k>) -> Value<'k> {
        let buffer = k.buffer(Role::Operand(0), self.views.reads[0].dtype);
        k.load(buffer, index_at(k, &self.outer, row) + index * self.stride)
    }

    fn key<'k>(&self, k: &'k Builder, row: Value<'k>, index: Value<'k>) -> Value<'k> {
        key::in_order(k, self.load(k, row, index), self.descending)
    }

    /// Stores the element at an index, and the index itself, as element `number` of a row of the results.
    fn store<'k>(&self, k: &'k Builder, row: Value<'k>, number: Value<'k>, index: Value<'k>) {
        let position = row * narrow(self.schedule.count) + number;
        self.views.store(k, position, self.load(k, row, index));
        let places = &self.views.writes[1];
        let buffer = k.buffer(Role::Result(1), places.dtype);
        k.store(buffer, index_at(k, places.layout, position), index.cast(DType::I32));
    }

    /// Returns the kernel that sorts the parts of the elements that the previous round has selected.
    fn round(&self, part: usize, rounds: &[usize], round: usize) -> Kernel {
        let parts = rounds[round].div_ceil(part);
        let builder = Builder::new("sort: parts", WORKGROUP, self.schedule.rows * parts);
        let k = &builder;
        let [elements, part, parts] = [rounds[round], part, parts].map(narrow);
        let (row, first) = (k.group() / parts, (k.group() % parts) * part);
        let local = k.local();
        let (keys, indices) = (k.shared(DType::U32, part), k.shared(DType::U32, part));
        k.count(local, k.u32(part), k.u32(WORKGROUP), |i| {
            let number = first + i;
            let is_there = number.below(elements);
            let (key, index) = (k.var(k.u32(NONE)), k.var(k.u32(NONE)));
            k.when(is_there, || {
                index.set(match round {
                    0 => number,
                    _ => k.load(self.scratch(k, (round - 1) % 2), row * elements + number),
                });
                k.when(index.get().below(NONE), || key.set(self.key(k, row, index.get())));
            });
            k.set_element(keys, i, key.get());
            k.set_element(indices, i, index.get());
        });
        k.barrier();
        bitonic(k, [keys, indices], part);
        let is_last = round + 1 == rounds.len();
        let count = narrow(self.schedule.count);
        let gate = if is_last { self.views.gate(k) } else { None };
        k.guard([gate], || {
            k.count(local, k.u32(count), k.u32(WORKGROUP), |i| {
                let index = k.element(indices, i);
                if is_last {
                    self.store(k, row, i, index);
                } else {
                    let to = k.group() * count + i;
                    k.store(self.scratch(k, round % 2), to, index);
                }
            });
        });
        builder.finish()
    }

    /// Returns the source of a pass.
    fn list(&self, k: &Builder, pass: u32) -> List {
        match pass {
            0 => List::Operand,
            _ => {
                let first = if pass % 2 == 1 { 0 } else { 2 };
                List::Scratch(self.scratch(k, first), self.scratch(k, first + 1))
            }
        }
    }

    /// Loads the key and the index of an element in the source of a pass.
    fn read<'k>(
        &self,
        k: &'k Builder,
        list: &List,
        row: Value<'k>,
        number: Value<'k>,
    ) -> (Value<'k>, Value<'k>) {
        match *list {
            List::Operand => (self.key(k, row, number), number),
            List::Scratch(keys, indices) => {
                let at = row * narrow(self.schedule.extent) + number;
                (k.load(keys, at), k.load(indices, at))
            }
        }
    }

    /// Returns the row, the tile, and the range of the invocation's elements.
    fn own<'k>(&self, k: &'k Builder, tile: usize) -> (Value<'k>, Value<'k>, [Value<'k>; 2]) {
        let tiles = narrow(self.schedule.parts());
        let each = narrow(tile) / WORKGROUP;
        let extent = k.u32(narrow(self.schedule.extent));
        let (row, number) = (k.group() / tiles, k.group() % tiles);
        let start = number * narrow(tile) + k.local() * each;
        (row, number, [start.min(extent), (start + each).min(extent)])
    }

    /// Counts the digits of each invocation's elements, in words of two counts; the words of all invocations
    /// for a pair of digits are adjacent. Appends a barrier, which all invocations must reach.
    fn counted<'k>(
        &self,
        k: &'k Builder,
        pass: u32,
        list: &List,
        row: Value<'k>,
        [start, end]: [Value<'k>; 2],
    ) -> u32 {
        let counts = k.shared(DType::U32, PAIRS * WORKGROUP);
        for pair in 0..PAIRS {
            k.set_element(counts, k.local() + pair * WORKGROUP, k.u32(0));
        }
        k.count(start, end, k.u32(1), |i| {
            let (key, _) = self.read(k, list, row, i);
            let [place, shift] = place_of(k, key, pass);
            k.set_element(counts, place, k.element(counts, place) + (k.u32(1) << shift));
        });
        k.barrier();
        counts
    }

    /// Returns the index in the scratch memory for a digit of a tile. The word at this index first contains
    /// the number of elements with that digit, and later the position of the first of them.
    fn count_at<'k>(&self, row: Value<'k>, digit: Value<'k>, tile: Value<'k>) -> Value<'k> {
        let tiles = narrow(self.schedule.parts());
        (row * narrow(DIGIT_VALUES) + digit) * tiles + tile
    }

    /// Returns the kernel that counts the digits of each tile.
    fn counts(&self, tile: usize, pass: u32) -> Kernel {
        let builder =
            Builder::new("sort: count digits", WORKGROUP, self.schedule.rows * self.schedule.parts());
        let k = &builder;
        let (row, number, own) = self.own(k, tile);
        let counts = self.counted(k, pass, &self.list(k, pass), row, own);
        let local = k.local();
        k.halve(WORKGROUP / 2, |half| {
            k.when(local.less(half), || {
                for pair in 0..PAIRS {
                    let at = local + pair * WORKGROUP;
                    k.set_element(counts, at, k.element(counts, at) + k.element(counts, at + half));
                }
            });
            k.barrier();
        });
        k.when(local.below(narrow(DIGIT_VALUES)), || {
            let pair = k.element(counts, (local / 2) * WORKGROUP);
            let count = (pair >> ((local % 2) * 16)) & 0xffff;
            k.store(self.scratch(k, 4), self.count_at(row, local, number), count);
        });
        builder.finish()
    }

    /// Returns the kernel that replaces the counts by their exclusive prefix sums, with one workgroup per
    /// row.
    fn places(&self) -> Kernel {
        let builder = Builder::new("sort: places", WORKGROUP, self.schedule.rows);
        let k = &builder;
        let all = narrow(DIGIT_VALUES * self.schedule.parts());
        let each = all.div_ceil(WORKGROUP);
        let scratch = self.scratch(k, 4);
        let first = k.group() * all;
        let [start, end] = [0, each].map(|more| (k.local() * each + more).min(k.u32(all)));
        let sum = k.var(k.u32(0));
        k.count(start, end, k.u32(1), |i| sum.set(sum.get() + k.load(scratch, first + i)));
        let shared = k.shared(DType::U32, WORKGROUP);
        k.set_element(shared, k.local(), sum.get());
        k.barrier();
        add_earlier(k, shared, 1);
        let next = k.var(k.element(shared, k.local()) - sum.get());
        k.count(start, end, k.u32(1), |i| {
            let count = k.load(scratch, first + i);
            k.store(scratch, first + i, next.get());
            next.set(next.get() + count);
        });
        builder.finish()
    }

    /// Returns the kernel that moves the elements to their sorted positions.
    fn scatter(&self, tile: usize, pass: u32) -> Kernel {
        let builder = Builder::new("sort: by digit", WORKGROUP, self.schedule.rows * self.schedule.parts());
        let k = &builder;
        let (row, number, own) = self.own(k, tile);
        let list = self.list(k, pass);
        let counts = self.counted(k, pass, &list, row, own);
        // The exclusive prefix sum is the inclusive one minus the invocation's own counts.
        let pairs = (0..PAIRS).map(|pair| k.local() + pair * WORKGROUP);
        let mine: Vec<_> = pairs.clone().map(|at| k.element(counts, at)).collect();
        add_earlier(k, counts, PAIRS);
        for (at, mine) in pairs.zip(mine) {
            k.set_element(counts, at, k.element(counts, at) - mine);
        }
        let is_last = pass + 1 == u32::BITS / DIGIT_BITS;
        let gate = if is_last { self.views.gate(k) } else { None };
        k.guard([gate], || {
            k.count(own[0], own[1], k.u32(1), |i| {
                let (key, index) = self.read(k, &list, row, i);
                let [place, shift] = place_of(k, key, pass);
                let pair = k.element(counts, place);
                k.set_element(counts, place, pair + (k.u32(1) << shift));
                let before = (pair >> shift) & 0xffff;
                let first = k.load(self.scratch(k, 4), self.count_at(row, digit_of(key, pass), number));
                let to = first + before;
                if is_last {
                    k.when(to.below(narrow(self.schedule.count)), || self.store(k, row, to, index));
                } else if let List::Scratch(keys, indices) = self.list(k, pass + 1) {
                    let to = row * narrow(self.schedule.extent) + to;
                    k.store(keys, to, key);
                    k.store(indices, to, index);
                }
            });
        });
        builder.finish()
    }
}

/// Returns the digit of a key by which a pass sorts.
fn digit_of(key: Value<'_>, pass: u32) -> Value<'_> {
    (key >> (pass * DIGIT_BITS)) & (narrow(DIGIT_VALUES) - 1)
}

/// Returns the word in which an invocation counts a key's digit, and the lowest bit of the count.
fn place_of<'k>(k: &'k Builder, key: Value<'k>, pass: u32) -> [Value<'k>; 2] {
    let digit = digit_of(key, pass);
    [(digit / 2) * WORKGROUP + k.local(), (digit % 2) * 16]
}

/// Replaces the words of each invocation by their inclusive prefix sums. Appends barriers, which all
/// invocations must reach.
fn add_earlier(k: &Builder, array: u32, words: u32) {
    let local = k.local();
    k.count(k.u32(0), k.u32(WORKGROUP.ilog2()), k.u32(1), |turn| {
        let step = k.u32(1) << turn;
        let has = !local.less(step);
        let earlier = has.select(local - step, k.u32(0));
        let sums: Vec<_> = (0..words)
            .map(|word| {
                let other = has.select(k.element(array, earlier + word * WORKGROUP), k.u32(0));
                k.element(array, local + word * WORKGROUP) + other
            })
            .collect();
        k.barrier();
        for (word, sum) in (0..).zip(sums) {
            k.set_element(array, local + word * WORKGROUP, sum);
        }
        k.barrier();
    });
}

/// Sorts pairs of keys and indices in shared arrays, whose length must be a power of two. Appends barriers,
/// which all invocations must reach.
fn bitonic(k: &Builder, arrays: [u32; 2], elements: u32) {
    k.count(k.u32(1), k.u32(elements.ilog2() + 1), k.u32(1), |stage| {
        let size = k.u32(1) << stage;
        k.count(k.u32(0), stage, k.u32(1), |turn| {
            let apart = (size >> 1) >> turn;
            k.count(k.local(), k.u32(elements / 2), k.u32(WORKGROUP), |pair| {
                let low = pair & (apart - 1);
                let first = (pair - low) * 2 + low;
                let places = [first, first + apart];
                let [a, b] = places.map(|place| arrays.map(|array| k.element(array, place)));
                let greater = b[0].less(a[0]) | (b[0].equals(a[0]) & b[1].less(a[1]));
                let ascending = (first & size).equals(k.u32(0));
                k.when(greater.equals(ascending), || {
                    for (place, pair) in places.into_iter().zip([b, a]) {
                        arrays.into_iter().zip(pair).for_each(|(array, x)| k.set_element(array, place, x));
                    }
                });
            });
            k.barrier();
        });
    });
}
