//! Tests several programs of one model: concurrent training programs, batches of any size, results of any
//! type.

use gradloom::error::ErrorKind;
use gradloom::files::Entries;
use gradloom::prelude::*;
use gradloom::runtime::Limits;
use gradloom::runtime::pipeline::Target;
use gradloom::{Step, Store};

/// A line, and a judge that rates it.
#[derive(Module)]
struct Pair {
    line: Linear,
    judge: Linear,
}

fn pair(device: &Device) -> Session<Pair> {
    Session::new(Pair { line: Linear::new(2, 3), judge: Linear::new(3, 1) }, device, 5).unwrap()
}

const X: [f32; 8] = [1.0, -1.0, 0.5, 2.0, -0.3, 0.0, 0.7, 0.2];

fn line(session: &Session<Pair>) -> Trainer<Pair, 1> {
    session
        .trainer()
        .named("line")
        .only("line.*")
        .inputs([f32("x", [4, 2])])
        .loss(|m, [x]| m.judge.forward(m.line.forward(x)).mean())
        .optimizer(Adam::new(0.01))
}

fn judge(session: &Session<Pair>) -> Trainer<Pair, 1> {
    session
        .trainer()
        .named("judge")
        .only("judge.*")
        .inputs([f32("x", [4, 2])])
        .loss(|m, [x]| (m.judge.forward(m.line.forward(x)) + 1.0).square().mean())
        .optimizer(AdamW::new(0.1))
        .clip_norm(1.0)
}

/// Returns the names of the entries whose bytes `change` modifies.
fn changed(store: &Store, change: impl FnOnce()) -> Vec<String> {
    let before = store.read_all().unwrap();
    change();
    let after = store.read_all().unwrap();
    let pairs = before.into_iter().zip(after);
    pairs.filter(|((_, a), (_, b))| a != b).map(|((entry, _), _)| entry.name).collect()
}

#[test]
fn two_trainings_each_change_their_part() {
    let device = Device::cpu();
    let session = pair(&device);
    let mut line = line(&session).compile(&device).unwrap();
    let mut judge = judge(&session).compile(&device).unwrap();
    let store = session.store();
    let of_line = changed(&store, || line.step([&X]).unwrap().result().unwrap());
    assert!(
        of_line.iter().all(|name| name.starts_with("line.") || name.starts_with("optim.line/")),
        "{of_line:?}"
    );
    assert_eq!(of_line.len(), 2 + 4 + 1, "two parameters, two moments each, and a counter: {of_line:?}");
    let of_judge = changed(&store, || {
        judge.step([&X]).unwrap().result().unwrap();
        judge.step([&X]).unwrap().result().unwrap();
    });
    assert!(of_judge.iter().all(|name| name.starts_with("judge.") || name.starts_with("optim.judge/")));
    assert_eq!((line.applied_steps().unwrap(), judge.applied_steps().unwrap()), (1, 2));
    line.reset_optimizer().unwrap();
    assert_eq!((line.applied_steps().unwrap(), judge.applied_steps().unwrap()), (0, 2));
    // The judge uses the current line.
    let values = session.infer([f32("x", [4, 2])], |m, [x]| m.judge.forward(m.line.forward(x)));
    let before = values.unwrap().run([&X]).unwrap();
    let loss = judge.step([&X]).unwrap().loss().unwrap();
    let expected = before.iter().map(|y| (y + 1.0) * (y + 1.0)).sum::<f32>() / 4.0;
    assert!((loss - expected).abs() < 1e-6);
}

#[test]
fn a_name_is_given_once_at_a_time() {
    let device = Device::cpu();
    let session = pair(&device);
    let first = line(&session).compile(&device).unwrap();
    let again = line(&session).compile(&device).unwrap_err();
    assert_eq!(again.message(), "the session has a training program called `line` already");
    drop(first);
    line(&session).compile(&device).unwrap();
    let unnamed = || line(&session).named("").compile(&device);
    let _first = unnamed().unwrap();
    assert_eq!(unnamed().unwrap_err().message(), "the session has a training program already");
    assert!(line(&session).named("a/b").compile(&device).is_err());
    assert!(line(&session).seed(3).compile(&device).is_err(), "the seed is the session's");
    let other = line(&session).named("x").compile(&Device::cpu()).unwrap_err();
    assert_eq!(other.message(), "the session is on another device");
    let unknown = line(&session).named("y").only("lime.*").compile(&device).unwrap_err();
    assert!(unknown.message().contains("lime.*"), "{unknown}");
}

