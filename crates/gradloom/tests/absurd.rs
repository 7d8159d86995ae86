//! Tests absurd arguments outside of models: batches, sessions, trainers, and whole programs. Each is
//! accepted, results in an error with a remedy, or causes a panic at the caller's line with gradloom's own
//! message. For functions of tensors, layers and optimizers, see `gradloom-core/tests/absurd`.

use gradloom::batches::prefetch;
use gradloom::prelude::*;
use gradloom::{CancelToken, Retention};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::Duration;

const NUMBERS: [usize; 8] = [0, 1, 2, 3, 7, 1 << 31, usize::MAX / 2, usize::MAX];
const STEPS: [u64; 6] = [0, 1, 1 << 31, u64::MAX / 2, u64::MAX - 1, u64::MAX];
const FLOATS: [f64; 9] = [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, 3e38, 5e-324];

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs code that may panic with gradloom's own message at a line of this file; returns the message if it
/// does.
fn quiet<T>(call: &str, f: impl FnOnce() -> T) -> std::result::Result<T, String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<String>().cloned();
            let text = text.or(info.payload().downcast_ref::<&str>().map(|text| text.to_string()));
            let place = info.location().map(|at| at.file().to_string()).unwrap_or_default();
            PANIC.with(|last| *last.borrow_mut() = format!("{place}: {}", text.unwrap_or_default()));
            if !IS_QUIET.get() {
                print(info);
            }
        }));
    });
    IS_QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(f));
    IS_QUIET.set(false);
    outcome.map_err(|_| {
        let said = PANIC.with(|last| last.borrow().clone());
        let of_rust = [
            "overflow",
            "out of bounds",
            "out of range",
            "divide by zero",
            "unwrap",
            "capacity",
            "range end",
        ];
        assert!(said.replace('\\', "/").contains("tests/absurd.rs"), "{call} panics elsewhere: {said}");
        assert!(
            !of_rust.iter().any(|word| said.contains(word)),
            "{call} panics with words of Rust's: {said}"
        );
        said
    })
}

#[test]
fn batches_of_any_number() {
    let (mut programs, mut refused) = (0, 0);
    for examples in NUMBERS {
        for batch in NUMBERS {
            for seed in [None, Some(0), Some(u64::MAX)] {
                for drops in [false, true] {
                    for at in STEPS {
                        programs += 1;
                        let call = format!("Batches::new({examples}, {batch}), {seed:?}, {drops}, at {at}");
                        let made = quiet(&call, || {
                            let mut batches = Batches::new(examples, batch);
                            if let Some(seed) = seed {
                                batches = batches.shuffled(seed);
                            }
                            if drops {
                                batches = batches.drop_last();
                            }
                            batches.at(at)
                        });
                        let Ok(mut batches) = made else {
                            refused += 1;
                            let reason = examples == 0 || batch == 0 || (drops && batch > examples);
                            assert!(reason || (seed.is_some() && examples > 1 << 28), "{call}");
                            continue;
                        };
                        assert_eq!(batches.position(), at, "{call}");
                        // Allocate batches only if they are small.
                        if batch.min(examples) <= 7 {
                            for _ in 0..3 {
                                let next = batches.next_batch();
                                assert!(!next.is_empty() && next.len() <= batch, "{call}");
                                assert!(next.iter().all(|&example| example < examples), "{call}");
                            }
                            assert!(batches.epoch().take(2).count() <= 2);
                        }
                    }
                }
            }
        }
    }
    println!("{programs} programs, {refused} refused");
    assert!(programs == 2304 && refused > 400);
}

