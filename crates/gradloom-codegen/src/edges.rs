//! Dependencies between the kernels of a step, or between parts of kernels.
//!
//! In: the memory that each kernel accesses, in the order of the plan. Out: for each kernel, the earlier ones
//! on which it depends. Invariants: any order that respects the dependencies has the same results as the
//! plan's order. If two kernels access the same byte, and at least one writes it, the second depends on the
//! first, unless both are parts of one group. Of up to 16,384 kernels, no dependency is implied by others.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of bytes that a kernel accesses, each with the index of its memory.
#[derive(Clone, Debug, Default)]
pub struct Touches {
    /// Ranges that the kernel reads.
    pub reads: Vec<(usize, Range<u64>)>,
    /// Ranges that the kernel writes.
    pub writes: Vec<(usize, Range<u64>)>,
    /// Number of the kernel's group; `None` if the kernel is alone. The members of a group are consecutive.
    /// They do not wait for each other, even if their ranges overlap.
    pub group: Option<usize>,
}

/// Maximum number of kernels of which dependencies that others imply are left out. It bounds the memory for
/// that, which is a bit for each pair of kernels.
const MOST_PRUNED: usize = 1 << 14;

/// Kernels that have accessed a range of bytes and may have to precede the next one.
#[derive(Clone, Debug, Default)]
struct Last {
    end: u64,
    /// Last writers, which are one kernel or parts of one group.
    writers: Vec<usize>,
    /// Kernels that have read the bytes since.
    readers: Vec<usize>,
    /// Kernels that the writers wait for. Further writers of the same group wait for them, too.
    before: Vec<usize>,
}

/// Returns, for each kernel, the kernels on which it depends, in ascending order.
pub fn edges<'t>(kernels: impl ExactSizeIterator<Item = &'t Touches>) -> Vec<Vec<usize>> {
    let is_large = kernels.len() > MOST_PRUNED;
    let mut bytes: BTreeMap<(usize, u64), Last> = BTreeMap::new();
    // For each kernel, its group and the bit set of all kernels that complete before it.
    let mut groups: Vec<Option<usize>> = Vec::with_capacity(kernels.len());
    let mut before: Vec<Vec<u64>> = Vec::with_capacity(kernels.len());
    let mut all = Vec::with_capacity(kernels.len());
    for (i, kernel) in kernels.enumerate() {
        groups.push(kernel.group);
        let is_sibling =
            |other: &usize| *other == i || (kernel.group.is_some() && groups[*other] == kernel.group);
        let mut waits: Vec<usize> = Vec::new();
        for (memory, range) in kernel.reads.iter().filter(|(_, range)| !range.is_empty()) {
            cut(&mut bytes, *memory, range);
            for (_, last) in bytes.range_mut((*memory, range.start)..(*memory, range.end)) {
                let own = last.writers.first().is_some_and(is_sibling);
                waits.extend(if own { &last.before } else { &last.writers });
                if last.readers.last() != Some(&i) {
                    last.readers.push(i);
                }
            }
        }
        for (memory, range) in kernel.writes.iter().filter(|(_, range)| !range.is_empty()) {
            cut(&mut bytes, *memory, range);
            for (_, last) in bytes.range_mut((*memory, range.start)..(*memory, range.end)) {
                if !last.writers.first().is_some_and(is_sibling) {
                    last.before = std::mem::take(&mut last.writers);
                    last.before.extend(last.readers.iter().filter(|reader| !is_sibling(reader)));
                    last.readers.retain(is_sibling);
                }
                waits.extend(&last.before);
                last.writers.push(i);
            }
        }
        waits.sort_unstable_by(|a, b| b.cmp(a));
        waits.dedup();
        if is_large {
            waits.reverse();
            all.push(waits);
            continue;
        }
        // Visit the kernels in descending order, and skip those on which a later dependency already depends.
        let mut done = vec![0_u64; i.div_ceil(64)];
        let mut own = Vec::new();
        for other in waits {
            if done[other / 64] >> (other % 64) & 1 == 1 {
                continue;
            }
            own.push(other);
            done[other / 64] |= 1 << (other % 64);
            done.iter_mut().zip(&before[other]).for_each(|(done, before)| *done |= before);
        }
        own.reverse();
        all.push(own);
        before.push(done);
    }
    all
}

