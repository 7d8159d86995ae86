//! Launches are noted when they are asked to be, each once and in order.

use gradloom::nn::Linear;
use gradloom::{Device, Sgd, Train, Trainer, f32};

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
    // A loss that is not finite ends the step before anything is written.
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
