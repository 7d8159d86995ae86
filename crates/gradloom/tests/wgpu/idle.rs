//! Tests steps with many dispatches: an idle device starts before all of them are encoded.

use super::{device, not_webgpu};
use gradloom::nn::{Linear, Module};
use gradloom::{Adam, Tensor, Train, Trainer, f32};

#[derive(Module)]
struct Deep {
    layers: Vec<Linear>,
}

impl Deep {
    fn loss(&self, x: Tensor) -> Tensor {
        self.layers.iter().fold(x, |x, layer| layer.forward(x).tanh()).square().mean()
    }
}

fn compiled() -> Train<Deep, 1> {
    Trainer::new(Deep { layers: (0..12).map(|_| Linear::new(8, 8)).collect() })
        .inputs([f32("x", [4, 8])])
        .loss(|model, [x]| model.loss(x))
        .optimizer(Adam::new(0.01))
        .seed(5)
        .compile(&device())
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn an_idle_device_begins_with_the_first_of_many_dispatches() {
    if not_webgpu() {
        return;
    }
    let (mut awaited, mut queued) = (compiled(), compiled());
    let work = |train: &Train<Deep, 1>| train.program().work().unwrap();
    let data = |step: usize| (0..32).map(|i| ((i * 7 + step) % 11) as f32 / 11.0).collect::<Vec<_>>();
    let mut losses = Vec::new();
    for step in 0..4 {
        losses.push(awaited.step([&data(step)[..]]).unwrap().loss().unwrap());
        let work = work(&awaited);
        assert!((32..64).contains(&work.dispatches), "{work:?}");
        // Expect one submission of 16 dispatches, and one with the rest.
        assert_eq!((work.submits, work.passes), (2, 2), "{work:?}");
    }
    let steps: Vec<_> = (0..4).map(|step| queued.step([&data(step)[..]]).unwrap()).collect();
    // The device is busy with earlier steps, so a single submission is fastest.
    assert_eq!((work(&queued).submits, work(&queued).passes), (1, 1));
    let of_queued: Vec<f32> = steps.into_iter().map(|step| step.loss().unwrap()).collect();
    assert_eq!(losses, of_queued);
}
