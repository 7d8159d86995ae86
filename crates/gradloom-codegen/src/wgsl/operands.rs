//! Bindings of a launch: ranges of the plan's regions, and the positions of operands and results in them.
//!
//! In: a launch and its plan. Out: [`Operands`]. Invariants: bindings do not overlap, which WebGPU requires
//! if a dispatch writes one of them, so a result that aliases an operand shares its binding. Bindings of a
//! region that the launch does not write are read-only.

use super::dispatch::Context;
use crate::kernels::Cuts;
use crate::limits::Limits;
use crate::narrow::elements_in;
use crate::simt::kernels::{View, Views};
use gradloom_core::collections::sort_by_key;
use gradloom_core::ir::DType;
use gradloom_core::kernel::{Access, Launch, Layout};
use gradloom_core::plan::{ALIGNMENT, Region, Role};
use std::ops::Range;

/// Declared type of a binding's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Scalars of a dtype of 32 bits, or of f16 if shaders may use it.
    Plain(DType),
    /// Vectors of four f32 or f16.
    Vector(DType),
    /// u32 words, whose bits are reinterpreted by loads and stores.
    Word,
    /// u32 words with smaller elements, some of which are written. Stores are atomic, because other
    /// invocations may write the other elements of a word.
    Atomic,
}

/// Range of a region that shaders bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Region of memory.
    pub region: Region,
    /// Range of bytes, which starts at a multiple of [`ALIGNMENT`].
    pub range: Range<u64>,
    /// True if shaders may write the range.
    pub writable: bool,
    /// Declared type of the binding's elements.
    pub element: Element,
}

impl Binding {
    /// Returns the number of bytes of the range.
    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Returns the number of pieces into which the adapter's size limit splits the binding, at least 1.
    pub fn pieces(&self, limits: &Limits) -> usize {
        usize::try_from(self.bytes().div_ceil(piece_bytes(limits)).max(1)).unwrap_or(usize::MAX)
    }

    /// Returns the range of bytes of the piece with this index, relative to the start of the binding's range.
    pub fn piece(&self, number: usize, limits: &Limits) -> Range<u64> {
        let (bytes, number) = (piece_bytes(limits), number as u64);
        number * bytes..((number + 1) * bytes).min(self.bytes())
    }
}

/// Returns the number of bytes of each piece of a larger binding, except for the last piece, which may be
/// smaller.
fn piece_bytes(limits: &Limits) -> u64 {
    (limits.binding_bytes / ALIGNMENT * ALIGNMENT).max(ALIGNMENT)
}

/// Operand or result of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// Index of the binding; an invalid index for an operand without elements.
    pub binding: usize,
    /// Offset of the buffer's first byte in the binding.
    pub base: u64,
    /// Dtype of the elements.
    pub dtype: DType,
    /// Layout of the elements in the buffer.
    pub layout: Layout,
}

/// Values that share a binding, in addition to those that overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// No further values.
    Nothing,
    /// All values of a segment.
    Segment,
    /// The left operands, the right operands, and the results of products with one result each.
    SameOperand,
}

/// Number of operands of a product.
const PRODUCT_READS: usize = 2;

/// Binding index of an operand without elements.
pub(super) const NONE: usize = usize::MAX;

/// Bindings, operands and results of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Operands {
    /// Bindings, in order of their indices.
    pub bindings: Vec<Binding>,
    /// The launch's operands.
    pub reads: Vec<Operand>,
    /// The launch's results.
    pub writes: Vec<Operand>,
}

