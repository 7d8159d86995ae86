//! Kernels of one op each, and how many shaders they are.

use super::{adapters, checked, graph};

/// Checks the shaders of a graph for all adapters; gives how many launches' shaders there are on the first.
#[track_caller]
fn labels(lines: &str) -> Vec<String> {
    let graph = graph(lines);
    let mut all = adapters().map(|limits| checked(&graph, &limits)).into_iter();
    let portable = all.next().expect("there are adapters");
    portable.into_iter().map(|dispatch| dispatch.label).filter(|label| label != "guards").collect()
}

#[test]
fn elementwise_and_reductions() {
    labels(
        "%0: f32[37, 130] = input \"x\"\n%1: f32[37] = reduce_max %0 {axes=[1]}\n%2: f32[130] = sum %0 {axes=[0]}\n\
         %3: f32[37, 130] = exp %0\noutput \"a\" %1\noutput \"b\" %2\noutput \"c\" %3",
    );
}

#[test]
fn windows() {
    labels(
        "%0: f32[7, 9] = input \"x\"\n%1: i32[] = input \"i\"\n%2: f32[2, 3] = dynamic_slice %0, %1, %1\n\
         %3: f32[7, 9] = dynamic_update_slice %0, %2, %1, %1\n\
         %4: f32[16, 10] = pad %3 {low=[1, 0], high=[2, 1], interior=[1, 0], value=-inf}\noutput \"y\" %4\noutput \"z\" %2",
    );
}
