//! Tests debug runs of a training step: they run launch by launch on copies, and do not affect the session.

use gradloom::Retention;
use gradloom::plan::{Region, Role, report};
use gradloom::prelude::*;

#[derive(Module)]
struct Net {
    l1: Linear,
    dropout: Dropout,
    l2: Linear,
}

const ROWS: usize = 17;

fn compile(device: &Device) -> Train<Net, 2> {
    Trainer::new(Net { l1: Linear::new(5, 33), dropout: Dropout::new(0.3), l2: Linear::new(33, 3) })
        .inputs([f32("x", [ROWS, 5]), i32("class", [ROWS])])
        .loss(|net, [x, class]| {
            net.l2.forward(net.dropout.forward(net.l1.forward(x).gelu())).cross_entropy(class)
        })
        .optimizer(AdamW::new(Schedule::warmup_cosine(1e-2, 5, 50, 1e-3)))
        .clip_norm(0.5)
        .seed(3)
        .compile(device)
        .unwrap()
}

fn data() -> (Vec<f32>, Vec<i32>) {
    let x = (0..ROWS * 5).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
    (x, (0..ROWS as i32).map(|i| i % 3).collect())
}

/// Returns the bytes of every parameter and state.
fn stored(train: &Train<Net, 2>) -> Vec<(String, Vec<u8>)> {
    let store = train.store();
    store.entries().into_iter().map(|e| (e.name.clone(), store.read(&e.name).unwrap())).collect()
}

#[test]
fn a_debug_run_is_the_next_step_and_changes_nothing() {
    let (x, class) = data();
    let mut train = compile(&Device::cpu());
    for _ in 0..3 {
        train.step((&x, &class)).unwrap().loss().unwrap();
    }
    let before = (stored(&train), train.attempted_steps(), train.hyperparameters().clone());
    let mut runs = Vec::new();
    for retention in [Retention::AsPlanned, Retention::EveryValue] {
        let mut run = train.debug_run((&x, &class), retention).unwrap();
        run.run(0..run.plan().launches.len()).unwrap();
        runs.push(run);
    }
    assert_eq!((stored(&train), train.attempted_steps(), train.hyperparameters().clone()), before);

    let step = train.step((&x, &class)).unwrap();
    for run in &runs {
        for name in ["loss", "gradient_norm"] {
            let expected: Vec<f64> = step.get(name).unwrap().into_iter().map(f64::from).collect();
            assert_eq!(run.output(name).unwrap().to_f64(), expected, "{name}");
        }
        let mut compared = 0;
        for next in run.plan().buffers.iter().filter(|b| b.role == Role::Next) {
            let target = run
                .plan()
                .buffers
                .iter()
                .find(|b| b.region == Region::Store && b.offset == next.offset && b.role != Role::Next)
                .unwrap();
            let bytes = train.store().read(&report::label(run.graph(), target)).unwrap();
            let words = bytes.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
            let expected: Vec<f64> = match next.ty.dtype {
                DType::I32 | DType::U32 => words.map(|w| u32::from_le_bytes(w).into()).collect(),
                _ => words.map(|w| f32::from_le_bytes(w).into()).collect(),
            };
            assert_eq!(run.read(next.value).unwrap().to_f64(), expected);
            compared += 1;
        }
        assert!(compared >= 12, "weights, biases, and two moments of each: {compared}");
    }
}

#[test]
fn the_launch_that_first_makes_a_nan_can_be_found() {
    let (mut x, class) = data();
    let train = compile(&Device::cpu());
    let first_bad = |x: &Vec<f32>| {
        let mut run = train.debug_run((x, &class), Retention::AsPlanned).unwrap();
        (0..run.plan().launches.len()).find(|&launch| {
            run.run(launch..launch + 1).unwrap();
            let finite = |value| run.read(value).unwrap().to_f64().iter().all(|x| x.is_finite());
            !run.plan().launches[launch].writes.iter().all(|write| finite(write.buffer))
        })
    };
    assert_eq!(first_bad(&x), None);
    x[7] = f32::NAN;
    let launch = first_bad(&x).expect("a NaN");
    let plan = train.plan().view(&train.stages().passes);
    let origin = plan.launch(launch).origin().expect("it is the user's").to_string();
    assert!(origin.contains("debug_run.rs"), "{origin}");
    let reads_x = plan.launch(launch).inputs().iter().any(|b| plan.label(b) == "x");
    assert!(reads_x, "the first launch that sees x: {}", plan.launch(launch).name());
}

#[test]
fn forward_programs_run_launch_by_launch_too() {
    let (x, _) = data();
    let train = compile(&Device::cpu());
    let mut infer = train.infer([f32("x", [ROWS, 5])], |net, [x]| net.l2.forward(net.l1.forward(x))).unwrap();
    let mut run = infer.debug_run([&x], Retention::EveryValue).unwrap();
    run.run(0..run.plan().launches.len()).unwrap();
    let expected: Vec<f64> = infer.run([&x]).unwrap().into_iter().map(f64::from).collect();
    assert_eq!(run.output("result.0").unwrap().to_f64(), expected);
    assert!(run.plan().buffers.iter().all(|b| b.role != Role::Parameter), "nothing is updated");
}

#[test]
fn bad_data_is_refused() {
    let (x, class) = data();
    let train = compile(&Device::cpu());
    let error = train.debug_run((&x[1..], &class), Retention::AsPlanned).unwrap_err();
    assert_eq!(error.kind(), gradloom::ErrorKind::Feed);
}