impl Operands {
    /// Creates the bindings of a launch.
    pub fn new(launch: &Launch, context: &Context<'_>, shared: Shared) -> Self {
        let Context { plan, cuts, limits, .. } = *context;
        // Operands without elements are never accessed, so they need no binding.
        let empty = |access: &Access| access.layout.shape.elements() == 0;
        let needed: Vec<Option<(Region, Range<u64>)>> = launch
            .reads
            .iter()
            .chain(&launch.writes)
            .map(|access| (!empty(access)).then(|| span(access, context)))
            .collect();
        let mut spans: Vec<(Region, Range<u64>)> = Vec::new();
        for (i, (region, range)) in
            needed.iter().enumerate().filter_map(|(i, span)| Some((i, span.as_ref()?)))
        {
            let number = if i < launch.reads.len() { i % PRODUCT_READS } else { PRODUCT_READS };
            match spans.get_mut(number) {
                Some((_, all)) if shared == Shared::SameOperand => {
                    *all = all.start.min(range.start)..all.end.max(range.end);
                }
                _ => spans.push((*region, range.clone())),
            }
        }
        merge(&mut spans, cuts, &|a, b| a.start < b.end && b.start < a.end);
        if shared == Shared::Segment {
            merge(&mut spans, cuts, &|_, _| true);
        }
        // Number the bindings in order of use, so that equal kernels have equal shaders, independent of the
        // addresses of their values.
        let mut used: Vec<(Region, Range<u64>)> = Vec::new();
        let mut binding_of = |(region, range): &(Region, Range<u64>)| {
            let holds =
                |(r, s): &&(Region, Range<u64>)| r == region && s.start <= range.start && range.end <= s.end;
            used.iter().position(|span| holds(&span)).unwrap_or_else(|| {
                used.push(spans.iter().find(holds).expect("every value has a binding").clone());
                used.len() - 1
            })
        };
        let bound: Vec<Option<usize>> = needed.iter().map(|span| Some(binding_of(span.as_ref()?))).collect();
        let spans = used;
        let place = |(i, access): (usize, &Access)| {
            let mut layout = access.layout.clone();
            let (Some(binding), Some((_, range))) = (bound[i], &needed[i]) else {
                return Operand { binding: NONE, base: 0, dtype: access.dtype, layout };
            };
            let offset = plan.buffers[plan.buffer_of[&access.buffer]].offset;
            // The layout's offset is relative to the first byte of the buffer that the binding contains.
            layout.offset -= elements_in(range.start.saturating_sub(offset), access.dtype);
            let base = offset.max(range.start) - spans[binding].1.start;
            Operand { binding, base, dtype: access.dtype, layout }
        };
        let mut reads: Vec<Operand> =
            launch.reads.iter().chain(&launch.writes).enumerate().map(place).collect();
        let writes = reads.split_off(launch.reads.len());
        let bindings = spans
            .iter()
            .enumerate()
            .map(|(i, (region, range))| {
                let here = |operand: &&Operand| operand.binding == i;
                let mut dtypes = reads.iter().chain(&writes).filter(here).map(|operand| operand.dtype);
                let first = dtypes.next().expect("a binding has a use");
                let is_declared = first.bytes() == 4 || first == DType::F16 && limits.f16;
                let element = match dtypes.all(|dtype| dtype == first) && is_declared {
                    true => Element::Plain(first),
                    false if writes.iter().filter(here).any(|w| w.dtype.bytes() < 4) => Element::Atomic,
                    false => Element::Word,
                };
                let written = |w: &Operand| w.binding != NONE && spans[w.binding].0 == *region;
                let writable = writes.iter().any(written);
                Binding { region: *region, range: range.clone(), writable, element }
            })
            .collect();
        Self { bindings, reads, writes }
    }

    fn view<'a>(&self, operand: &'a Operand) -> View<'a> {
        let Operand { binding, dtype, layout, .. } = operand;
        let has_vectors = *binding != NONE && matches!(self.bindings[*binding].element, Element::Vector(_));
        View { dtype: *dtype, layout, has_vectors, is_early: false }
    }

    /// Returns the views of the operands for kernels.
    pub(super) fn views(&self, gated: bool) -> Views<'_> {
        let in_place = self.reads.first().zip(self.writes.first()).is_some_and(|(read, write)| {
            (read.binding, read.base, &read.layout) == (write.binding, write.base, &write.layout)
        });
        Views {
            reads: self.reads.iter().map(|operand| self.view(operand)).collect(),
            writes: self.writes.iter().map(|operand| self.view(operand)).collect(),
            gated,
            in_place,
        }
    }
}

/// Returns the region and the bytes to bind for an access: its whole buffer, or the accessed part if the
/// buffer exceeds the size limit of a binding.
pub(super) fn span(access: &Access, context: &Context<'_>) -> (Region, Range<u64>) {
    let Context { plan, limits, .. } = *context;
    let buffer = &plan.buffers[plan.buffer_of[&access.buffer]];
    if buffer.role == Role::Scalar {
        // All scalars share one block, which is bound as a whole.
        return (Region::Step, 0..plan.scalar_bytes());
    }
    let mut used = 0..buffer.bytes.max(1);
    if buffer.bytes > limits.binding_bytes {
        used = access.start() / ALIGNMENT * ALIGNMENT..access.end().max(1);
    }
    // Round the end up to whole vectors; buffers are padded accordingly.
    (buffer.region, buffer.offset + used.start..buffer.offset + used.end.next_multiple_of(16))
}

/// Merges spans of the same segment for which `together` returns `true` into one that covers both.
fn merge(
    spans: &mut Vec<(Region, Range<u64>)>,
    cuts: &Cuts,
    together: &dyn Fn(&Range<u64>, &Range<u64>) -> bool,
) {
    let segment = |region: Region, range: &Range<u64>| cuts.segment(region, range.start);
    sort_by_key(spans, |(region, range)| (*region, range.start, range.end));
    let mut merged: Vec<(Region, Range<u64>)> = Vec::new();
    for (region, range) in spans.drain(..) {
        match merged.last_mut() {
            Some((last, cover))
                if *last == region
                    && segment(region, cover) == segment(region, &range)
                    && together(cover, &range) =>
            {
                cover.end = cover.end.max(range.end);
            }
            _ => merged.push((region, range)),
        }
    }
    debug_assert!(merged.iter().all(|(_, range)| range.start % ALIGNMENT == 0), "bindings are aligned");
    *spans = merged;
}
