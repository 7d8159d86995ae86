//! Optimizers, schedules, plateaus and settings with absurd numbers.

use super::Report;
use super::values::{Absurd, each};
use gradloom_core::ir::{Builder, DType, Graph, OpKind, Type};
use gradloom_core::optim::*;

/// Computes an optimizer's hyperparameters at extreme steps, and derives the device's numbers from them.
fn optimizer(report: &mut Report, call: &dyn Fn() -> String, optimizer: &dyn Optimizer) {
    report.run(call, || {
        let mut numbers = optimizer.hyperparameters();
        for step in u64::values() {
            optimizer.set_rates(&mut numbers, step);
            let derived = optimizer.derive(&mut numbers);
            if let Err(error) = derived {
                assert!(error.message().contains('`') && error.remedies().next().is_some(), "{error}");
            }
        }
    });
}

macro_rules! optimizers {
    ($report:ident; $([$($arg:ident: $ty:ty),*] $make:expr;)*) => {$(
        each!([$($arg: $ty),*] {
            optimizer(&mut $report, &|| format!("{} with {:?}", stringify!($make), ($($arg,)*)), &$make);
        });
    )*};
}

#[test]
fn optimizers_of_any_numbers() {
    let mut r = Report::new();
    optimizers! { r;
        [lr: f64, n: f64] Sgd::new(*lr).momentum(*n).nesterov();
        [n: f64] Sgd::new(0.1).weight_decay(*n).decay_everything();
        [lr: f64, n: f64, m: f64] Adam::new(*lr).betas(*n, *m);
        [n: f64, m: f64] AdamW::new(0.1).beta1(*n).beta2(*m).decay_everything();
        [n: f64, m: f64] AdamW::new(0.1).epsilon(*n).weight_decay(*m);
        [lr: f64, n: f64, m: f64] RmsProp::new(*lr).alpha(*n).momentum(*m).centered();
        [n: f64, m: f64] RmsProp::new(0.1).epsilon(*n).weight_decay(*m).decay_everything();
        [lr: f64, n: f64, m: f64] Adagrad::new(*lr).epsilon(*n).initial(*m);
        [n: f64] Adagrad::new(0.1).weight_decay(*n).decay_everything();
        [lr: f64, n: f64, m: f64] Lion::new(*lr).beta1(*n).beta2(*m);
        [n: f64] Lion::new(0.1).weight_decay(*n).decay_everything();
        [lr: f64, n: f64, m: f64] Muon::new(*lr).momentum(*n).others_rate(*m).match_adam();
        [n: f64] Muon::new(0.1).weight_decay(*n).without_nesterov().decay_everything();
        [lr: f64, n: f64, m: f64] Adafactor::new(*lr).beta2_decay(*n).epsilon1(*m);
        [lr: f64, n: f64, m: f64] Adafactor::new(*lr).epsilon2(*n).threshold(*m);
        [n: f64] Adafactor::new(0.1).weight_decay(*n).decay_everything();
        [lr: f64, n: f64] Groups::new(Sgd::new(*lr)).group("", Muon::new(*n)).group("*", Sgd::new(*lr));
        [a: f64, n: u64, m: u64, b: f64] Sgd::new(Schedule::warmup_cosine(*a, *n, *m, *b));
        [a: f64, n: u64] Sgd::new(Schedule::one_cycle(*a, *n));
    }
    r.check_without_refusals(5000);
}

