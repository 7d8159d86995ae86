//! A convolutional network that reads noisy digits.
//!
//! `cargo run --release --example cnn`
//!
//! The images are drawn from a font, at random positions and with noise, so no file is needed. Shows
//! convolutions, pooling, dropout, and weights that are saved and loaded into another session. Expect some
//! digits with the network's answers, and at least 96% of 500 new images classified correctly.

#[path = "common/digits.rs"]
mod digits;
#[path = "common/random.rs"]
mod random;

use digits::{PIXELS, SIDE};
use gradloom::prelude::*;

#[derive(Module)]
struct Cnn {
    conv1: Conv2d,
    conv2: Conv2d,
    classes: Linear,
}

impl Cnn {
    fn new() -> Self {
        let same = || ConvOptions::new().padding(1);
        Self {
            conv1: Conv2d::new(1, 8, 3, same()),
            conv2: Conv2d::new(8, 16, 3, same()),
            classes: Linear::new(16 * (SIDE / 4) * (SIDE / 4), 10),
        }
    }

    /// Maps images `[batch, SIDE * SIDE]` to logits of the ten digits.
    fn forward(&self, images: Tensor) -> Tensor {
        let [batch, _] = images.dims();
        let x = images.reshape([batch, 1, SIDE, SIDE]);
        let x = self.conv1.forward(x).relu().max_pool2d(2, PoolOptions::new());
        let x = self.conv2.forward(x).relu().max_pool2d(2, PoolOptions::new());
        self.classes.forward(Flatten.forward(x).dropout(0.1))
    }
}

pub(crate) struct Outcome {
    /// Fraction of the new images classified correctly.
    pub accuracy: f64,
    /// Some of the new images as text.
    pub picture: String,
    /// Answers for these images.
    pub read: Vec<i32>,
}

pub(crate) fn train(device: &Device, epochs: usize) -> Result<Outcome> {
    let (reach, noise) = (2, 0.2);
    let (images, labels) = digits::images(1, 2000, reach, noise);
    let mut train = Trainer::new(Cnn::new())
        .inputs([f32("images", [50, PIXELS]), i32("labels", [50])])
        .loss(|model, [images, labels]| model.forward(images).cross_entropy(labels))
        .optimizer(AdamW::new(Schedule::warmup_cosine(1e-2, 40, 800, 1e-4)))
        .seed(7)
        .compile(device)?;
    println!("{}", train.summary());

    let mut batches = Batches::new(labels.len(), 50).shuffled(7);
    for epoch in 0..epochs {
        let mut loss = 0.0;
        for batch in batches.epoch() {
            loss = train.step((&gather(&images, PIXELS, &batch), &gather(&labels, 1, &batch)))?.loss()?;
        }
        println!("epoch {epoch:>2}  loss {loss:.4}");
    }

    // Load the weights from a file, as another program would.
    let path = std::env::temp_dir().join(format!("gradloom-cnn-{}.safetensors", std::process::id()));
    train.save(&path)?;
    let session = Session::new(Cnn::new(), device, 0)?;
    session.load(&path)?;
    let _ = std::fs::remove_file(&path);
    let mut classify = session.infer_any_batch([f32("images", [1, PIXELS])], |model, [images]| {
        typed::<i32>(model.forward(images).argmax(-1))
    })?;

    let (images, labels) = digits::images(2, 500, reach, noise);
    let found = classify.run([&images])?;
    let right = found.iter().zip(&labels).filter(|(a, b)| a == b).count();
    Ok(Outcome {
        accuracy: right as f64 / labels.len() as f64,
        picture: digits::show(&images[..8 * PIXELS]),
        read: found[..8].to_vec(),
    })
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 20)?;
    println!("{}", outcome.picture);
    println!("read as {:?}", outcome.read);
    println!("{:.1}% of 500 new images are read rightly", 100.0 * outcome.accuracy);
    Ok(())
}