#[test]
fn gathering_any_examples() {
    let data: Vec<i32> = (0..12).collect();
    let mut refused = 0;
    for length in 0..=12usize {
        for width in NUMBERS {
            for examples in
                [vec![], vec![0], vec![3, 0], vec![4], vec![1 << 31], vec![usize::MAX], vec![0; 100]]
            {
                let call = format!("gather of {length} elements by {width}, {examples:?}");
                let count = length.checked_div(width).filter(|_| length % width.max(1) == 0);
                let fits = count.is_some_and(|count| examples.iter().all(|&example| example < count));
                match quiet(&call, || gather(&data[..length], width, &examples)) {
                    Ok(gathered) => {
                        assert!(fits, "{call}");
                        let want = examples.iter().flat_map(|&e| data[e * width..(e + 1) * width].to_vec());
                        assert_eq!(gathered, want.collect::<Vec<_>>(), "{call}");
                    }
                    Err(said) => {
                        assert!(!fits, "{call}: {said}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(refused > 400, "{refused}");
    for ahead in NUMBERS {
        assert_eq!(prefetch(ahead, 0..5).sum::<i32>(), 10);
    }
}

fn trainer() -> Trainer<Linear, 1> {
    Trainer::new(Linear::new(3, 1))
        .inputs([f32("x", [4, 3])])
        .loss(|m, [x]| m.forward(x).square().mean())
        .optimizer(AdamW::new(0.1))
        .clip_norm(1.0)
}

/// Returns `true` if a call succeeded. Checks that an error has a remedy.
fn is_sound<T>(call: &str, outcome: Result<T>) -> bool {
    if let Err(error) = &outcome {
        assert!(!error.message().is_empty() && error.remedies().next().is_some(), "{call}: {error}");
    }
    outcome.is_ok()
}

#[test]
fn trainers_of_any_numbers() {
    let device = Device::cpu();
    let mut programs = 0;
    let mut compile = |call: String, trainer: Trainer<Linear, 1>| {
        programs += 1;
        let compiled =
            quiet(&call, || trainer.compile(&device)).unwrap_or_else(|said| panic!("{call}: {said}"));
        if let Ok(mut train) = compiled {
            let batch = train.stages().passes.entry_ops().count();
            assert!(batch > 0);
            is_sound(&call, train.step_with(&[(&[0.5f32; 12][..]).into()]).map(drop));
        } else {
            is_sound(&call, compiled.map(drop));
        }
    };
    for n in NUMBERS {
        compile(format!("accumulate({n})"), trainer().accumulate(n));
        compile(format!("memory_budget({n})"), trainer().memory_budget(n as u64));
    }
    for n in STEPS {
        compile(format!("seed({n})"), trainer().seed(n));
    }
    for n in FLOATS {
        compile(format!("clip_norm({n})"), trainer().clip_norm(n));
        compile(format!("clip_value({n})"), trainer().clip_value(n));
        compile(format!("average({n})"), trainer().average(n));
        compile(format!("lr {n}"), trainer().optimizer(Sgd::new(n)));
    }
    for name in ["", "*", "a", ".", "weight:lr"] {
        compile(format!("named({name})"), trainer().named(name));
        compile(format!("freeze({name})"), trainer().freeze(name));
        compile(format!("only({name})"), trainer().only(name));
        compile(format!("normalize_gradients({name})"), trainer().normalize_gradients(name));
        compile(format!("show_gradients({name})"), trainer().show_gradients(name));
    }
    assert!(programs > 80, "{programs}");
    for n in NUMBERS {
        let any = Trainer::new(Linear::new(3, 1))
            .inputs([f32("x", [4, 3])])
            .loss_for_any_batch(|m, [x]| m.forward(x).square().mean())
            .optimizer(Sgd::new(0.1))
            .accumulate(n);
        is_sound(&format!("any batch, accumulate({n})"), any.compile(&device).map(drop));
    }
}

#[test]
fn settings_of_a_training() {
    let mut train = trainer().compile(&Device::cpu()).unwrap();
    let data = [0.5f32; 12];
    let mut programs = 0;
    let mut check =
        |train: &mut Train<Linear, 1>, call: String, set: &dyn Fn(&mut Train<Linear, 1>) -> Result<()>| {
            programs += 1;
            let outcome = quiet(&call, || {
                let set = set(train);
                let stepped = train.step([&data]).and_then(|step| step.loss());
                (set, stepped)
            });
            let (set, stepped) = outcome.unwrap_or_else(|said| panic!("{call}: {said}"));
            is_sound(&call, set);
            is_sound(&call, stepped);
            train.set_attempted_steps(0);
            train.follow_schedule();
        };
    for n in STEPS {
        check(&mut train, format!("set_attempted_steps({n})"), &|train| {
            train.set_attempted_steps(n);
            let counted = train.attempted_steps();
            let stepped = train.step([&[0.5f32; 12]]).map(drop);
            assert_eq!(stepped.is_ok(), n < u64::MAX);
            assert_eq!(train.attempted_steps(), if n < u64::MAX { counted + 1 } else { counted });
            train.wait()?;
            stepped
        });
    }
    for n in FLOATS {
        check(&mut train, format!("set_lr({n})"), &|train| {
            train.set_lr(n);
            Ok(())
        });
        check(&mut train, format!("plateau of {n}"), &|train| {
            train.set_plateau(Plateau::new(n).factor(n).threshold(n).least(n).patience(0));
            FLOATS.iter().try_for_each(|&measure| train.look(measure).map(drop))
        });
        for name in ["lr", "beta1", "beta2", "epsilon", "weight_decay", "max_norm", "", "one"] {
            let call = format!("set_hyperparameter({name}, {n})");
            let before = train.hyperparameters().get(name).copied();
            check(&mut train, call, &|train| train.set_hyperparameter(name, n));
            if let Some(before) = before.filter(|_| name != "lr") {
                train.set_hyperparameter(name, before).unwrap();
            }
        }
        for steps in STEPS {
            check(&mut train, format!("schedules of {n} and {steps}"), &|train| {
                train.set_schedule(Schedule::warmup_cosine(n, steps, steps, n));
                Ok(())
            });
        }
    }
    for seconds in [0, 1, u64::MAX] {
        check(&mut train, format!("a deadline in {seconds} s"), &|train| {
            train.set_cancel_token(CancelToken::with_timeout(Duration::from_secs(seconds)));
            let outcome = train.step([&[0.5f32; 12]]).map(drop);
            train.set_cancel_token(None);
            // The remedy is up to the caller, so the error need not have one.
            assert_eq!(outcome.is_ok(), seconds > 0);
            Ok(())
        });
    }
    assert!(programs > 130, "{programs}");
    train.debug_run([&data], Retention::EveryValue).unwrap();
    for name in ["", ".", "weight", "bias.", "*"] {
        let session = train.session();
        is_sound(name, session.get(name));
        for elements in [&[][..], &[1.0f32; 3][..], &[f32::NAN; 4][..]] {
            is_sound(name, session.set(name, elements));
        }
        if !name.is_empty() {
            is_sound(name, session.reset_states(name));
        }
    }
    for shape in
        [vec![], vec![0], vec![3], vec![usize::MAX], vec![1 << 31, 1 << 31], vec![1; 70], vec![0, usize::MAX]]
    {
        for elements in [&[][..], &[1.0f32; 3][..]] {
            is_sound(&format!("upload {shape:?}"), train.session().upload(elements, &shape[..]));
        }
    }
    for data in [&[][..], &[1.0f32; 11][..], &[1.0; 13][..]] {
        assert!(!is_sound("data", train.step([data]).map(drop)));
    }
}

/// A program whose tensors fit in no memory is rejected when it is compiled, without an attempt to allocate.
#[test]
fn programs_beyond_memory() {
    for extents in [[1 << 31, 1 << 14], [1 << 40, 2], [usize::MAX, usize::MAX], [0, usize::MAX]] {
        let session = Session::new(Linear::new(extents[0], extents[1]), &Device::cpu(), 0).unwrap();
        let made = session.infer([f32("x", [1, 3])], |m, [x]| m.forward(x));
        assert!(!is_sound(&format!("{extents:?}"), made.map(drop)));
        let made = session.infer([f32("x", extents)], |_, [x]| x.exp());
        if let Ok(mut made) = made {
            assert!(made.run([&[0.0f32; 3]]).is_err());
        }
        assert!(session.materialize().is_err(), "{extents:?}");
    }
}
