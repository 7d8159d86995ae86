//! Tests of the choices for attention: all candidates are valid, and programs use the chosen one.

use super::attention::{EXTENTS, Extents, text};
use super::{adapters, check, checked_with, choices, graph};
use gradloom_codegen::pipeline::Target;
use gradloom_codegen::wgsl::attention::{self, Kernel, Tile, suits};
use gradloom_codegen::wgsl::tuning::{Choice, Problem, alone, candidates};
use gradloom_codegen::wgsl::{Bound, Choices, Dispatch, Limits, Precision};
use gradloom_core::fuse::{Fusion, fuse};
use gradloom_core::ir::{AttentionSpec, Graph};

/// Returns the limits that WebGPU guarantees, and those of a CPU's driver, of the same driver as if it were a
/// GPU, of a large GPU, and of a scalar device.
fn limits() -> [Limits; 5] {
    let [portable, software, large, scalar] = adapters();
    [portable, software, Limits { software: false, ..software }, large, scalar]
}

fn problem([batch, heads, key_heads, queries, keys, depth, value_depth]: Extents) -> attention::Problem {
    let spec = AttentionSpec {
        causal: true,
        window: None,
        scale: 0.25,
        query_offset: false,
        key_length: false,
        block_table: false,
        dropout: None,
    };
    attention::Problem { spec, batch, heads, key_heads, queries, keys, depth, value_depth }
}

/// Returns the attention problems of a graph.
fn attention_of(graph: &Graph, limits: &Limits) -> Vec<Problem> {
    let fused = fuse(graph, Fusion::SumsApart).unwrap();
    let all = Target::wgsl(*limits, choices(limits).precision()).problems(graph, &fused).into_iter();
    all.filter(|problem| matches!(problem, Problem::Attention(..))).collect()
}

