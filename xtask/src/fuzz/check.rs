//! Checks one graph in every stage.
//!
//! In: a graph with values for its leaves. Out: nothing, or the stage that changed the graph's results. The
//! stages: each pass of the pipeline in turn, fusion on and off in float64, and programs on the CPU, fused
//! and unfused, with one thread and with three, and fused with interpreted loops, which must equal machine
//! code. The first program of each pair is compared with float64.

use super::Counts;
use gradloom_core::error::Error;
use gradloom_core::fuse::{Fusion, fuse};
use gradloom_core::grad::expand_blocks;
use gradloom_core::ir::Graph;
use gradloom_core::passes::PIPELINE;
use gradloom_core::plan;
use gradloom_core::reference::{Evaluation, evaluate};
use gradloom_core::verify::verify;
use gradloom_cpu::CpuDevice as _;
use gradloom_cpu::Loops;
use gradloom_runtime::{Device, Program};
use gradloom_testing::compare::{Tolerance, same, same_bits, same_numbers};
use gradloom_testing::float32::{self, Found, largest};
use gradloom_testing::{Leaves, evaluate_fused};

/// Number of steps that a program runs.
const STEPS: usize = 3;
/// Tolerance in float64, because passes and fusion may change the order of summation.
const FLOAT64: Tolerance = Tolerance { relative: 1e-9, absolute: 1e-15 };

/// A graph with values for its leaves.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) graph: Graph,
    pub(super) leaves: Leaves,
    /// True if float32 can be compared with float64.
    pub(super) tame: bool,
}

/// A comparison of the results of two devices.
type Same = fn(&Evaluation, &Evaluation) -> Result<(), String>;

/// A failure of a stage.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// Stage that failed: a pass, fusion, the plan, or a device.
    pub(super) stage: String,
    /// First wrong value, or an error.
    pub(super) message: String,
}

/// Pairs of devices with equal results.
pub(super) struct Devices {
    fused: [Device; 2],
    unfused: [Device; 2],
    /// Machine code, if the processor supports it, and interpreted loops.
    loops: [Device; 2],
}

impl Devices {
    pub(super) fn new() -> Self {
        let with = |fusion| {
            [1, 3].map(|threads| Device::cpu_with_fusion(threads, fusion).expect("a few threads are allowed"))
        };
        let loops = [Loops::Native, Loops::Interpreted]
            .map(|loops| Device::cpu_with_loops(2, loops).expect("a few threads are allowed"));
        Self { fused: with(Fusion::On), unfused: with(Fusion::Off), loops }
    }
}

pub(super) fn failure<E: ToString>(stage: impl Into<String>) -> impl FnOnce(E) -> Failure {
    move |message| Failure { stage: stage.into(), message: message.to_string() }
}

/// Runs all stages.
///
/// # Errors
/// Returns the failure of the first stage that fails.
pub(super) fn check(subject: &Subject, devices: &Devices, counts: &mut Counts) -> Result<(), Failure> {
    let Subject { graph, leaves, tame } = subject;
    verify(graph).map_err(failure("the generator"))?;
    let mut expanded = graph.clone();
    expand_blocks(&mut expanded);
    let want = match evaluate(graph, &|kind| leaves.value(kind)) {
        Ok(want) => want,
        // Do not compare traps after passes, which may drop ops that trap.
        Err(trap) => {
            counts.trapped += 1;
            check_fusion(&expanded, leaves, &Err(trap), FLOAT64)?;
            return check_programs(&expanded, subject, devices, counts);
        }
    };
    // The absolute tolerance is proportional to the largest number, because a sum that cancels leaves a
    // rounding error in proportion to its terms.
    let absolute = if *tame { 1e-13 * largest(&expanded, leaves).max(1.0) } else { FLOAT64.absolute };
    let tolerance = Tolerance { absolute, ..FLOAT64 };
    check_fusion(&expanded, leaves, &Ok(want.clone()), tolerance)?;
    let passed = check_passes(graph, leaves, &want, tolerance)?;
    check_fusion(&passed, leaves, &evaluate(&passed, &|kind| leaves.value(kind)), tolerance)?;
    check_programs(&passed, subject, devices, counts)
}

