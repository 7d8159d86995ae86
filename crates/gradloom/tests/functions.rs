//! Compares functions composed of ops, with their gradients, on the CPU with the float64 reference.

use gradloom::ir::{OpKind, Output, Type};
use gradloom::prelude::*;
use gradloom::reference::{HostTensor, evaluate};
use gradloom::trace::{Input, trace};

/// Returns numbers in `[-2, 2)`.
fn data(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 252.25 - 2.0).collect()
}

#[track_caller]
fn check(name: &str, shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Tensor) {
    let input =
        |(i, shape): (usize, &&[usize])| Input { name: i.to_string(), ty: Type::new(DType::F32, *shape) };
    let inputs: Vec<Input> = shapes.iter().enumerate().map(input).collect();
    let traced = trace(
        &(),
        &inputs,
        false,
        |x| {
            let y = f(x);
            let loss = (y * y).sum();
            std::iter::once(y).chain(x.iter().map(|&x| gradients(loss, [x])[0])).collect()
        },
        |results: Vec<Tensor>| results,
    );
    let mut traced = traced.unwrap();
    for (i, &value) in traced.results.iter().enumerate() {
        traced.graph.outputs.push(Output { name: i.to_string(), value });
    }
    let values: Vec<Vec<f32>> =
        shapes.iter().enumerate().map(|(i, s)| data(s.iter().product(), i + 1)).collect();
    let leaf = |kind: &OpKind| match kind {
        OpKind::Input { name, ty } => {
            let values = values[name.parse::<usize>().unwrap()].iter().map(|&v| f64::from(v));
            Some(HostTensor::from_f64(ty.clone(), values))
        }
        _ => None,
    };
    let wanted = evaluate(&traced.graph, &leaf).unwrap().outputs;
    let got = gradloom::runtime::run_once(traced.graph, &Device::cpu(), &values).unwrap();
    for (i, (got, (_, wanted))) in got.iter().zip(&wanted).enumerate() {
        let wanted = wanted.to_f64();
        assert_eq!(got.len(), wanted.len(), "{name}, result {i}");
        for (element, (&got, want)) in got.iter().zip(wanted).enumerate() {
            let near = (f64::from(got) - want).abs() <= 2e-5 * want.abs().max(1.0);
            assert!(near, "{name}, result {i}, element {element}: {got}, not {want}");
        }
    }
}

#[test]
fn functions_on_the_cpu() {
    check("softplus", &[&[3, 7]], |x| x[0].softplus());
    check("leaky_relu", &[&[3, 7]], |x| x[0].leaky_relu(0.1));
    check("rope", &[&[2, 5, 6]], |x| x[0].rope(10_000.0));
    check("stack", &[&[3, 1], &[3, 1]], |x| stack(1, x));
    check("layer_norm", &[&[3, 5], &[5]], |x| x[0].layer_norm(x[1], 1e-5));
    check("rms_norm", &[&[3, 5], &[5]], |x| x[0].rms_norm(x[1], 1e-6));
    check("softmax_causal", &[&[2, 4, 4]], |x| x[0].softmax_causal());
    check("self_attention", &[&[2, 3, 12]], |x| x[0].self_attention(2, AttentionOptions::causal()));
    for axis in 0..3 {
        let mut picks = [3, 3, 3];
        picks[axis] = 5;
        check("take_along_axis", &[&[3, 3, 3], &picks], |x| {
            // The indices are 0, 1 or 2.
            x[0].take_along_axis(x[1].abs().cast(DType::I32), axis as isize)
        });
    }
}

