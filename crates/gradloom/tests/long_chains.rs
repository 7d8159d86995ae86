//! Tests programs much longer than those of real models: results are exact, and a small stack is sufficient.

use gradloom::cpu::Loops;
use gradloom::prelude::*;
use gradloom::runtime::run_once;
use gradloom_core::ir::{DType, Graph, parse};
use gradloom_core::reference::evaluate;
use gradloom_core::verify::{MAX_EXPANDED_OPS, verify};
use gradloom_testing::Leaves;
use gradloom_testing::chains::{self, CHAINS, element};

/// Runs a test on a stack of one megabyte, which threads of other runtimes may have.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(test).unwrap();
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn devices() -> [Device; 2] {
    [Loops::Native, Loops::Interpreted].map(|loops| Device::cpu_with_loops(2, loops).unwrap())
}

/// Returns the outputs of a graph with one input, after checking that machine code and the interpreter agree.
fn outputs(graph: &Graph, x: &[f32]) -> Vec<Vec<f32>> {
    let [native, interpreted] =
        devices().map(|device| run_once(graph.clone(), &device, &[x.to_vec()]).unwrap());
    for (native, interpreted) in native.iter().flatten().zip(interpreted.iter().flatten()) {
        assert_eq!(
            native.to_bits(),
            interpreted.to_bits(),
            "{native} in machine code, {interpreted} interpreted"
        );
    }
    native
}

/// Returns the outputs of the reference evaluator in float64.
fn reference(graph: &Graph, x: &[f32]) -> Vec<Vec<f64>> {
    let values: Vec<f64> = x.iter().map(|&x| x.into()).collect();
    let leaves = Leaves::random(0).with("x", DType::F32, &[x.len()], &values);
    let evaluation = evaluate(graph, &|kind| leaves.value(kind)).unwrap();
    evaluation.outputs.iter().map(|(_, value)| value.to_f64()).collect()
}

fn assert_close(got: &[Vec<f32>], want: &[Vec<f64>], what: &str) {
    for (&got, &want) in got.iter().flatten().zip(want.iter().flatten()) {
        assert!((f64::from(got) - want).abs() <= 1e-4 * want.abs().max(1.0), "{what}: {got}, not {want}");
    }
}

#[test]
fn chains_of_every_function_and_their_gradients_are_right_at_any_length() {
    on_a_small_stack(|| {
        for (name, step) in CHAINS {
            for (length, elements) in [(900, 1), (2_300, 517)] {
                let graph = chains::graph(step, length, elements).unwrap();
                let x: Vec<f32> = (0..elements).map(element).collect();
                assert_close(&outputs(&graph, &x), &reference(&graph, &x), name);
            }
        }
    });
}

/// These chains crashed when the values of machine code were numbered with 16 bits.
#[test]
fn two_thousand_functions_of_five_thousand_numbers() {
    let x: Vec<f32> = (0..5_000).map(element).collect();
    for (name, length) in [("tanh", 1_950), ("gelu", 1_500)] {
        let (_, step) = CHAINS.into_iter().find(|(known, _)| *known == name).unwrap();
        let graph = chains::graph(step, length, x.len()).unwrap();
        assert_close(&outputs(&graph, &x), &reference(&graph, &x), name);
    }
}

fn repeated(trip: usize) -> Graph {
    let text = format!(
        r#"graph {{
            %0: f32[300] = input "x"
            ^1(%1: f32[300], %2: f32[300]) {{
              %3: f32[300] = add %1, %2
              %4: f32[300] = tanh %3
              -> %4, %2
            }}
            %5: f32[300], %6: f32[300] = repeat ^1 %0, %0 {{trip={trip}, carried=2}}
            output "y" %5
        }}"#
    );
    parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_block_that_runs_ten_thousand_times_is_right() {
    on_a_small_stack(|| {
        let x: Vec<f32> = (0..300).map(element).collect();
        let graph = repeated(10_000);
        verify(&graph).unwrap();
        assert_close(&outputs(&graph, &x), &reference(&graph, &x), "repeat");
    });
}

#[test]
fn a_block_that_runs_too_often_is_an_error_that_names_it() {
    for trip in [MAX_EXPANDED_OPS, 1_000_000_000_000, usize::MAX] {
        let graph = repeated(trip);
        let error = verify(&graph).unwrap_err().to_string();
        assert!(
            error.contains(&format!("repeat runs block ^1, 2 ops once expanded, {trip} times")),
            "{error}"
        );
        let error = run_once(graph, &Device::cpu(), &[vec![0.0; 300]]).unwrap_err().to_string();
        assert!(error.contains("more than 262144 ops from blocks"), "{error}");
    }
}

/// Sixty blocks, each of which runs the previous one twice.
#[test]
fn blocks_that_double_are_an_error() {
    let mut text =
        "graph {\n%0: f32[2] = input \"x\"\n^1(%1: f32[2]) {\n%2: f32[2] = neg %1\n-> %2\n}\n".to_string();
    for block in 2..=60 {
        let (a, b, c, before) = (10 * block, 10 * block + 1, 10 * block + 2, block - 1);
        text += &format!("^{block}(%{a}: f32[2]) {{\n%{b}: f32[2] = checkpoint ^{before} %{a}\n");
        text += &format!("%{c}: f32[2] = checkpoint ^{before} %{b}\n-> %{c}\n}}\n");
    }
    text += "%1000: f32[2] = checkpoint ^60 %0\noutput \"y\" %1000\n}";
    let error = verify(&parse(&text).unwrap()).unwrap_err().to_string();
    assert!(error.contains("more than 262144 ops from blocks"), "{error}");
}

#[test]
fn a_hundred_thousand_ops_compile_on_a_small_stack() {
    on_a_small_stack(|| {
        let session = Session::new((), &Device::null(), 0).unwrap();
        let chain = |x: Tensor| (0..50_000).fold(x, |y, _| (y + x).tanh());
        let infer = session.infer([f32("x", [64])], |(), [x]| chain(x)).unwrap();
        assert!(infer.plan().launches.len() < 1_000);
        // Sums of gradients consist only of additions.
        let sum = |x: Tensor| (0..50_000).fold(x, |y, _| y + x);
        session.infer([f32("x", [64])], |(), [x]| sum(x)).unwrap();
        let train = Trainer::new((gradloom::Param::new([64], gradloom::Init::Zeros),))
            .inputs([f32("x", [64])])
            .loss(|(p,), [x]| (0..5_000).fold(x * p.tensor(), |y, _| (y + x).tanh()).mean())
            .optimizer(Adam::new(1e-3))
            .compile(&Device::null());
        assert!(train.is_ok());
    });
}