#[test]
fn checkpoints_of_several_trainings() {
    let (device, folder) = (Device::cpu(), tempfile::tempdir().unwrap());
    let path = folder.path().join("c.safetensors");
    let run = |steps: [usize; 2], resume: bool| {
        let session = pair(&device);
        let mut line = line(&session).compile(&device).unwrap();
        let mut judge = judge(&session).compile(&device).unwrap();
        if resume {
            let restored = line.load_checkpoint(&path).unwrap();
            judge.load_notes(&restored.entries).unwrap();
            assert_eq!((line.attempted_steps(), judge.attempted_steps()), (2, 4));
        }
        for _ in 0..steps[usize::from(resume)] {
            line.step([&X]).unwrap().result().unwrap();
            judge.step([&X]).unwrap().result().unwrap();
            judge.step([&X]).unwrap().result().unwrap();
        }
        (session, line, judge)
    };
    let (session, line, judge) = run([2, 0], false);
    line.save_checkpoint(&path, &judge.notes()).unwrap();
    drop((session, line, judge));
    let bytes = |session: &Session<Pair>| {
        session.store().read_all().unwrap().into_iter().map(|(_, b)| b).collect::<Vec<_>>()
    };
    assert_eq!(bytes(&run([0, 3], true).0), bytes(&run([5, 0], false).0));
}

#[derive(Module)]
struct Net {
    first: Linear,
    last: Linear,
}

fn net() -> Net {
    Net { first: Linear::new(2, 4), last: Linear::new(4, 3) }
}

fn loss(net: &Net, x: Tensor, y: Tensor) -> Tensor {
    net.last.forward(net.first.forward(x).tanh().dropout(0.2)).cross_entropy(y)
}

const INPUT: [f32; 16] = [1.0, -1.0, 0.5, 2.0, -0.3, 0.0, 0.7, 0.2, 0.9, 1.0, 0.1, 0.2, -0.4, 0.6, 2.0, -2.0];
const CLASSES: [i32; 8] = [0, 2, 1, 1, 0, 2, 2, 1];

fn step(train: &mut Train<Net, 2>, batch: usize) -> Step {
    train.step((&INPUT[..2 * batch], &CLASSES[..batch])).unwrap()
}

/// Each batch size has the same results as a program compiled only for it.
#[test]
fn batches_of_any_size_train() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.safetensors");
    let fixed = |batch| {
        Trainer::new(net())
            .seed(3)
            .inputs([f32("x", [batch, 2]), i32("y", [batch])])
            .loss(|net, [x, y]| loss(net, x, y))
            .optimizer(AdamW::new(0.05))
            .compile(&Device::cpu())
            .unwrap()
    };
    let mut any = Trainer::new(net())
        .seed(3)
        .inputs([f32("x", [4, 2]), i32("y", [4])])
        .loss_for_any_batch(|net, [x, y]| loss(net, x, y))
        .optimizer(AdamW::new(0.05))
        .compile(&Device::cpu())
        .unwrap();
    let mut last = fixed(4);
    last.save_checkpoint(&path, &Entries::new()).unwrap();
    for batch in [4, 4, 1, 8, 1, 4, 7, 2, 3, 5, 6, 1, 4] {
        let mut one = fixed(batch);
        one.load_checkpoint(&path).unwrap();
        let expected = step(&mut one, batch).loss().unwrap();
        one.save_checkpoint(&path, &Entries::new()).unwrap();
        assert_eq!(step(&mut any, batch).loss().unwrap().to_bits(), expected.to_bits(), "batch {batch}");
        last = one;
    }
    assert_eq!((any.attempted_steps(), any.applied_steps().unwrap()), (13, 13));
    for (ours, theirs) in any.store().read_all().unwrap().iter().zip(last.store().read_all().unwrap()) {
        assert_eq!(ours.1, theirs.1, "{}", ours.0.name);
    }
    // It is still an error if the batch of one input differs from that of the first.
    let error = any.step((&INPUT[..6], &CLASSES[..4])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Feed);
    assert!(error.message().contains("`y`"), "{error}");
    assert!(any.step((&INPUT[..5], &CLASSES[..3])).is_err(), "half a row");
}

#[test]
fn batches_of_any_size_that_are_accumulated() {
    let mut any = Trainer::new(net())
        .inputs([f32("x", [2, 2]), i32("y", [2])])
        .loss_for_any_batch(|net, [x, y]| net.last.forward(net.first.forward(x)).cross_entropy(y))
        .optimizer(Sgd::new(0.0))
        .accumulate(2)
        .compile(&Device::cpu())
        .unwrap();
    let mut mean = any
        .infer([f32("x", [8, 2]), i32("y", [8])], |net, [x, y]| {
            net.last.forward(net.first.forward(x)).cross_entropy(y)
        })
        .unwrap();
    let whole = step(&mut any, 8).loss().unwrap();
    assert!((whole - mean.run((&INPUT, &CLASSES)).unwrap()[0]).abs() < 1e-6);
    assert!(step(&mut any, 4).loss().unwrap().is_finite());
    let error = any.step((&INPUT[..6], &CLASSES[..3])).unwrap_err();
    assert_eq!(error.message(), "a batch of 3 does not divide into 2 micro-batches");
}