/// Extents and indices that count from the end.
#[test]
fn shapes_and_ranges_from_the_end() {
    let shapes = |f: fn(Tensor) -> Tensor| {
        let input = [Input { name: "x".into(), ty: Type::new(DType::F32, [4, 6]) }];
        let traced = trace(&(), &input, false, |x| f(x[0]), |y| vec![y]);
        traced.map(|traced| traced.graph.ty(traced.results[0]).shape.to_vec()).map_err(|e| e.to_string())
    };
    assert_eq!(shapes(|x| x.reshape([-1])).unwrap(), [24]);
    assert_eq!(shapes(|x| x.reshape([2, -1, 3])).unwrap(), [2, 4, 3]);
    assert_eq!(shapes(|x| x.reshape([x.shape()[0] * 2, 3])).unwrap(), [8, 3]);
    assert_eq!(shapes(|x| x.slice(1, -2..)).unwrap(), [4, 2]);
    assert_eq!(shapes(|x| x.slice(1, ..-1)).unwrap(), [4, 5]);
    assert_eq!(shapes(|x| x.slice(1, 1..=x.rank() as isize - 3)).unwrap(), [4, 5]);
    assert_eq!(shapes(|x| x.slice(1, -5..=3)).unwrap(), [4, 3]);
    assert_eq!(shapes(|x| x.slice(0, ..)).unwrap(), [4, 6]);
    assert_eq!(shapes(|x| x.slice_step(1, -4.., 3)).unwrap(), [4, 2]);
    for (wrong, said) in [
        ((|x| x.reshape([-1, -1])) as fn(Tensor) -> Tensor, "one extent may be -1"),
        (|x| x.reshape([-2, 3]), "one extent may be -1"),
        (|x| x.reshape([5, -1]), "the other extents have 5 elements together"),
        (|x| x.reshape([0, -1]), "the other extents have 0 elements together"),
        (|x| x.slice(1, -7..), "`slice` -7.. of axis 1 of [4, 6]"),
        (|x| x.slice(1, 3..9), "9"),
    ] {
        let error = shapes(wrong).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    // The values are tested, too: the last two columns.
    check("slice", &[&[3, 5]], |x| x[0].slice(-1, -2..));
}

/// Operators with parameters and states on either side compute the same as with their tensors.
#[test]
fn parameters_and_states_beside_operators() {
    #[derive(Module)]
    struct Model {
        a: Param,
        b: Param,
        c: State,
    }
    let param = |values: [f32; 3]| Param::new([3], Init::Values(values.into()));
    let model =
        Model { a: param([2.0, -3.0, 5.0]), b: param([0.5, 4.0, -1.0]), c: State::new([3], DType::F32, 3.0) };
    let results = |m: &Model, x: Tensor| {
        let (a, b, c) = (m.a.tensor(), m.b.tensor(), m.c.tensor());
        [
            (&m.a + x, a + x),
            (&m.a - x, a - x),
            (&m.a * x, a * x),
            (&m.a / x, a / x),
            (&m.a % x, a % x),
            (&m.a - &m.b, a - b),
            (&m.a / &m.c, a / c),
            (&m.c - &m.a, c - a),
            (&m.c * x, c * x),
            (&m.a + 1.0, a + 1.0),
            (&m.a - 1, a - 1),
            (&m.a / 2.0_f32, a / 2.0),
            ((2.0 * &m.a).square(), (2.0 * a).square()),
            ((1.0 - &m.c) * &m.a, (1.0 - c) * a),
            (-&m.b, -b),
            (-&m.c, -c),
        ]
    };
    let session = Session::new(model, &Device::cpu(), 1).unwrap();
    let flat = |m: &Model, x: Tensor| {
        let (got, want): (Vec<_>, Vec<_>) = results(m, x).into_iter().unzip();
        (stack(0, &got), stack(0, &want))
    };
    let mut both = session.infer([f32("x", [3])], |m, [x]| flat(m, x)).unwrap();
    let (got, want) = both.run([&[1.5, -2.0, 0.25][..]]).unwrap();
    assert_eq!(got, want);
}

/// The gradient with respect to a log-probability is the negative probability that its class is emitted at
/// its time. These sum to -1 at each time within the sequence. Impossible classes and sequences have a
/// gradient of 0, and nothing is NaN.
#[test]
fn the_gradient_of_ctc_counts_what_is_emitted() {
    const TIMES: usize = 6;
    const CLASSES: usize = 4;
    let inputs =
        [f32("logs", [TIMES, 3, CLASSES]), i32("targets", [3, 2]), i32("times", [3]), i32("labels", [3])];
    let session = Session::new((), &Device::cpu(), 1).unwrap();
    let mut loss = session
        .infer(inputs, |(), [logs, targets, times, labels]| {
            let rows = logs.ctc_loss_rows(targets, times, labels, CtcOptions::new());
            // Exclude infinite losses: times 0, they are NaN, which must not reach the other sequences.
            let finite = rows.is_finite().select(rows, 0.0).sum();
            (rows, gradients(finite, [logs])[0])
        })
        .unwrap();
    let mut logs = data(TIMES * 3 * CLASSES, 3);
    let at = |time: usize, row: usize, class: usize| (time * 3 + row) * CLASSES + class;
    // Sequence 0 emits the label 2 at its third time or later; 1 is shorter; 2 has too few times for its
    // labels.
    logs[at(0, 0, 2)] = f32::NEG_INFINITY;
    logs[at(1, 0, 2)] = f32::NEG_INFINITY;
    let mut run = |labels: [i32; 3]| {
        let (targets, times) = ([1, 2, 3, 3, 1, 1], [6, 4, 2]);
        loss.run((&logs[..], &targets[..], &times[..], &labels[..]))
    };
    let (rows, gradient) = run([2, 2, 2]).unwrap();
    assert!(rows[0].is_finite() && rows[1].is_finite() && rows[2] == f32::INFINITY, "{rows:?}");
    for time in 0..TIMES {
        for (row, times) in [6, 4, 0].into_iter().enumerate() {
            let emitted: f32 = (0..CLASSES).map(|class| -gradient[at(time, row, class)]).sum();
            let want = if time < times { 1.0 } else { 0.0 };
            assert!((emitted - want).abs() < 1e-5, "time {time} of sequence {row}: {emitted}");
        }
    }
    assert!(gradient.iter().all(|x| (-1.00001..=0.0).contains(x)), "{gradient:?}");
    assert_eq!([gradient[at(0, 0, 2)], gradient[at(1, 0, 2)]], [0.0; 2]);
    // Request more labels than the targets have.
    let error = run([2, 3, 2]).unwrap_err();
    assert_eq!(error.kind(), gradloom::ErrorKind::Trap, "{error}");
}
