//! Tests states of user-defined models: running statistics, counters and caches, with and without training.

use gradloom::ir::{Graph, OpKind, Output, Type};
use gradloom::prelude::*;
use gradloom::reference::{HostTensor, evaluate};
use gradloom::runtime::Program;
use gradloom::trace::{is_training, trace};
use gradloom::{ErrorKind, passes};
use std::collections::HashMap;

/// Subtracts the running mean of the training batches, and counts the batches.
#[derive(Module)]
struct Centre {
    mean: State,
    batches: State,
}

impl Centre {
    fn new(width: usize) -> Self {
        Self { mean: State::new([width], DType::F32, 0.5), batches: State::new([], DType::U32, 0.0) }
    }

    fn forward(&self, x: Tensor) -> Tensor {
        if is_training() {
            self.mean.set(self.mean.tensor() * 0.75 + x.mean_axes(0) * 0.25);
            self.batches.set(self.batches.tensor() + 1);
        }
        x - &self.mean
    }
}

#[derive(Module)]
struct Net {
    centre: Centre,
    linear: Linear,
}

fn train() -> Train<Net, 1> {
    Trainer::new(Net { centre: Centre::new(2), linear: Linear::new(2, 3) })
        .inputs([f32("x", [2, 2])])
        .loss(|net, [x]| net.linear.forward(net.centre.forward(x)).square().mean())
        .optimizer(AdamW::new(1e-2))
        .compile(&Device::cpu())
        .unwrap()
}

fn mean(train: &Train<Net, 1>) -> Vec<f32> {
    train.store().read_f32("centre.mean").unwrap()
}

#[test]
fn statistics_follow_the_training_and_are_read_beside_it() {
    let mut train = train();
    let mut centred = train.infer([f32("x", [1, 2])], |net, [x]| net.centre.forward(x)).unwrap();
    assert_eq!(centred.run([&[1.0f32, 1.0]]).unwrap(), [0.5, 0.5]);
    let mut expected = [0.5f32; 2];
    for i in 0..5 {
        let x = [i as f32, 3.0, 2.0, -(i as f32)];
        train.step([&x]).unwrap().loss().unwrap();
        expected = [0, 1].map(|c| expected[c] * 0.75 + (x[c] + x[c + 2]) / 2.0 * 0.25);
        assert_eq!(mean(&train), expected);
        // Reading does not change the state.
        assert_eq!(centred.run([&[0.0f32, 1.0]]).unwrap(), [-expected[0], 1.0 - expected[1]]);
        assert_eq!(mean(&train), expected);
    }
    assert_eq!(train.store().read("centre.batches").unwrap(), 5u32.to_le_bytes());
}

#[test]
fn a_step_that_fails_changes_no_state() {
    let mut train = train();
    train.step([&[1.0f32; 4]]).unwrap().loss().unwrap();
    let before = (mean(&train), train.store().read("centre.batches").unwrap());
    let step = train.step([&[f32::NAN, 0.0, 0.0, 0.0]]).unwrap();
    assert!(matches!(step.loss().unwrap_err().kind(), ErrorKind::NotFinite { .. }));
    assert_eq!((mean(&train), train.store().read("centre.batches").unwrap()), before);
}

#[test]
fn a_reset_knows_paths_and_leaves_the_optimizer_alone() {
    let mut train = train();
    train.step([&[1.0f32; 4]]).unwrap().loss().unwrap();
    let store = train.store();
    let moments = store.read_f32("optim.m.linear.weight").unwrap();
    let weight = store.read_f32("linear.weight").unwrap();
    train.reset_states("centre.mean").unwrap();
    assert_eq!(mean(&train), [0.5, 0.5]);
    assert_eq!(store.read("centre.batches").unwrap(), 1u32.to_le_bytes());
    train.reset_states("centre").unwrap();
    assert_eq!(store.read("centre.batches").unwrap(), 0u32.to_le_bytes());
    train.step([&[1.0f32; 4]]).unwrap().loss().unwrap();
    let (moments_2, weight_2) =
        (store.read_f32("optim.m.linear.weight").unwrap(), store.read_f32("linear.weight").unwrap());
    assert!(moments != moments_2 && weight != weight_2);
    train.reset_states("").unwrap();
    assert_eq!(mean(&train), [0.5, 0.5]);
    assert_eq!(store.read_f32("optim.m.linear.weight").unwrap(), moments_2);
    assert_eq!(store.read_f32("linear.weight").unwrap(), weight_2);
    for unknown in ["cent", "centre.mea", "linear", "optim", "centre.mean.x"] {
        let error = train.reset_states(unknown).unwrap_err();
        assert_eq!(error.message(), format!("no program of the session has a state under `{unknown}`"));
    }
    assert_eq!(train.applied_steps().unwrap(), 2);
}