/// Splits entries at the ends of a range, and fills the gaps in it.
fn cut(bytes: &mut BTreeMap<(usize, u64), Last>, memory: usize, range: &Range<u64>) {
    for at in [range.start, range.end] {
        let found = bytes.range_mut((memory, 0)..(memory, at)).next_back();
        if let Some((_, last)) = found.filter(|(_, last)| last.end > at) {
            let behind = last.clone();
            last.end = at;
            bytes.insert((memory, at), behind);
        }
    }
    let mut at = range.start;
    let mut gaps = Vec::new();
    for ((_, start), last) in bytes.range((memory, range.start)..(memory, range.end)) {
        if *start > at {
            gaps.push(at..*start);
        }
        at = last.end;
    }
    if at < range.end {
        gaps.push(at..range.end);
    }
    for gap in gaps {
        bytes.insert((memory, gap.start), Last { end: gap.end, ..Last::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_testing::Random;

    /// Returns the accesses to ranges given as (start, end).
    fn touches(reads: &[(u64, u64)], writes: &[(u64, u64)]) -> Touches {
        let all = |ranges: &[(u64, u64)]| ranges.iter().map(|&(start, end)| (0, start..end)).collect();
        Touches { reads: all(reads), writes: all(writes), group: None }
    }

    #[test]
    fn a_chain_has_no_edges_that_follow_from_others() {
        let chain = [
            touches(&[], &[(0, 8)]),
            touches(&[(0, 4)], &[(8, 12)]),
            touches(&[(4, 8)], &[(12, 16)]),
            // Depends on both readers, and thus not on the first kernel.
            touches(&[(8, 16)], &[(0, 8)]),
        ];
        assert_eq!(edges(chain.iter()), [vec![], vec![0], vec![0], vec![1, 2]]);
    }

    #[test]
    fn readers_run_side_by_side_and_empty_ranges_mean_nothing() {
        let kernels = [
            touches(&[], &[(0, 4)]),
            touches(&[(0, 4), (2, 2)], &[]),
            touches(&[(0, 4)], &[]),
            touches(&[], &[(3, 3)]),
        ];
        assert_eq!(edges(kernels.iter()), [vec![], vec![0], vec![0], vec![]]);
    }

    fn meet(a: &[(usize, Range<u64>)], b: &[(usize, Range<u64>)]) -> bool {
        a.iter().any(|(m, a)| b.iter().any(|(n, b)| m == n && a.start.max(b.start) < a.end.min(b.end)))
    }

    /// In random sequences of kernels, some of which are groups, every conflict is ordered by a path of
    /// edges, no edge is implied by the others, and members of a group are independent.
    #[test]
    fn all_conflicts_are_ordered_and_no_edge_is_idle() {
        let (mut random, mut sizes) = (Random::new(17), Random::new(18));
        for _ in 0..300 {
            let count = 2 + random.below(40);
            let mut range = || {
                let start = random.below(60) as u64;
                (random.below(2), start..start + random.below(12) as u64)
            };
            let mut kernel = |group| Touches { reads: vec![range(), range()], writes: vec![range()], group };
            let mut kernels: Vec<Touches> = Vec::new();
            while kernels.len() < count {
                let (group, members) = (kernels.len(), 1 + sizes.below(4));
                let group = (members > 1).then_some(group);
                kernels.extend((0..members).map(|_| kernel(group)));
            }
            let count = kernels.len();
            let edges = edges(kernels.iter());
            // Returns `true` if there is a path without the edge `skip`.
            let reaches = |from: usize, to: usize, skip: Option<(usize, usize)>| {
                let mut open = vec![to];
                while let Some(at) = open.pop() {
                    for &other in edges[at].iter().filter(|&&other| skip != Some((other, at))) {
                        if other == from {
                            return true;
                        }
                        open.push(other);
                    }
                }
                false
            };
            for to in 0..count {
                for from in 0..to {
                    let (a, b) = (&kernels[from], &kernels[to]);
                    let conflict =
                        meet(&a.writes, &b.writes) || meet(&a.writes, &b.reads) || meet(&a.reads, &b.writes);
                    if a.group.is_some() && a.group == b.group {
                        assert!(!reaches(from, to, None), "{from} and {to} of one group, {kernels:?}");
                    } else {
                        assert!(!conflict || reaches(from, to, None), "{from} and {to} of {kernels:?}");
                    }
                }
                for &from in &edges[to] {
                    assert!(!reaches(from, to, Some((from, to))), "{from} to {to} is idle in {kernels:?}");
                }
            }
        }
    }
}
