//! Tests plans with extreme numbers. The verifier, on which the memory safety of kernels depends, rejects or
//! accepts them, and never panics. An access that reaches outside its buffer is always rejected.

use crate::EXTREMES;
use crate::text::text;
use gradloom_codegen::pipeline::Target;
use gradloom_core::fuse::{Fusion, fuse};
use gradloom_core::ir::{Graph, Shape, parse};
use gradloom_core::kernel::{Access, Kernel};
use gradloom_core::passes;
use gradloom_core::plan::{Plan, StoreLayout, plan, verify};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn planned(graph: &Graph, fusion: Fusion) -> Plan {
    let lowered = Target::cpu(2).lower(graph, fuse(graph, fusion).unwrap());
    let mut store = StoreLayout::default();
    store.extend(graph).unwrap();
    plan(graph, lowered, &store, None).unwrap()
}

type Change<'a> = &'a dyn Fn(&mut Plan);

/// Calls `f` with each change of a single number in a plan.
fn each_change(plan: &Plan, f: &mut dyn FnMut(Change<'_>)) {
    for number in EXTREMES {
        for buffer in 0..plan.buffers.len() {
            f(&|plan| plan.buffers[buffer].offset = number as u64);
            f(&|plan| plan.buffers[buffer].bytes = number as u64);
            f(&|plan| plan.buffers[buffer].first = number);
            f(&|plan| plan.buffers[buffer].last = number);
        }
        f(&|plan| plan.totals.step = number as u64);
        f(&|plan| plan.totals.store = number as u64);
        f(&|plan| plan.totals.constants = number as u64);
        f(&|plan| plan.totals.workspace = number as u64);
        for launch in 0..plan.launches.len() {
            f(&|plan| plan.launches[launch].workspace = number as u64);
            f(&|plan| plan.launches[launch].may_alias.push((number, 0)));
            f(&|plan| {
                if let Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } =
                    &mut plan.launches[launch].kernel
                {
                    body.rows = number;
                }
            });
            f(&|plan| {
                if let Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } =
                    &mut plan.launches[launch].kernel
                {
                    body.columns = number;
                }
            });
            for (at, accesses) in
                [&plan.launches[launch].reads, &plan.launches[launch].writes].into_iter().enumerate()
            {
                for (access, planned) in accesses.iter().enumerate() {
                    let changed = |plan: &mut Plan, change: &dyn Fn(&mut Access)| {
                        let launch = &mut plan.launches[launch];
                        change(if at == 0 { &mut launch.reads[access] } else { &mut launch.writes[access] });
                    };
                    f(&|plan| changed(plan, &|access| access.layout.offset = number));
                    f(&|plan| changed(plan, &|access| access.layout.strides.push(number)));
                    f(&|plan| changed(plan, &|access| _ = access.layout.strides.pop()));
                    for axis in 0..planned.layout.shape.rank() {
                        f(&|plan| changed(plan, &|access| access.layout.strides[axis] = number));
                        f(&|plan| {
                            changed(plan, &|access| {
                                let mut extents = access.layout.shape.to_vec();
                                extents[axis] = number;
                                access.layout.shape = Shape::from(extents);
                            });
                        });
                    }
                }
            }
        }
    }
}

#[test]
fn every_number_of_a_plan() {
    // Remove the updates, because an update that must be in place cannot be in this plan.
    let text = text();
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("update %")).collect();
    let graph = passes::run(parse(&lines.join("\n")).unwrap()).0;
    let (mut sound, mut refused) = (0, 0);
    for fusion in [Fusion::On, Fusion::Off] {
        let good = planned(&graph, fusion);
        verify(&good).unwrap();
        each_change(&good, &mut |change| {
            let mut plan = good.clone();
            change(&mut plan);
            let verdict = catch_unwind(AssertUnwindSafe(|| verify(&plan)));
            match verdict.unwrap_or_else(|_| panic!("the verifier panicked on {plan:#?}")) {
                Err(_) => refused += 1,
                Ok(()) => {
                    sound += 1;
                    check_reach(&plan);
                }
            }
        });
    }
    assert!(sound > 100 && refused > 1000, "{sound} sound, {refused} refused");
}

/// Checks, in arithmetic that cannot overflow, that no access of an accepted plan reaches outside its buffer.
fn check_reach(plan: &Plan) {
    for launch in &plan.launches {
        for access in launch.reads.iter().chain(&launch.writes) {
            let buffer = plan.buffer(access.buffer).unwrap();
            let layout = &access.layout;
            if layout.shape.contains(&0) {
                continue;
            }
            let last = layout.shape.iter().zip(&layout.strides).map(|(&n, &s)| (n as u128 - 1) * s as u128);
            let end = (last.sum::<u128>() + layout.offset as u128 + 1) * access.dtype.bytes() as u128;
            assert!(end <= buffer.bytes as u128, "{access:?} reaches beyond {buffer:?}");
        }
    }
}
