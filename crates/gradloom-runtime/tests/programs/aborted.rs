//! Tests panics inside a block of a trace that are caught inside the trace: the program is the same as if the
//! block had never begun.

use crate::devices;
use gradloom_core::error::{Error, Result};
use gradloom_core::ir::{DType, Graph};
use gradloom_core::nn::{Linear, State};
use gradloom_core::trace::{Tensor, checkpoint, f32, scan, trace};
use gradloom_runtime::{Session, Trainer};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the closure, then panics and catches the panic, so that the closure's result is lost.
fn aborted<R>(f: impl FnOnce() -> R) {
    let panic = catch_unwind(AssertUnwindSafe(|| {
        f();
        panic!("given up");
    }));
    assert!(panic.is_err());
}

fn text(layer: &Linear, f: impl FnOnce(Tensor) -> Tensor) -> Result<String> {
    let inputs = [f32("x", [4, 3])];
    let traced = trace(layer, &inputs, true, |x| f(x[0]), |y| vec![y])?;
    let mut graph: Graph = traced.graph;
    graph.outputs.push(gradloom_core::ir::Output { name: "y".into(), value: traced.results[0] });
    gradloom_core::verify::verify(&graph).map_err(Error::from)?;
    // Compare the text without origins, which differ by line. Ops outside of all blocks are not printed.
    let (graph, _) = gradloom_core::passes::run(graph);
    Ok(graph
        .to_string()
        .lines()
        .filter(|line| !line.contains(" = \""))
        .map(|l| l.to_string() + "\n")
        .collect())
}

/// Aborts every kind of block, around values that could be left behind.
fn give_up(x: Tensor, layer: &Linear) {
    aborted(|| {
        checkpoint(|| -> Tensor {
            let y = layer.forward(x).tanh();
            panic!("{y:?} is lost")
        })
    });
    aborted(|| checkpoint(|| aborted(|| checkpoint(|| -> Tensor { panic!("inner") }))));
    aborted(|| {
        scan(4, x, x, |carried, row| -> (Tensor, ()) {
            let inner = checkpoint(|| layer.forward(row.reshape([1, 3])).dropout(0.5).sum());
            aborted(|| _ = scan(3, inner, (), |c, ()| -> (Tensor, ()) { panic!("{c:?}") }));
            panic!("{carried:?}")
        })
    });
    // An error in an aborted block is not an error of the program.
    aborted(|| {
        checkpoint(|| -> Tensor {
            let _ = x.matmul(x);
            panic!("a wrong product")
        })
    });
}

#[test]
fn the_trace_is_as_if_the_block_had_never_begun() {
    let layer = Linear::new(3, 3);
    let body = |x: Tensor| {
        let y = checkpoint(|| layer.forward(x).dropout(0.5));
        scan(4, y.sum(), y, |sum, row| (sum + row.sum(), ())).0
    };
    let expected = text(&layer, body).unwrap();
    let disturbed = text(&layer, |x| {
        give_up(x, &layer);
        let y = checkpoint(|| {
            give_up(x, &layer);
            let y = layer.forward(x).dropout(0.5);
            give_up(y, &layer);
            y
        });
        give_up(y, &layer);
        scan(4, y.sum(), y, |sum, row| {
            give_up(x, &layer);
            (sum + row.sum(), ())
        })
        .0
    });
    assert_eq!(disturbed.unwrap(), expected);
}

#[test]
fn what_was_first_used_in_a_block_that_was_given_up_is_no_part_of_the_program() {
    let (layer, unused) = (Linear::new(3, 3), Linear::new(3, 3));
    let models = vec![layer, unused];
    let traced = trace(
        &models,
        &[f32("x", [4, 3])],
        true,
        |x| {
            aborted(|| {
                _ = checkpoint(|| -> Tensor {
                    let y = models[1].forward(x[0]) + State::new([4, 3], DType::F32, 0.0).named("s").tensor();
                    panic!("{y:?}")
                })
            });
            models[0].forward(x[0]).sum()
        },
        |y| vec![y],
    )
    .unwrap();
    let names: Vec<&str> = traced.params.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["0.weight", "0.bias"]);
    let leaves: Vec<_> = traced.graph.entry_ops().filter_map(|(_, op)| Graph::leaf_name(&op.kind)).collect();
    assert_eq!(leaves, ["x", "0.weight", "0.bias"]);
}

#[test]
fn a_tensor_that_was_carried_out_of_it_is_an_error() {
    let traced = trace(
        &(),
        &[f32("x", [3])],
        false,
        |x| {
            let mut kept = x[0];
            aborted(|| {
                checkpoint(|| -> Tensor {
                    kept = x[0].exp();
                    panic!()
                })
            });
            // New values must not reuse the ids of aborted ones.
            let _ = x[0].sin() + x[0].cos();
            kept + 1.0
        },
        |y| vec![y],
    );
    let error = traced.unwrap_err();
    assert!(error.message().contains("used outside of it"), "{error}");
}

#[test]
fn a_program_after_a_panic_gives_the_right_values() {
    let rows = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    for device in devices() {
        let session = Session::new((), &device, 0).unwrap();
        let mut infer = session
            .infer([f32("x", [2, 3])], |_, [x]| {
                aborted(|| _ = checkpoint(|| -> Tensor { panic!("first") }));
                let y = checkpoint(|| {
                    aborted(|| _ = scan(2, x, x, |_, _| -> (Tensor, ()) { panic!("second") }));
                    x * 2.0
                });
                scan(2, y.slice(0, 0..1).reshape([3]), y, |sum, row| {
                    aborted(|| _ = checkpoint(|| -> Tensor { panic!("{row:?}") }));
                    (sum + row, sum)
                })
                .0
            })
            .unwrap();
        assert_eq!(infer.run([&rows]).unwrap(), [12.0, 18.0, 24.0]);
        let mut train = Trainer::new(Linear::new(3, 1))
            .inputs([f32("x", [2, 3])])
            .loss(|layer, [x]| {
                give_up_training(x, layer);
                checkpoint(|| layer.forward(x)).sum()
            })
            .optimizer(gradloom_core::optim::Sgd::new(0.5))
            .compile(&device)
            .unwrap();
        let before = train.store().read_f32("weight").unwrap();
        train.step([&rows]).unwrap().loss().unwrap();
        let after = train.store().read_f32("weight").unwrap();
        let expected: Vec<f32> = before.iter().zip([5.0, 7.0, 9.0]).map(|(w, g)| w - 0.5 * g).collect();
        assert_eq!(after, expected);
    }
}

fn give_up_training(x: Tensor, layer: &Linear) {
    aborted(|| {
        checkpoint(|| -> Tensor {
            let y = checkpoint(|| layer.forward(x));
            panic!("{y:?}")
        })
    });
}

#[test]
fn a_scan_of_more_steps_than_memory_is_an_error_of_the_trace() {
    let traced = trace(
        &(),
        &[f32("x", [3])],
        false,
        |x| scan(usize::MAX, x[0], (), |carried, ()| (carried, carried)).1,
        |y| vec![y],
    );
    let error = traced.unwrap_err();
    assert!(error.message().starts_with("`scan`: f32[18446744073709551615, 3] has more elements"), "{error}");
    assert!(error.origin().unwrap().file.ends_with("aborted.rs"), "{error}");
}