#[test]
fn batches_of_any_size_are_evaluated() {
    let session = Session::new(net(), &Device::cpu(), 1).unwrap();
    let mut any = session
        .infer_any_batch([f32("x", [3, 2])], |net, [x]| {
            let logits = net.last.forward(net.first.forward(x));
            (logits, typed::<i32>(logits.argmax(1)))
        })
        .unwrap();
    let (all, classes) = any.run([&INPUT]).unwrap();
    for batch in [1, 3, 5, 2, 8, 4, 6, 7, 1, 3] {
        let (logits, some) = any.run([&INPUT[..2 * batch]]).unwrap();
        assert_eq!((&logits[..], &some[..]), (&all[..3 * batch], &classes[..batch]));
    }
    let part = any.run([&INPUT[..3]]).unwrap_err();
    assert_eq!(part.message(), "the input `x` is f32[3, 2], of any batch, got 3 elements");
    let queued = any.queue(&[(&INPUT[..4]).into()]).unwrap();
    assert_eq!(queued.get("result.0").unwrap(), all[..6]);
    assert_eq!(queued.get_as::<i32>("result.1").unwrap(), classes[..2]);
    // The program can be moved to another thread.
    let moved = std::thread::spawn(move || any.run([&INPUT[..2]]).unwrap().1).join().unwrap();
    assert_eq!(moved, classes[..1]);
    let scalar = session.infer_any_batch([f32("x", [])], |_, [x]| x).unwrap_err();
    assert_eq!(scalar.message(), "the first input has no axis of the batch");
}

#[test]
fn results_have_their_types() {
    let session = Session::new((), &Device::cpu(), 1).unwrap();
    let large = [16_777_217, i32::MIN, 7];
    let mut program = session
        .infer([i32("n", [3]), i64("m", [2]), u8("p", [2])], |(), [n, m, p]| {
            (
                typed::<i32>(n.capture("n")),
                typed::<i64>(m),
                typed::<bool>(n.gt(0)),
                [typed::<u8>(p), typed::<u8>(p)],
                typed::<half::f16>(n.cast(DType::F16)),
            )
        })
        .unwrap();
    let wide = [i64::MIN, (1 << 53) + 1];
    let (n, m, positive, [p, q], h) = program.run((&large, &wide, &[200u8, 3])).unwrap();
    assert_eq!((&n[..], &m[..], &positive[..]), (&large[..], &wide[..], &[true, false, true][..]));
    assert_eq!((p, q), (vec![200, 3], vec![200, 3]));
    assert!(h[0].is_infinite() && h[2] == half::f16::from_f32(7.0));
    assert_eq!(program.get_as::<i32>("n").unwrap(), large);
    assert!(program.get("n").unwrap_err().remedies().any(|help| help.contains("get_as")));
    let error = program.get_as::<u32>("n").unwrap_err();
    assert_eq!(error.message(), "the output `n` is i32, not u32");
    let mut wrong = session.infer([f32("x", [2])], |(), [x]| typed::<i32>(x)).unwrap();
    assert_eq!(wrong.run([&[1.0f32, 2.0]]).unwrap_err().message(), "the output `result.0` is f32, not i32");
}

#[test]
fn gradients_of_parameters_and_inputs_are_read() {
    let scaled = gradloom_grid::device(Target::wgsl(Limits::portable(), Precision::F16));
    for device in [Device::cpu(), scaled] {
        let precision = device.precision();
        let mut train = Trainer::new(Linear::no_bias(2, 1))
            .inputs([f32("x", [3, 2])])
            .loss(|layer, [x]| {
                let loss = layer.forward(x).sum();
                let [of_x] = gradients(loss, [x]);
                of_x.capture("of_x");
                loss
            })
            .optimizer(Sgd::new(0.1))
            .clip_norm(1e-3)
            .show_gradients("wei*")
            .compile(&device)
            .unwrap();
        let weight = train.session().get("weight").unwrap();
        let step = train.step([&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]]).unwrap();
        assert_eq!(step.get("gradient.weight").unwrap(), [9.0, 12.0], "{precision:?}");
        assert_eq!(step.get("of_x").unwrap(), [&weight[..]; 3].concat());
    }
    let unknown = Trainer::new(Linear::no_bias(2, 1))
        .inputs([f32("x", [3, 2])])
        .loss(|layer, [x]| layer.forward(x).sum())
        .optimizer(Sgd::new(0.1))
        .show_gradients("bias")
        .compile(&Device::cpu());
    assert!(unknown.unwrap_err().message().contains("bias"));
}

