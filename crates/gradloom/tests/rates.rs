//! Tests learning rates of groups, schedules and plateaus. Training that continues from a checkpoint has the
//! same rates and the same bits as training without interruption.

use gradloom::files::Entries;
use gradloom::prelude::*;

const DATA: [f32; 12] = [0.3, -0.7, 1.1, 0.2, 0.9, -0.4, 0.5, 0.1, -1.2, 0.8, 0.6, -0.3];

#[derive(Module)]
struct Model {
    body: Linear,
    head: Linear,
}

/// Returns groups with Adam for the head, SGD for biases, and SGD with momentum for all other parameters.
fn groups() -> Groups {
    Groups::new(Sgd::new(0.4).momentum(0.9))
        .group("head.*", Adam::new(0.2))
        .group("*.bias", Sgd::new(Schedule::Linear { from: 0.1, to: 0.0, steps: 10 }))
}

fn trainer(optimizer: impl gradloom::Optimizer) -> Train<Model, 1> {
    Trainer::new(Model { body: Linear::new(3, 4), head: Linear::new(4, 1) })
        .inputs([f32("x", [4, 3])])
        .loss(|m, [x]| m.head.forward(m.body.forward(x).tanh().dropout(0.1)).square().mean())
        .optimizer(optimizer)
        .seed(5)
        .compile(&Device::cpu())
        .unwrap()
}

fn rates(train: &Train<Model, 1>) -> [f64; 3] {
    [train.lr(), train.lr_of("head.*").unwrap(), train.lr_of("*.bias").unwrap()]
}

fn content(train: &Train<Model, 1>) -> Vec<(String, Vec<u8>)> {
    let all = train.store().read_all().unwrap();
    all.into_iter().map(|(entry, bytes)| (entry.name, bytes)).collect()
}

/// Returns the weights after one step from the same initial values.
fn after_a_step(set: impl FnOnce(&mut Train<Model, 1>)) -> [Vec<f32>; 3] {
    let mut train = trainer(groups());
    set(&mut train);
    train.step([&DATA]).unwrap().loss().unwrap();
    ["body.weight", "head.weight", "body.bias"].map(|name| train.store().read_f32(name).unwrap())
}

#[test]
fn a_rate_that_is_set_reaches_every_group() {
    let start = after_a_step(|train| train.set_lr(0.0));
    let session = trainer(groups());
    let initial =
        ["body.weight", "head.weight", "body.bias"].map(|name| session.store().read_f32(name).unwrap());
    assert_eq!(start, initial);
    let all = after_a_step(|_| {});
    for (moved, stood) in all.iter().zip(&start) {
        assert_ne!(moved, stood);
    }
    // A single group, by its name and by the name of its rate.
    let one = after_a_step(|train| train.set_lr_of("head.*", 0.0).unwrap());
    assert_eq!((&one[0], &one[1], &one[2]), (&all[0], &start[1], &all[2]));
    let one = after_a_step(|train| train.set_hyperparameter("*.bias:lr", 0.0).unwrap());
    assert_eq!((&one[0], &one[1], &one[2]), (&all[0], &all[1], &start[2]));
    let rest = after_a_step(|train| train.set_hyperparameter("lr", 0.0).unwrap());
    assert_eq!((&rest[0], &rest[1], &rest[2]), (&start[0], &all[1], &all[2]));
    let mut train = trainer(groups());
    assert_eq!(rates(&train), [0.4, 0.2, 0.1]);
    train.set_schedule_of("head.*", Schedule::Exponential { peak: 1.0, gamma: 0.5 }).unwrap();
    train.step([&DATA]).unwrap();
    assert_eq!(rates(&train), [0.4, 0.5, 0.09]);
    train.set_schedule(Schedule::Linear { from: 1.0, to: 0.0, steps: 4 });
    assert_eq!(rates(&train), [0.75; 3]);
    train.follow_schedule();
    assert_eq!(rates(&train), [0.4, 0.2, 0.09]);
}

#[test]
fn what_is_no_group_is_an_error_that_lists_them() {
    let mut train = trainer(groups());
    for error in [
        train.set_lr_of("head", 0.1).unwrap_err(),
        train.set_schedule_of("", 0.1).unwrap_err(),
        train.lr_of("lr").unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("the optimizer has no group `") && text.contains("*.bias, head.*"), "{text}");
    }
    let text = train.set_hyperparameter("tail.*:lr", 0.1).unwrap_err().to_string();
    assert!(text.contains("*.bias:lr, ") && text.contains("head.*:lr, "), "{text}");
    assert!(train.set_hyperparameter("head.*:lr", -1.0).is_err());
    assert_eq!(rates(&train), [0.4, 0.2, 0.1]);
    let text = trainer(Sgd::new(0.1)).set_lr_of("head.*", 0.1).unwrap_err().to_string();
    assert!(text.contains("it has none"), "{text}");
    let text = train.look(1.0).unwrap_err().to_string();
    assert!(text.contains("there is no plateau") && text.contains("set_plateau"), "{text}");
    // An invalid rate is an error of the next step, which changes nothing.
    train.set_lr_of("head.*", f64::NAN).unwrap();
    let text = train.step([&DATA]).unwrap_err().to_string();
    assert!(text.contains("`lr` is NaN") && text.contains("of the parameters `head.*`"), "{text}");
    assert_eq!(train.attempted_steps(), 0);
}