/// Runs the passes one by one until a round changes nothing, and returns the last graph.
fn check_passes(
    graph: &Graph,
    leaves: &Leaves,
    want: &Evaluation,
    tolerance: Tolerance,
) -> Result<Graph, Failure> {
    let mut graph = graph.clone();
    for round in 1..=8 {
        let before = graph.to_string();
        for pass in PIPELINE {
            let stage = || format!("the pass {} in round {round}", pass.name);
            graph = (pass.run)(&graph);
            verify(&graph).map_err(failure(stage()))?;
            let got = evaluate(&graph, &|kind| leaves.value(kind)).map_err(failure(stage()))?;
            same(&got, want, tolerance).map_err(failure(stage()))?;
        }
        if graph.to_string() == before {
            break;
        }
    }
    Ok(graph)
}

/// Runs the kernels of a graph in float64.
fn check_fusion(
    graph: &Graph,
    leaves: &Leaves,
    want: &Result<Evaluation, Error>,
    tolerance: Tolerance,
) -> Result<(), Failure> {
    for fusion in [Fusion::Off, Fusion::On] {
        let stage = || format!("fusion {fusion:?}");
        let fused = fuse(graph, fusion).map_err(failure(stage()))?;
        let got = evaluate_fused(graph, &fused, &|kind| leaves.value(kind));
        let found = match (&got, want) {
            (Ok(got), Ok(want)) => same(got, want, tolerance),
            (Err(_), Err(_)) => Ok(()),
            (Ok(_), Err(trap)) => Err(format!("it runs, expected {trap}")),
            (Err(error), Ok(_)) => Err(error.to_string()),
        };
        found.map_err(|message| failure(stage())(format!("{message}\n{}", fused.print(graph))))?;
    }
    Ok(())
}

/// Runs several steps of a graph on all devices.
fn check_programs(
    graph: &Graph,
    subject: &Subject,
    devices: &Devices,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let pairs: [(&str, &[Device; 2], Same); 3] = [
        ("fused", &devices.fused, same_bits),
        ("unfused", &devices.unfused, same_bits),
        ("interpreted", &devices.loops, same_numbers),
    ];
    for (name, pair, same_results) in pairs {
        let stage = || format!("the {name} CPU program");
        let mut leaves = subject.leaves.clone();
        let mut programs = Vec::new();
        for device in pair {
            let program = Program::standalone(graph.clone(), device, &|kind| leaves.value(kind));
            let program = program.map_err(failure(stage()))?;
            check_plan(graph, &program).map_err(failure(format!("the plan of {}", stage())))?;
            programs.push(program);
        }
        let plan = programs[0].plan().report(graph);
        for step in 0..STEPS {
            let want = evaluate(graph, &|kind| leaves.value(kind));
            let mut results = Vec::new();
            for program in &mut programs {
                results.push(program.evaluate(&|kind| leaves.value(kind)));
            }
            let (one, three) = match (&results[0], &results[1]) {
                (Ok(one), Ok(three)) => (one, three),
                (Err(a), Err(b)) if a.to_string() == b.to_string() && (want.is_err() || step > 0) => break,
                (one, three) => {
                    let message =
                        format!("step {step}: {:?}, {:?}", one.as_ref().err(), three.as_ref().err());
                    return Err(failure(stage())(message));
                }
            };
            let at = |message: String| format!("step {step}: {message}\n{plan}");
            same_results(three, one).map_err(|m| failure(format!("{}, twice", stage()))(at(m)))?;
            if subject.tame {
                let Ok(want) = want else { return Err(failure(stage())("it runs, but should trap")) };
                let found = float32::compare(graph, &leaves, one, &want);
                let found = found.map_err(|message| failure(stage())(at(message)))?;
                counts.compared.count(found);
                if found == Found::Wild {
                    break;
                }
            }
            // Start the next step from the device's own values, because a step may amplify the rounding of
            // the previous one.
            leaves.advance(one);
        }
    }
    Ok(())
}

/// Checks every guarantee of the plan, and that the allocated bytes are the planned ones.
fn check_plan(graph: &Graph, program: &Program) -> Result<(), String> {
    let plan = program.plan();
    plan::verify(plan).map_err(|error| error.to_string())?;
    plan::verify_commit(graph, plan).map_err(|error| error.to_string())?;
    let planned = plan.totals.step + plan.totals.constants + plan.totals.workspace;
    if planned == program.allocated() {
        Ok(())
    } else {
        Err(format!("{} bytes are allocated, {planned} were planned", program.allocated()))
    }
}