/// A counter and a ring that several programs of a session share by name; one of the programs has no results.
#[test]
fn named_states_are_shared_by_programs() {
    let session = Session::new((), &Device::cpu(), 0).unwrap();
    let ring = || {
        let place = State::new([], DType::I32, 0.0).named("ring.place");
        let values = State::new([3, 2], DType::F32, -1.0).named("ring.values").in_place();
        (place, values)
    };
    let mut push = session
        .infer([f32("row", [1, 2])], |(), [row]| {
            let (place, values) = ring();
            let at = place.tensor();
            values.update_at(&[at, full(DType::I32, [0; 0], 0.0)], row);
            place.set((at + 1) % 3);
        })
        .unwrap();
    let mut sum = session.infer([], |(), []| ring().1.tensor().sum()).unwrap();
    let nothing: [&[f32]; 0] = [];
    assert_eq!(sum.run(nothing).unwrap(), [-6.0]);
    let mut rows = [[-1.0f32; 2]; 3];
    for i in 0..7 {
        let row = [i as f32, 10.0 * i as f32];
        push.run([&row]).unwrap();
        rows[i % 3] = row;
        assert_eq!(session.store().read_f32("ring.values").unwrap(), rows.concat());
        assert_eq!(sum.run(nothing).unwrap(), [rows.concat().iter().sum::<f32>()]);
    }
    session.reset_states("ring").unwrap();
    assert_eq!(session.store().read_f32("ring.values").unwrap(), [-1.0; 6]);
    assert_eq!(session.store().read("ring.place").unwrap(), 0i32.to_le_bytes());
    // A name is bound to one type and one initial value.
    let other = session.infer([], |(), []| State::new([3, 2], DType::F32, 0.0).named("ring.values").tensor());
    assert!(other.unwrap_err().message().contains("`ring.values`"));
}

#[test]
fn a_window_out_of_range_fails_the_run_and_changes_nothing() {
    let session = Session::new((), &Device::cpu(), 0).unwrap();
    let mut write = session
        .infer([f32("rows", [2, 2]), i32("at", [])], |(), [rows, at]| {
            let cache = State::new([4, 2], DType::F32, 7.0).named("cache").in_place();
            let count = State::new([], DType::I32, 0.0).named("count");
            count.set(count.tensor() + 1);
            cache.update_at(&[full(DType::I32, [0; 0], 2.0), full(DType::I32, [0; 0], 0.0)], rows);
            cache.update_at(&[at, full(DType::I32, [0; 0], 0.0)], rows * 2.0);
            rows.sum()
        })
        .unwrap();
    let contents = || (session.store().read_f32("cache").unwrap(), session.store().read("count").unwrap());
    let before = contents();
    for wrong in [3, 4, -1, i32::MAX, i32::MIN] {
        let error = write.run((&[1.0f32, 2.0, 3.0, 4.0], &[wrong])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Trap, "{error}");
        assert!(error.to_string().contains(&wrong.to_string()), "{error}");
        assert_eq!(contents(), before);
    }
    assert_eq!(write.run((&[1.0f32, 2.0, 3.0, 4.0], &[1])).unwrap(), [10.0]);
    // If two regions overlap, the later one wins.
    assert_eq!(contents(), (vec![7.0, 7.0, 2.0, 4.0, 6.0, 8.0, 3.0, 4.0], 1i32.to_le_bytes().to_vec()));
}

/// Runs three steps of a traced program that updates whole states and regions: the CPU agrees with the
/// float64 evaluator, before and after the passes.
#[test]
fn updates_agree_with_the_reference() {
    let (total, cache, at) = (
        State::new([2, 3], DType::F32, 1.0),
        State::new([1, 2, 5, 3], DType::F32, 0.25).in_place(),
        State::new([], DType::I32, 1.0),
    );
    let model = vec![total, cache, at];
    let inputs = [f32("x", [2, 3])];
    let mut traced = trace(
        &model,
        &inputs,
        false,
        |x| {
            let [total, cache, at] = &model[..] else { unreachable!() };
            total.set(total.tensor() + x[0] * 2.0);
            let zero = full(DType::I32, [0; 0], 0.0);
            let row = x[0].reshape([1, 2, 1, 3]) + cache.tensor().sum_keep([2]);
            cache.update_at(&[zero, zero, at.tensor(), zero], row);
            cache.update_at(
                &[zero, zero, zero, zero + 1],
                total.tensor().slice(1, 0..2).reshape([1, 2, 1, 2]),
            );
            at.set(at.tensor() + 1);
            row * total.tensor().reshape([1, 2, 1, 3])
        },
        |t| vec![t],
    )
    .unwrap();
    let value = traced.results[0];
    traced.graph.outputs.push(Output { name: "y".into(), value });
    for graph in [traced.graph.clone(), passes::run(traced.graph.clone()).0] {
        let mut states: HashMap<String, HostTensor> = HashMap::new();
        let mut program = Program::standalone(graph.clone(), &Device::cpu(), &|_| None).unwrap();
        for step in 0..3 {
            // Multiples of a quarter are exact in float32.
            let x = HostTensor::from_f64(
                Type::new(DType::F32, [2, 3]),
                (0..6).map(|i| f64::from(i * (step + 1) % 7) / 4.0),
            );
            let leaves = |kind: &OpKind| match kind {
                OpKind::Input { .. } => Some(x.clone()),
                kind => states.get(Graph::leaf_name(kind)?).cloned(),
            };
            let want = evaluate(&graph, &leaves).unwrap();
            let got = program.evaluate(&leaves).unwrap();
            assert_eq!(got.outputs, want.outputs, "step {step}");
            assert_eq!(got.next, want.next, "step {step}");
            assert_eq!(want.next.len(), 3);
            states.extend(want.next);
        }
        // Only in the sixth step would the fourth row begin beyond the end of the cache.
        assert_eq!(states["2"].to_f64(), [4.0]);
    }
}

