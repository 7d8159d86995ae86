//! Which parts of a group run together: those that compute the same, whose operands one name can stand for,
//! as they share a binding.

use super::dispatch::Context;
use super::operands::{Shared, span};
use crate::schedule::group::{self, Form};
use gradloom_core::kernel::{Launch, Part};
use gradloom_core::plan::Region;
use std::ops::Range;

/// Parts that run together, by their numbers; a part that runs alone has its own list.
pub(super) fn batches(parts: &[Part], launch: &Launch, context: &Context<'_>) -> Vec<Vec<usize>> {
    let mut covers: Vec<Covers> = parts.iter().map(|part| Covers::new(part, launch, context)).collect();
    group::batches(parts, launch, |first, part| {
        let joined = covers[first].joined(&covers[part], context);
        let joins = joined.is_some();
        if let Some(ranges) = joined {
            covers[first].ranges = ranges;
        }
        joins
    })
}

/// Which values of parts that run together share a binding.
pub(super) fn shared(parts: &[&Part]) -> Shared {
    match parts {
        [_] => Shared::Nothing,
        [first, ..] if is_product(first) => Shared::SameOperand,
        _ => Shared::Segment,
    }
}

fn is_product(part: &Part) -> bool {
    Form::of_part(part) == Some(Form::Product)
}

/// What the operands and results of parts cover that run together.
struct Covers {
    /// Whether each has a binding of its own; otherwise those in one place share theirs.
    apart: bool,
    /// Region and segment of each: the same for all parts.
    places: Vec<(Region, usize)>,
    /// Bytes from the first to the last of each.
    ranges: Vec<Range<u64>>,
}

impl Covers {
    fn new(part: &Part, launch: &Launch, context: &Context<'_>) -> Self {
        let accesses = launch.reads[part.reads.clone()].iter().chain(&launch.writes[part.writes.clone()]);
        let mut covers = Self { apart: is_product(part), places: Vec::new(), ranges: Vec::new() };
        for access in accesses {
            let (region, range) = span(access, context);
            covers.places.push((region, context.cuts.segment(region, range.start)));
            covers.ranges.push(range);
        }
        covers
    }

    /// The ranges of both, if one name can stand for each operand: it is in the same place, bindings are not
    /// too large, and no operand that vectors are loaded of lies among results.
    fn joined(&self, other: &Self, context: &Context<'_>) -> Option<Vec<Range<u64>>> {
        let mut ranges = self.ranges.clone();
        for (range, other) in ranges.iter_mut().zip(&other.ranges) {
            *range = range.start.min(other.start)..range.end.max(other.end);
        }
        for (i, range) in ranges.iter().enumerate() {
            let mut bound = range.clone();
            for (j, other) in ranges.iter().enumerate() {
                if i == j || self.places[i] != self.places[j] {
                    continue;
                }
                if !self.apart {
                    bound = bound.start.min(other.start)..bound.end.max(other.end);
                } else if j + 1 == ranges.len() && range.start < other.end && other.start < range.end {
                    return None;
                }
            }
            if bound.end - bound.start > context.limits.binding_bytes {
                return None;
            }
        }
        (self.places == other.places).then_some(ranges)
    }
}
