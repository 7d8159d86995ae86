//! Optimizers, schedules, plateaus and settings with absurd numbers.

use super::Report;
use super::values::{Absurd, each};
use gradloom_core::ir::{Builder, DType, Graph, OpKind, Type};
use gradloom_core::optim::*;

/// Has an optimizer give its numbers at the edges of the steps, and derive others from them.
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
    let parameters = [Trainable { name: "p".into(), value: p, gradient, decay: None }];
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