/// The op that produces the first non-finite value is found with its source location, whatever later ops
/// compute.
#[test]
fn the_op_that_makes_nan_or_infinity_is_found() {
    #[derive(Module)]
    struct Scale {
        scale: Param,
    }
    let train = |loss: fn(&Scale, Tensor) -> Tensor| {
        Trainer::new(Scale { scale: Param::new([3], Init::Ones) })
            .inputs([f32("x", [3])])
            .loss(move |m, [x]| loss(m, x))
            .optimizer(Sgd::new(0.1))
            .compile(&Device::cpu())
            .unwrap()
    };
    let exponential = train(|m, x| {
        let large = (x * &m.scale).exp();
        (large - large.mean()).square().mean()
    });
    let mut fails = train(|m, x| (x * &m.scale).exp().mean());
    let failed = fails.step([&[1.0f32, 100.0, 3.0]]).unwrap().loss().unwrap_err();
    assert!(failed.remedies().any(|remedy| remedy.contains("`Train::find_not_finite`")), "{failed}");
    assert!(exponential.find_not_finite(&Device::cpu(), [&[1.0f32, 2.0, 3.0]]).unwrap().is_none());
    let found = exponential.find_not_finite(&Device::cpu(), [&[1.0f32, 100.0, 3.0]]).unwrap().unwrap();
    assert_eq!(found.message(), "`exp` made infinity from finite numbers");
    assert!(found.origin().unwrap().file.ends_with("sessions.rs"), "{found}");
    assert!(found.notes().any(|note| note.contains("is between 1 and 100")), "{found}");
    let masked = train(|m, x| {
        let hidden = x.gt(2.0).select(full(DType::F32, [3], f64::NEG_INFINITY), x * &m.scale);
        hidden.softmax(0).log().mean()
    });
    assert!(masked.find_not_finite(&Device::cpu(), [&[0.0f32, 1.0, 1.5]]).unwrap().is_none());
    let found = masked.find_not_finite(&Device::cpu(), [&[0.0f32, 1.0, 3.0]]).unwrap().unwrap();
    assert_eq!(found.message(), "`log` made infinity from finite numbers");
    // A completely masked row has no finite value.
    let found = masked.find_not_finite(&Device::cpu(), [&[3.0f32, 4.0, 5.0]]).unwrap().unwrap();
    assert!(found.message().ends_with("made NaN from the infinities of a mask"), "{found}");
    let fed = exponential.find_not_finite(&Device::cpu(), [&[1.0f32, f32::NAN, 3.0]]).unwrap().unwrap();
    assert_eq!(fed.message(), "the input `x` has NaN");
    exponential.session().set("scale", &[1.0f32, f32::INFINITY, 1.0]).unwrap();
    let learnt = exponential.find_not_finite(&Device::cpu(), [&[1.0f32, 1.0, 3.0]]).unwrap().unwrap();
    assert_eq!(learnt.message(), "the parameter `scale` has infinity");
}

#[test]
fn a_summary_tells_what_there_is() {
    let device = Device::cpu();
    let session = pair(&device);
    let train = line(&session).compile(&device).unwrap();
    let summary = train.summary();
    assert_eq!((summary.parameters(), summary.trained()), (13, 9));
    assert_eq!(summary.launches, Some(train.plan().launches.len()));
    assert!(summary.flops.unwrap() > 2 * 4 * (2 * 3 + 3) * 2);
    let text = summary.to_string();
    let expected = "\
line: 9
  weight  f32[2, 3]             6
  bias    f32[3]                3
judge: 4
  weight  f32[3, 1]             3  not trained
  bias    f32[1]                1  not trained
13 parameters (52 bytes), of which 9 are trained
a step: ";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(session.summary().trained(), 13);
}

#[test]
fn gradients_are_checked_against_the_slope() {
    let session = Session::new(net(), &Device::cpu(), 1).unwrap();
    let inputs = || [f32("x", [8, 2]), i32("y", [8])];
    let check = session.check_gradients(inputs(), (&INPUT, &CLASSES), |net, [x, y]| loss(net, x, y)).unwrap();
    assert_eq!(check.tried, 8 + 4 + 8 + 3);
    check.within(1e-7).unwrap();
    // This gradient is wrong, because one factor is detached and thus treated as a constant.
    let wrong = session
        .check_gradients(inputs(), (&INPUT, &CLASSES), |net, [x, y]| {
            let hidden = net.first.forward(x).tanh();
            let hidden = hidden * hidden.detach();
            net.last.forward(hidden).cross_entropy(y)
        })
        .unwrap();
    let error = wrong.within(1e-7).unwrap_err();
    assert!(error.message().starts_with("the gradient of `first."), "{error}");
}