/// Rates after each epoch with torch.optim.lr_scheduler.ReduceLROnPlateau and SGD, for three groups with
/// rates 0.4, 0.2 and 0.1, factor=0.5, patience=1, min_lr=0.1.
#[test]
fn a_plateau_lowers_every_group() {
    let mut train = trainer(groups());
    train.set_schedule_of("*.bias", 0.1).unwrap();
    train.set_plateau(Plateau::new(0.4).factor(0.5).patience(1).least(0.1));
    let pytorch = [
        [0.4, 0.2, 0.1],
        [0.4, 0.2, 0.1],
        [0.2, 0.1, 0.1],
        [0.2, 0.1, 0.1],
        [0.1, 0.1, 0.1],
        [0.1, 0.1, 0.1],
        [0.1, 0.1, 0.1],
    ];
    for want in pytorch {
        assert_eq!(train.look(3.0).unwrap(), want[0]);
        assert_eq!(rates(&train), want);
    }
    assert_eq!(train.plateau().map(Plateau::lr), Some(0.1));
    // Setting a rate removes the plateau.
    train.set_lr(0.3);
    assert_eq!((rates(&train), train.plateau()), ([0.3; 3], None));
}

/// Performs an action of the user between steps.
fn act(train: &mut Train<Model, 1>, number: usize, choice: usize) {
    match (choice, number) {
        (0, 0) => train.set_plateau(Plateau::new(0.4).factor(0.5).patience(1).cooldown(1)),
        (0, _) => _ = train.look([3.0, 2.0, 2.5, f64::NAN, 2.0, 2.0, 2.0, 2.0][number % 8]).unwrap(),
        (1, 1) => train.set_schedule(Schedule::warmup_cosine(0.5, 3, 8, 0.01)),
        (1, 4) => train.set_lr_of("head.*", 0.03).unwrap(),
        (2, 1) => train
            .set_schedule_of("head.*", Schedule::Milestones { peak: 0.3, milestones: vec![2, 4], gamma: 0.1 })
            .unwrap(),
        (2, 2) => train.set_hyperparameter("*.bias:lr", 0.07).unwrap(),
        (2, 3) => train.set_hyperparameter("head.*:beta1", 0.5).unwrap(),
        (2, 5) => train.set_hyperparameter("lr", 0.2).unwrap(),
        (3, 0) => train.set_lr(0.25),
        (3, 2) => train.set_plateau(Plateau::new(0.25).patience(0).factor(0.3)),
        (3, 3..) => {
            train.look(1.0).unwrap();
            if number == 6 {
                train.follow_schedule();
                train.set_plateau(Plateau::new(0.01));
            }
        }
        _ => {}
    }
}

#[test]
fn an_interrupted_training_keeps_rates_and_bits() {
    const STEPS: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let step = |train: &mut Train<Model, 1>, number: usize, choice: usize| {
        act(train, number, choice);
        let rates = rates(train);
        let loss = train.step([&DATA]).unwrap().loss().unwrap();
        (rates.map(f64::to_bits), loss.to_bits())
    };
    for choice in 0..4 {
        let mut whole = trainer(groups());
        let all: Vec<_> = (0..STEPS).map(|number| step(&mut whole, number, choice)).collect();
        for cut in 0..=STEPS {
            let path = folder.path().join(format!("{choice}.{cut}.safetensors"));
            let mut first = trainer(groups());
            (0..cut).for_each(|number| _ = step(&mut first, number, choice));
            first.save_checkpoint(&path, &Entries::new()).unwrap();
            let mut rest = trainer(groups());
            // Loading the checkpoint discards the earlier settings.
            rest.set_lr(0.9);
            rest.set_plateau(Plateau::new(0.7));
            let restored = rest.load_checkpoint(&path).unwrap();
            assert!(!restored.was_scheduled && restored.entries.is_empty());
            assert_eq!(rest.plateau(), first.plateau());
            assert_eq!(rest.notes(), first.notes());
            let later: Vec<_> = (cut..STEPS).map(|number| step(&mut rest, number, choice)).collect();
            assert_eq!(later, all[cut..], "choice {choice}, after {cut} steps");
            assert_eq!(content(&rest), content(&whole), "choice {choice}, after {cut} steps");
        }
    }
}

#[test]
fn damaged_notes_of_rates_change_nothing() {
    let mut train = trainer(groups());
    train.set_schedule_of("head.*", Schedule::Exponential { peak: 0.3, gamma: 0.9 }).unwrap();
    train.set_plateau(Plateau::new(0.4));
    train.look(2.0).unwrap();
    let notes = train.notes();
    assert!(
        notes.contains_key("gradloom.plateau") && notes.contains_key("gradloom.rate.head.*:lr"),
        "{notes:?}"
    );
    for (name, text) in [
        ("gradloom.plateau", "lr 1"),
        ("gradloom.schedule", "cosine 1"),
        ("gradloom.rate.head.*:lr", "linear"),
        ("gradloom.rate.tail.*:lr", "constant 1"),
        ("gradloom.lr", "0.1.2"),
    ] {
        let mut damaged = notes.clone();
        damaged.insert(name.to_string(), text.to_string());
        let mut other = trainer(groups());
        let error = other.load_notes(&damaged).unwrap_err();
        assert!(error.remedies().next().is_some(), "{error}");
        assert_eq!((rates(&other), other.plateau()), ([0.4, 0.2, 0.1], None), "{error}");
    }
}
