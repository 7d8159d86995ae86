//! Which parts of a group run together: those that compute the same, whose operands one name can stand for,
//! as they share a binding.

use super::dispatch::Context;
use super::operands::span;
use crate::schedule::group;
use gradloom_core::collections::SortedMap;
use gradloom_core::kernel::{Access, Launch, Part};
use gradloom_core::plan::Region;
use std::ops::Range;

/// Parts that run together, by their numbers; a part that runs alone has its own list.
pub(super) fn batches(parts: &[Part], launch: &Launch, context: &Context<'_>) -> Vec<Vec<usize>> {
    let own = |part: &Part| {
        let accesses = launch.reads[part.reads.clone()].iter().chain(&launch.writes[part.writes.clone()]);
        Covers::new(accesses, context)
    };
    let mut covers: Vec<Covers> = parts.iter().map(own).collect();
    group::batches(parts, launch, |first, part| {
        let (batches, parts) = covers.split_at_mut(part);
        let joins = batches[first].takes(&parts[0], context);
        if joins {
            batches[first].add(&parts[0]);
        }
        joins
    })
}

/// What operands that one name stands for cover: they share a binding.
struct Covers {
    /// Region and segment of each operand and result: the same for all parts.
    places: Vec<(Region, usize)>,
    /// Bytes from the first to the last of each of these.
    ranges: SortedMap<(Region, usize), Range<usize>>,
}

impl Covers {
    fn new<'a>(accesses: impl Iterator<Item = &'a Access>, context: &Context<'_>) -> Self {
        let mut covers = Self { places: Vec::new(), ranges: SortedMap::new() };
        for access in accesses {
            let (region, range) = span(access, context);
            let place = (region, context.cuts.segment(region, range.start));
            covers.places.push(place);
            covers.cover(place, &range);
        }
        covers
    }

    fn cover(&mut self, place: (Region, usize), range: &Range<usize>) {
        let own = self.ranges.get(&place).unwrap_or(range);
        self.ranges.insert(place, own.start.min(range.start)..own.end.max(range.end));
    }

    fn takes(&self, other: &Self, context: &Context<'_>) -> bool {
        let small = |(place, range): (&(Region, usize), &Range<usize>)| {
            let own = self.ranges.get(place).unwrap_or(range);
            own.end.max(range.end) - own.start.min(range.start) <= context.limits.binding_bytes
        };
        self.places == other.places && other.ranges.iter().all(small)
    }

    fn add(&mut self, other: &Self) {
        other.ranges.iter().for_each(|(&place, range)| self.cover(place, range));
    }
}