/// The name of a hyperparameter, a constructor of an optimizer with its value, valid values, and invalid
/// values.
type Row = (&'static str, fn(f64) -> Box<dyn Optimizer>, &'static [f64], &'static [f64]);

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;
/// Valid and invalid values of learning rates and weight decays.
const RATES: (&[f64], &[f64]) = (&[0.0, 1e-320, 0.1, 1e18], &[NAN, INF, -INF, -1.0, -1e-320, 1e19, 1e39]);
/// Valid and invalid values of epsilons and sums.
const SUMS: (&[f64], &[f64]) = (&[0.0, 1e-320, 0.1, 1e38], &[NAN, INF, -INF, -1.0, -1e-320, 1e39]);
/// Valid and invalid decay rates of means.
const BETAS: (&[f64], &[f64]) = (&[0.0, 1e-320, 0.9], &[NAN, INF, -INF, -1.0, -1e-320, 1.0, 2.0]);
/// Valid and invalid values of divisors, which are computed in f32.
const POSITIVE: (&[f64], &[f64]) = (&[1e-37, 1.0, 1e38], &[NAN, INF, -INF, -1.0, 0.0, 1e-320, 1e-39, 1e39]);

fn numbers() -> Vec<Row> {
    macro_rules! rows {
        ($($name:literal $range:expr, $($make:expr),+;)*) => {
            vec![$($(($name, |n| Box::new($make(n)), $range.0, $range.1)),+),*]
        };
    }
    rows! {
        "lr" RATES, Sgd::new, Adam::new, AdamW::new, RmsProp::new, Adagrad::new, Lion::new, Muon::new, Adafactor::new;
        "weight_decay" RATES,
            |n| Sgd::new(0.1).weight_decay(n),
            |n| Adam::new(0.1).weight_decay(n),
            |n| AdamW::new(0.1).weight_decay(n),
            |n| RmsProp::new(0.1).weight_decay(n),
            |n| Adagrad::new(0.1).weight_decay(n),
            |n| Lion::new(0.1).weight_decay(n),
            |n| Muon::new(0.1).weight_decay(n),
            |n| Adafactor::new(0.1).weight_decay(n);
        "others_rate" RATES, |n| Muon::new(0.1).others_rate(n);
        "momentum" BETAS,
            |n| Sgd::new(0.1).momentum(n),
            |n| RmsProp::new(0.1).momentum(n),
            |n| Muon::new(0.1).momentum(n);
        "beta1" BETAS, |n| Adam::new(0.1).beta1(n), |n| AdamW::new(0.1).betas(n, 0.9), |n| Lion::new(0.1).beta1(n);
        "beta2" BETAS, |n| Adam::new(0.1).beta2(n), |n| AdamW::new(0.1).betas(0.9, n), |n| Lion::new(0.1).beta2(n);
        "alpha" BETAS, |n| RmsProp::new(0.1).alpha(n).centered();
        "epsilon" SUMS,
            |n| Adam::new(0.1).epsilon(n),
            |n| AdamW::new(0.1).epsilon(n),
            |n| RmsProp::new(0.1).epsilon(n),
            |n| Adagrad::new(0.1).epsilon(n);
        "epsilon1" SUMS, |n| Adafactor::new(0.1).epsilon1(n);
        "epsilon2" (&[0.0, 1e-320, 1e9], &[NAN, INF, -INF, -1.0, 1e10, 1e30]), |n| Adafactor::new(0.1).epsilon2(n);
        "initial" SUMS, |n| Adagrad::new(0.1).initial(n);
        "threshold" POSITIVE, |n| Adafactor::new(0.1).threshold(n);
        "beta2_decay" (&[0.0, -0.8, -1e38], &[NAN, INF, -INF, 0.1, -1e39]), |n| Adafactor::new(0.1).beta2_decay(n);
    }
}

#[test]
fn numbers_of_optimizers_are_checked_for_their_range() {
    for (name, make, good, bad) in numbers() {
        for (all, is_good) in [(good, true), (bad, false)] {
            for &number in all {
                let optimizer = make(number);
                let mut numbers = optimizer.hyperparameters();
                optimizer.set_rates(&mut numbers, 0);
                match optimizer.derive(&mut numbers) {
                    Ok(()) => assert!(is_good, "absurd: {name} of {number:e} passes: {optimizer:?}"),
                    Err(error) => {
                        assert!(!is_good, "absurd: {name} of {number:e}: {error}");
                        assert!(error.message().contains(&format!("`{name}`")), "absurd: {error}");
                        assert!(error.remedies().next().is_some(), "absurd: {error}");
                    }
                }
            }
        }
    }
    for (name, set) in [
        ("max_value", (|n| Settings { clip_value: Some(n), ..Settings::default() }) as fn(f64) -> Settings),
        ("max_norm", |n| Settings { clip_norm: Some(n), ..Settings::default() }),
        ("average_decay", |n| Settings { average: Some(n), ..Settings::default() }),
    ] {
        let (good, bad) = if name == "average_decay" { BETAS } else { POSITIVE };
        for (all, is_good) in [(good, true), (bad, false)] {
            for &number in all {
                let settings = set(number);
                let derived = settings.derive(&mut settings.numbers());
                assert_eq!(derived.is_ok(), is_good, "absurd: {name} of {number:e}");
            }
        }
    }
}

/// Checks that every method that sets a number is in the table.
#[test]
fn every_number_of_an_optimizer_is_here() {
    let (folder, here) =
        (std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/optim"), include_str!("optimizers.rs"));
    let mut found = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let source = std::fs::read_to_string(&file).unwrap();
        if !source.contains("\nimpl Optimizer for ") && !source.contains("> Optimizer for ") {
            continue;
        }
        let methods = source.match_indices("pub fn ").filter_map(|(at, _)| {
            let signature = source[at + 7..].split('{').next().unwrap();
            let (name, arguments) = signature.split_once('(').unwrap();
            (arguments.contains("mut self") && arguments.contains(": f64")).then_some(name)
        });
        // Names in lists of setters; skip the lines of their documentation.
        let listed = source.match_indices("setters! {").flat_map(|(at, open)| {
            let list = source[at + open.len()..].split('}').next().unwrap().lines().map(str::trim);
            let names = list.filter(|line| !line.is_empty() && !line.starts_with("//"));
            names.map(|name| name.trim_end_matches(';')).filter(|name| *name != "decay_everything")
        });
        for name in methods.chain(listed) {
            found += 1;
            assert!(here.contains(&format!(".{name}(n)")), "absurd: {name} of {}", file.display());
        }
    }
    assert!(found >= 24, "absurd: {found} setters were found");
}

#[test]
fn schedules_of_any_numbers() {
    let mut r = Report::new();
    each!([a: f64, b: f64, n: u64, m: u64] {
        let then = || Box::new(Schedule::Linear { from: *a, to: *b, steps: *m });
        let all = [
            Schedule::Linear { from: *a, to: *b, steps: *n },
            Schedule::Cosine { from: *a, to: *b, steps: *n },
            Schedule::Warmup { peak: *a, steps: *n, then: then() },
            Schedule::Staircase { peak: *a, every: *n, gamma: *b },
            Schedule::Milestones { peak: *a, milestones: vec![*n, *m], gamma: *b },
            Schedule::Milestones { peak: *a, milestones: vec![], gamma: *b },
            Schedule::Exponential { peak: *a, gamma: *b },
            Schedule::Chained { first: then(), steps: *n, then: then() },
            Schedule::Repeated { every: *n, then: then() },
            Schedule::Delayed { start: *n, then: then() },
            Schedule::Advanced { by: *n, then: then() },
        ];
        for schedule in all {
            r.run(&|| format!("{schedule:?}"), || {
                u64::values().iter().for_each(|&step| _ = schedule.at(step));
                let read: Schedule = schedule.to_string().parse().expect("its own text");
                assert_eq!(read.to_string(), schedule.to_string());
            });
        }
    });
    r.check_without_refusals(30_000);
}

#[test]
fn plateaus_of_any_numbers() {
    let mut r = Report::new();
    each!([lr: f64, factor: f64, threshold: f64, least: f64, looks: u64] {
        let made = || Plateau::new(*lr).factor(*factor).threshold(*threshold).least(*least).patience(*looks).cooldown(*looks);
        r.run(&|| format!("{:?}", made()), || {
            let mut plateau = made();
            for measure in f64::values().into_iter().chain([1.0, 1.0, 1.0]) {
                plateau.look(measure);
                _ = (plateau.lr(), plateau.scaled(0.1));
                let read: Plateau = plateau.to_string().parse().expect("its own text");
                assert_eq!(read.to_string(), plateau.to_string());
            }
        });
    });
    r.check_without_refusals(30_000);
}

#[test]
fn settings_of_any_numbers() {
    let mut r = Report::new();
    each!([clip_value: Option<f64>, clip_norm: Option<f64>, average: Option<f64>] {
        let settings = Settings { normalize: vec![], clip_value: *clip_value, clip_norm: *clip_norm, average: *average };
        r.run(&|| format!("{settings:?}"), || settings.derive(&mut settings.numbers()));
    });
    r.check_without_refusals(900);
}

#[test]
fn micro_batches_of_any_number() {
    let mut r = Report::new();
    let mut graph = Graph::new();
    let mut builder = Builder::new(&mut graph, None);
    let ty = Type::new(DType::F32, [3, 2]);
    let x = builder.op(OpKind::Input { name: "x".into(), ty: ty.clone() }, &[]);
    let p = builder.op(OpKind::Param { name: "p".into(), ty }, &[]);
    let gradient = builder.mul(x, p);
    let parameters = [Trainable { name: "p".into(), value: p, gradient, decay: None, shard: None }];
    each!([n: usize] {
        let made = r.run(&|| format!("accumulate({n})"), || accumulate(&graph, &parameters, *n));
        let fits = (1..=3).contains(n);
        let made = made.expect("no panic");
        assert_eq!(made.is_ok(), fits, "{n}");
        if let Err(error) = made {
            assert!(error.remedies().next().is_some(), "{error}");
        }
        let input = gradloom_core::trace::f32("x", [*n, *n]);
        r.run(&|| format!("of_all_batches({n})"), || of_all_batches(vec![input], *n));
    });
    r.check_without_refusals(10);
}