#[test]
fn each_candidate_of_each_kernel_has_a_valid_shader() {
    let mut tried = 0;
    for limits in limits() {
        for extents in EXTENTS {
            for kernel in Kernel::ALL {
                let (attention, problem) = (problem(extents), Problem::Attention(kernel, problem(extents)));
                if problem.multiplications() == 0 {
                    continue;
                }
                let all = candidates(&problem, Precision::F32, &limits);
                for (i, choice) in all.iter().enumerate() {
                    let Choice::Attention(of_attention) = choice else { panic!("{choice:?}") };
                    assert!(
                        suits(of_attention, kernel, &attention, None, &limits),
                        "{choice:?} for {problem}"
                    );
                    assert!(!all[..i].contains(choice), "{choice:?} for {problem}");
                    let alone = alone(&problem, choice, &limits);
                    let [dispatch] = &alone.dispatches[..] else { panic!("{choice:?}") };
                    check(dispatch, &limits);
                    // The shader writes exactly the results that are compared.
                    let left = |bound: &&Bound| dispatch.bindings.contains(bound);
                    assert_eq!(alone.results.iter().filter(left).count(), 2);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 400, "{tried}");
}

#[test]
fn the_rules_choice_is_the_first_candidate() {
    for limits in limits() {
        for extents in EXTENTS {
            for kernel in Kernel::ALL {
                let all = attention::candidates(kernel, &problem(extents), None, &limits);
                let rule = Choices::default().attention(kernel, &problem(extents), &limits);
                assert_eq!(all[0], rule);
            }
        }
    }
    // The candidates are blocks of all sizes that fit, and one row per invocation.
    let large =
        attention::candidates(Kernel::Forward, &problem([8, 12, 12, 1024, 1024, 64, 64]), None, &limits()[3]);
    assert!(large.len() >= 9 && large.contains(&attention::Choice::Own { rows: 1 }), "{large:?}");
    // For drivers that run on a CPU, candidates have several rows per invocation.
    let own = attention::candidates(Kernel::Keys, &problem([1, 2, 2, 64, 64, 32, 32]), None, &limits()[1]);
    assert_eq!(own, [4, 1, 2].map(|rows| attention::Choice::Own { rows }));
}

/// Returns the attention kernels of a program.
fn kernels(graph: &Graph, limits: &Limits, choices: &Choices) -> Vec<Dispatch> {
    let all = checked_with(graph, limits, choices).into_iter();
    all.filter(|dispatch| dispatch.label.starts_with("attention")).collect()
}

#[test]
fn a_program_runs_what_was_chosen() {
    let graph = graph(&text([2, 3, 3, 128, 128, 32, 32], ", causal", true));
    for limits in limits() {
        let plain = kernels(&graph, &limits, &choices(&limits));
        let problems = attention_of(&graph, &limits);
        assert_eq!((problems.len(), plain.len()), (3, 3));
        for (i, problem) in problems.iter().enumerate() {
            for choice in &candidates(problem, Precision::F32, &limits)[1..] {
                let mut choices = choices(&limits);
                choices.insert(problem.clone(), *choice);
                let tuned = kernels(&graph, &limits, &choices);
                let changed: Vec<usize> = (0..3).filter(|&k| tuned[k].source != plain[k].source).collect();
                assert_eq!(changed, [i], "{choice:?} for {problem}");
            }
        }
    }
}

#[test]
fn what_cannot_run_alone_is_the_rules() {
    let cached = |gradient| {
        let graph = graph(&text([1, 2, 2, 33, 70, 24, 40], ", causal, query_offset, key_length", gradient));
        attention_of(&graph, &adapters()[0])
    };
    // The gradient is not among the problems, because with all operands it would need too many bindings.
    assert_eq!(cached(true), cached(false));
    let [problem @ Problem::Attention(Kernel::Forward, _)] = &cached(false)[..] else { panic!("forward") };
    // The queries are at the last positions of the keys.
    let alone = alone(problem, &candidates(problem, Precision::F32, &adapters()[0])[0], &adapters()[0]);
    assert_eq!(alone.words, [(3, vec![70 - 33]), (4, vec![70])]);
    let lines = "%0: f32[2, 4, 3, 16] = input \"q\"\n%1: f32[9, 2, 8, 16] = input \"k\"\n\
        %2: f32[9, 2, 8, 16] = input \"v\"\n%3: i32[2, 5] = input \"table\"\n\
        %4: f32[2, 4, 3, 16], %5: f32[2, 4, 3] = attention %0, %1, %2, %3 {scale=0.25, block_table}\noutput \"o\" %4";
    assert_eq!(attention_of(&graph(lines), &adapters()[0]), []);
}

#[test]
fn a_choice_that_has_no_valid_shader_does_not_suit() {
    let [portable, software, ..] = limits();
    let block = |[rows_each, columns_each, row_threads, column_threads]: [usize; 4]| {
        attention::Choice::Block(Tile { rows_each, columns_each, row_threads, column_threads })
    };
    let own = |rows| attention::Choice::Own { rows };
    let some = problem([2, 4, 2, 33, 70, 24, 40]);
    let empty = problem([2, 4, 2, 33, 0, 24, 40]);
    let huge = problem([u32::MAX as usize; 7]);
    for kernel in Kernel::ALL {
        assert!(suits(&block([2, 4, 8, 4]), kernel, &some, None, &portable));
        assert!(
            suits(&own(1), kernel, &some, None, &portable) && suits(&own(1), kernel, &empty, None, &portable)
        );
        assert!(suits(&own(4), kernel, &some, None, &software));
        for wrong in [
            block([0, 4, 8, 4]),
            block([17, 4, 8, 1]),
            block([2, 3, 8, 4]),
            block([2, 4, 32, 16]),
            block([2, 4, 8, 0]),
            block([8, 4, 16, 16]),
            block([usize::MAX, 4, usize::MAX, 2]),
            own(0),
            own(4),
        ] {
            assert!(!suits(&wrong, kernel, &some, None, &portable), "{wrong:?}");
        }
        assert!(!suits(&own(9), kernel, &some, None, &software));
        for problem in [empty, huge] {
            assert!(!suits(&block([2, 4, 8, 4]), kernel, &problem, None, &portable));
        }
    }
}
