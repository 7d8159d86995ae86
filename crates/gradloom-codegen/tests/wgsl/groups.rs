//! Tests of the parts of groups that are one kernel on CUDA.

use super::{graph, plan_for};
use gradloom_codegen::cuda;
use gradloom_codegen::pipeline::Target;
use gradloom_codegen::step::Owner;
use gradloom_codegen::wgsl::{Cuts, Limits, Precision};

/// Returns the labels of a graph's kernels on CUDA.
fn on_cuda(lines: &str) -> Vec<String> {
    let graph = graph(lines);
    let plan = plan_for(&graph, &Target::cuda(Limits::cuda(), Precision::F32));
    let made = cuda::units(&plan, &graph, &Cuts::default()).unwrap_or_else(|error| panic!("{error}"));
    made.into_iter().filter(|unit| unit.owner != Owner::Guards).map(|unit| unit.label).collect()
}

/// In place, scatters are one kernel; a scatter that must copy its state first is separate.
#[test]
fn scatters_in_place_run_together() {
    let scatters = "%0: f32[5, 3] = state \"a\" {init=0.0}\n%1: f32[5, 3] = state \"b\" {init=0.0}\n\
                    %2: i32[2] = input \"i\"\n%3: f32[2, 3] = input \"u\"\n\
                    %4: f32[5, 3] = scatter_distinct %0, %2, %3 {batch=0}\n\
                    %5: f32[5, 3] = scatter_distinct %1, %2, %3 {batch=0}\n";
    let update = "update %0 <- %4\nupdate %1 <- %5";
    assert_eq!(on_cuda(&format!("{scatters}{update}")), ["2 kernels: scatter"]);
    let swapped = on_cuda(&format!("{scatters}update %0 <- %5\nupdate %1 <- %4"));
    assert!(swapped.iter().all(|label| label != "2 kernels: scatter"), "{swapped:?}");
}
