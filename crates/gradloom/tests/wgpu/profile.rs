//! Tests times measured with a GPU's own clock, and their comparison with the roofline.

use super::{compiled, data, device, skipped};
use gradloom::ProfileOptions;

#[test]
fn launches_are_held_against_what_the_gpu_can_do() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    let (ids, y) = data(0);
    let profile = train.profile(ProfileOptions::new(4).measure_roof(), (&ids, &y)).unwrap();
    let Some(roof) = &profile.roof else {
        // A device without timestamps reports no times.
        assert!(profile.launches.iter().all(|launch| launch.seconds == 0.0 && launch.bound.is_none()));
        return;
    };
    assert!(roof.flops > 1e8 && roof.products.is_none(), "{roof:?}");
    assert!(roof.bandwidth.len() >= 2 && roof.bandwidth.iter().all(|(_, rate)| *rate > 1e7), "{roof:?}");
    for launch in &profile.launches {
        assert!(launch.seconds > 0.0 && launch.bound.is_some_and(|bound| bound > 0.0), "{launch:?}");
    }
    assert!(profile.to_string().contains("of roof"));
}

#[test]
fn whole_steps_are_timed() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    train.set_step_timing(true);
    for i in 0..3 {
        let (ids, y) = data(i);
        train.step((&ids, &y)).unwrap().loss().unwrap();
        let took = train.step_time().unwrap();
        // Expect a time on these devices, which have timestamps.
        let description = train.device().description();
        let has_clock = train.device().name() == "cuda" || description.contains("llvmpipe");
        assert!(took.is_some() || !has_clock, "{description}");
        let Some(took) = took else { return };
        assert!(took.as_nanos() > 0 && took.as_secs() < 10, "{took:?}");
    }
    // Launches can be timed in addition, and the time of an earlier step is not returned.
    let (ids, y) = data(3);
    let profile = train.profile(ProfileOptions::new(2).without_roof(), (&ids, &y)).unwrap();
    assert!(profile.launches.iter().all(|launch| launch.seconds > 0.0));
    assert_eq!(train.step_time().unwrap(), None);
    train.step((&ids, &y)).unwrap().loss().unwrap();
    assert!(train.step_time().unwrap().is_some());
    train.set_step_timing(false);
    train.step((&ids, &y)).unwrap().loss().unwrap();
    assert_eq!(train.step_time().unwrap(), None);
}