#[test]
fn an_op_that_copies_a_state_that_must_be_in_place_is_refused() {
    let compile = |f: fn(&State, Tensor) -> Tensor, in_place: bool| {
        let state = || {
            let state = State::new([4, 2], DType::F32, 0.0).named("cache");
            if in_place { state.in_place() } else { state }
        };
        let session = Session::new((), &Device::cpu(), 0).unwrap();
        session.infer([f32("row", [1, 2])], move |(), [row]| f(&state(), row)).map(|_| ())
    };
    fn starts() -> [Tensor; 2] {
        [full(DType::I32, [0; 0], 1.0), full(DType::I32, [0; 0], 0.0)]
    }
    let copying: [fn(&State, Tensor) -> Tensor; 3] = [
        // The old value, read after the commit.
        |cache, row| {
            cache.update_at(&starts(), row);
            cache.tensor()
        },
        // The next value, before it is known whether the update takes effect.
        |cache, row| {
            cache.update_at(&starts(), row);
            cache.tensor().dynamic_update_slice(row, &starts()).sum()
        },
        |cache, row| {
            cache.set(cache.tensor().dynamic_update_slice(row, &starts()));
            row
        },
    ];
    for f in copying {
        compile(f, false).unwrap();
        let error = compile(f, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan, "{error}");
        assert!(error.message().starts_with("the update of `cache` must be in place"), "{error}");
    }
    let fine: [fn(&State, Tensor) -> Tensor; 2] = [
        |cache, row| {
            cache.update_at(&starts(), row + cache.tensor().sum());
            cache.tensor().transpose(0, 1).exp()
        },
        |cache, row| {
            cache.set(cache.tensor() * 0.5 + row);
            cache.tensor().sum()
        },
    ];
    for f in fine {
        compile(f, true).unwrap();
    }
}

#[test]
fn a_tied_state_is_one() {
    let shared = State::new([2], DType::F32, 3.0);
    let session = Session::new((shared.tie(), shared), &Device::cpu(), 0).unwrap();
    let mut bump = session
        .infer([], |(a, b), []| {
            a.set(a.tensor() + 1.0);
            b.tensor() * 1.0
        })
        .unwrap();
    let nothing: [&[f32]; 0] = [];
    assert_eq!(bump.run(nothing).unwrap(), [3.0, 3.0]);
    assert_eq!(bump.run(nothing).unwrap(), [4.0, 4.0]);
    let names: Vec<String> = session.store().entries().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["0"]);
}

#[test]
fn parameters_of_every_type_get_their_initial_values_again() {
    let of = |dtype| Param::of_type(gradloom::ir::Type::new(dtype, [3, 5]), Init::Normal { std: 0.1 });
    let mut train = Trainer::new([DType::F32, DType::F16, DType::BF16].map(of))
        .inputs([f32("x", [5])])
        .loss(|params, [x]| {
            params.iter().map(|w| (w.tensor().cast(DType::F32) * x).sum()).reduce(|a, b| a + b).unwrap()
        })
        .optimizer(Sgd::new(0.5))
        .compile(&Device::cpu())
        .unwrap_or_else(|error| panic!("{error}"));
    let values = |store: &gradloom::Store| ["0", "1", "2"].map(|name| store.read_f32(name).unwrap());
    let initial = values(&train.store());
    train.step([&[1.0f32; 5]]).unwrap().loss().unwrap();
    assert!(values(&train.store()).iter().zip(&initial).all(|(now, initial)| now != initial));
    train.session().reset_parameters().unwrap();
    assert_eq!(values(&train.store()), initial);
}
