//! Tests that launches are recorded on request, each once and in order.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

use gradloom::CpuDevice as _;
use gradloom::nn::Linear;
use gradloom::runtime::Roofline;
use gradloom::{Device, Profile, ProfileOptions, Session, Sgd, Train, Trainer, f32};
use serde_json::Value;

fn compile(device: &Device) -> Train<Linear, 1> {
    Trainer::new(Linear::new(3, 2))
        .inputs([f32("x", [4, 3])])
        .loss(|layer, [x]| layer.forward(x).square().mean())
        .optimizer(Sgd::new(0.1))
        .compile(device)
        .unwrap()
}

#[test]
fn every_launch_is_noted_once_and_in_order() {
    let mut train = compile(&Device::cpu());
    let launches = train.plan().launches.len();
    train.step([&[1.0f32; 12]]).unwrap().loss().unwrap();
    assert!(train.spans().is_empty(), "spans were not asked for");
    train.set_profiling(true);
    for _ in 0..2 {
        train.step([&[1.0f32; 12]]).unwrap().loss().unwrap();
        assert!(train.spans().iter().map(|span| span.launch).eq(0..launches));
        assert!(train.spans().windows(2).all(|pair| pair[0].began + pair[0].took <= pair[1].began));
    }
    // A non-finite loss ends the step before anything is written.
    train.step([&[f32::NAN; 12]]).unwrap().result().unwrap_err();
    let noted = train.spans().len();
    assert!(0 < noted && noted < launches, "{noted} of {launches}");
    train.set_profiling(false);
    train.step([&[1.0f32; 12]]).unwrap().loss().unwrap();
    assert!(train.spans().is_empty());
}

#[test]
fn profiling_changes_no_bits() {
    let [mut plain, mut profiled] = [(); 2].map(|()| compile(&Device::cpu()));
    profiled.set_profiling(true);
    for _ in 0..5 {
        let losses =
            [&mut plain, &mut profiled].map(|train| train.step([&[0.5f32; 12]]).unwrap().loss().unwrap());
        assert_eq!(losses[0].to_bits(), losses[1].to_bits());
    }
}

#[test]
fn the_null_device_notes_nothing() {
    let mut train = compile(&Device::null());
    train.set_profiling(true);
    train.step([&[1.0f32; 12]]).unwrap();
    assert!(train.spans().is_empty());
}

const DATA: [&[f32; 12]; 1] = [&[0.5; 12]];

fn profile(options: impl Into<ProfileOptions>) -> (Train<Linear, 1>, Profile) {
    let mut train = compile(&Device::cpu_with_threads(1).unwrap());
    let profile = train.profile(options, DATA).unwrap();
    (train, profile)
}

fn roof() -> Roofline {
    Roofline { threads: 1, flops: 1e9, bandwidth: vec![(1 << 30, 1e9)], products: None }
}

#[test]
fn a_profile_has_the_launches_of_the_plan_in_order_and_its_sums_add_up() {
    let (train, profile) = profile(ProfileOptions::new(6).warm_up(2).named("layer").roof(roof()));
    assert_eq!((train.attempted_steps(), profile.steps), (8, 6));
    assert!(train.spans().is_empty(), "profiling ends with the call");
    let inspection = train.inspect();
    let plan = inspection.plan();
    assert_eq!(profile.launches.len(), plan.launches().len());
    for (measured, planned) in profile.launches.iter().zip(plan.launches()) {
        assert_eq!((&measured.name, measured.cost), (&planned.name(), planned.cost()));
        assert_eq!(measured.place, planned.origin().map(ToString::to_string));
        assert!(measured.seconds > 0.0 && measured.seconds < profile.seconds);
        assert_eq!(measured.bound, Some(roof().seconds(measured.cost.flops, measured.cost.bytes())));
    }
    let (total, kernels) = (profile.total(), profile.kernels());
    assert_eq!(Some(total.cost.flops), train.summary().flops);
    assert_eq!(kernels.iter().map(|(_, figures)| figures.launches).sum::<usize>(), total.launches);
    assert_eq!(kernels.iter().map(|(_, figures)| figures.cost.flops).sum::<u64>(), total.cost.flops);
    assert!((kernels.iter().map(|(_, figures)| figures.seconds).sum::<f64>() - total.seconds).abs() < 1e-12);
    assert!(profile.longest().is_sorted_by(|a, b| a.1.seconds >= b.1.seconds));

    let text = profile.to_string();
    assert!(text.starts_with("layer on ") && text.contains("bounds: 1 GFLOP/s, 1 GB/s in 1.1 GB"), "{text}");
    assert_eq!(text, profile.table(20));
    let json: Value = serde_json::from_str(&profile.to_json()).unwrap();
    assert_eq!((&json["config"], &json["total"]["flops"]), (&"layer".into(), &total.cost.flops.into()));
    assert_eq!(json["launches"].as_array().unwrap().len(), total.launches);

    let folder = tempfile::tempdir().unwrap();
    profile.write_perfetto(folder.path().join("steps.json")).unwrap();
    let trace = std::fs::read_to_string(folder.path().join("steps.json")).unwrap();
    let trace: Value = serde_json::from_str(&trace).unwrap();
    let slices = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").count();
    assert_eq!(slices, 5 * (1 + total.launches), "five steps are traced");
}

#[test]
fn a_number_of_steps_is_enough_and_the_roof_may_be_left_out() {
    let (train, profile) = profile(ProfileOptions::from(3).without_roof());
    assert_eq!((train.attempted_steps(), profile.steps), (4, 3));
    assert!(profile.roof.is_none() && profile.total().share().is_none());
    assert!(!profile.to_string().contains("roof"));
}

#[test]
fn a_forward_program_is_profiled() {
    let session = Session::new(Linear::new(3, 2), &Device::cpu(), 0).unwrap();
    let mut infer = session.infer([f32("x", [4, 3])], |layer, [x]| layer.forward(x).relu()).unwrap();
    let before = infer.run(DATA).unwrap();
    let profile = infer.profile(ProfileOptions::new(2).without_roof(), DATA).unwrap();
    assert_eq!(profile.launches.len(), infer.plan().launches.len());
    assert_eq!(infer.run(DATA).unwrap(), before);
}

#[test]
fn what_cannot_be_profiled_is_an_error() {
    let mut train = compile(&Device::null());
    assert!(train.profile(3, DATA).unwrap_err().message().contains("null device"));
    let mut train = compile(&Device::cpu());
    assert!(train.profile(0, DATA).unwrap_err().message().contains("no steps"));
    let options = || ProfileOptions::new(3).without_roof();
    assert!(train.profile(options(), [&[f32::NAN; 12]]).is_err());
    train.step(DATA).unwrap().loss().unwrap();
    assert!(train.spans().is_empty(), "an error ends profiling, too");
    assert!(train.profile(options(), [&[0.0f32; 3]]).unwrap_err().message().contains("x"));
}
