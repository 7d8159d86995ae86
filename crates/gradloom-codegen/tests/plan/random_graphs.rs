//! Tests of plans of random graphs, by the verifier and by independent checks.

use crate::generate::generate;
use crate::plan_of;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Phase;
use gradloom_core::passes;
use gradloom_core::plan::{self, ALIGNMENT, Buffer, Plan, Region, Role};

/// Returns random graphs with their seeds; the environment variable `GRADLOOM_RANDOM_GRAPHS` sets their
/// number.
fn graphs() -> impl Iterator<Item = (u64, Graph)> {
    let count = std::env::var("GRADLOOM_RANDOM_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    (0..count).map(|seed| (seed, passes::run(generate(seed)).0))
}

#[test]
fn plans_of_random_graphs_hold() {
    let (mut in_place, mut shared, mut committed) = (0, 0, 0);
    for (seed, graph) in graphs() {
        let plan = plan_of(&graph);
        assert_eq!(plan_of(&graph), plan, "seed {seed}: the same graph has the same plan");
        in_place += plan.buffers.iter().filter(|b| b.role == Role::Next).count();
        committed += plan.launches.iter().filter(|l| l.phase == Phase::Commit).count();
        let unshared: u64 = step_buffers(&plan).map(|(_, bytes)| bytes.next_multiple_of(ALIGNMENT)).sum();
        assert!(plan.totals.step <= unshared, "seed {seed}");
        shared += usize::from(plan.totals.step < unshared);
        overlaps_are_never_alive_together(&plan, seed);
    }
    // The graphs must cover the cases under test.
    assert!(in_place > 10 && shared > 100 && committed > 100, "{in_place} {shared} {committed}");
}

/// If launches may run concurrently, freed bytes and scratch memory are not reused immediately, except by
/// results that are computed in place.
#[test]
fn bytes_rest_before_they_are_used_again() {
    const REUSE_DISTANCE: usize = 2;
    let (mut wider, mut moved) = (0, 0);
    for (seed, graph) in graphs() {
        let mut plan = plan_of(&graph);
        // Give scratch memory to some launches, as on a GPU.
        for (i, launch) in plan.launches.iter_mut().enumerate() {
            launch.workspace += i as u64 % 3 * 300;
        }
        plan.totals.workspace = plan.launches.iter().map(|launch| launch.workspace).max().unwrap_or(0);
        let wide = plan.clone().side_by_side(REUSE_DISTANCE);
        plan::verify_commit(&graph, &wide).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(plan.clone().side_by_side(0).totals.step, plan.totals.step, "seed {seed}");
        overlaps_are_never_alive_together(&wide, seed);
        let step: Vec<&Buffer> = wide.buffers.iter().filter(|b| b.region == Region::Step).collect();
        for a in &step {
            for b in step.iter().filter(|b| b.first > a.last && b.first <= a.last + REUSE_DISTANCE) {
                let apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
                // A chain of values that are computed in place reuses its bytes.
                let mut end = a.last;
                let in_place = |c: &&&Buffer, end| c.offset == a.offset && c.first == end && c.last > end;
                while let Some(next) = step.iter().find(|c| in_place(c, end)) {
                    end = next.last;
                }
                let chained = end >= b.first;
                assert!(apart || chained || a.bytes == 0 || b.bytes == 0, "seed {seed}: {a:?}, {b:?}");
            }
        }
        let scratch = |i: usize| wide.scratch[i]..wide.scratch[i] + wide.launches[i].workspace;
        for i in 0..wide.launches.len() {
            assert!(scratch(i).end <= wide.totals.workspace, "seed {seed}");
            for near in (i.saturating_sub(REUSE_DISTANCE)..i).map(scratch) {
                assert!(near.end <= scratch(i).start || scratch(i).end <= near.start || near.is_empty());
            }
        }
        wider += usize::from(wide.totals.step > plan.totals.step);
        moved += usize::from(wide.scratch.iter().any(|&start| start > 0));
    }
    assert!(wider > 50 && moved > 100, "{wider} {moved}");
}

/// On a device with small buffers, no value crosses a buffer's end, the plan is still valid, and values that
/// fit are not moved.
#[test]
fn no_value_reaches_across_segments() {
    let mut moved = 0;
    for (seed, graph) in graphs() {
        let plan = plan_of(&graph);
        let cut = |b: &&Buffer| matches!(b.region, Region::Step | Region::Constants);
        let largest = plan.buffers.iter().filter(cut).map(|b| b.bytes.next_multiple_of(ALIGNMENT)).max();
        let Some(largest) = largest.filter(|&bytes| bytes > ALIGNMENT) else { continue };
        assert!(plan.clone().in_segments(&graph, largest - ALIGNMENT, true).is_err(), "seed {seed}");
        let whole = plan.totals.step.max(plan.totals.constants);
        assert_eq!(plan.clone().in_segments(&graph, whole, true).unwrap(), plan, "seed {seed}");
        for (segment, sharing) in [(largest, true), (largest, false), (largest + ALIGNMENT, true)] {
            let cut_plan = plan.clone().in_segments(&graph, segment, sharing).unwrap();
            plan::verify_commit(&graph, &cut_plan).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            for b in cut_plan.buffers.iter().filter(cut).filter(|b| b.bytes > 0) {
                assert_eq!(b.offset / segment, (b.offset + b.bytes - 1) / segment, "seed {seed}: {b:?}");
                let total =
                    if b.region == Region::Step { cut_plan.totals.step } else { cut_plan.totals.constants };
                assert!(b.offset + b.bytes <= total, "seed {seed}: {b:?}");
            }
            overlaps_are_never_alive_together(&cut_plan, seed);
            moved += usize::from(sharing && cut_plan != plan);
        }
    }
    assert!(moved > 20, "{moved} plans were cut");
}

fn step_buffers(plan: &Plan) -> impl Iterator<Item = (u64, u64)> {
    plan.buffers.iter().filter(|b| b.region == Region::Step).map(|b| (b.offset, b.bytes))
}

/// Checks overlaps by the lifetimes in the plan, independently of the verifier, which tracks bytes.
fn overlaps_are_never_alive_together(plan: &Plan, seed: u64) {
    let step: Vec<_> = plan.buffers.iter().filter(|b| b.region == Region::Step && b.bytes > 0).collect();
    for (i, a) in step.iter().enumerate() {
        for b in &step[i + 1..] {
            let overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
            let together = a.first <= b.last && b.first <= a.last;
            let hands_over = a.offset == b.offset && (a.last == b.first || b.last == a.first);
            assert!(!overlap || !together || hands_over, "seed {seed}: {a:?} and {b:?}");
        }
    }
}
