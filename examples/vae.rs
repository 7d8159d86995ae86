//! A variational autoencoder that learns the shapes of digits and generates new ones from noise.
//!
//! `cargo run --release --example vae`
//!
//! Shows random numbers inside a loss, a loss of several captured terms, and programs that use only the
//! decoder (Kingma and Welling, 2013). Expect digits next to their reconstructions, twelve generated digits,
//! and at least 80% of 200 generated images that resemble a digit of the font, with a correlation of at least
//! 0.8.

#[path = "common/digits.rs"]
mod digits;
#[path = "common/random.rs"]
mod random;

use digits::{FREE, PIXELS};
use gradloom::prelude::*;

/// Length of the latent code.
const CODE: usize = 8;

#[derive(Module)]
struct Vae {
    encode: Linear,
    /// Layer for the mean and log-variance of each element of the code.
    code: Linear,
    decode: Linear,
    pixels: Linear,
}

impl Vae {
    fn new() -> Self {
        Self {
            encode: Linear::new(PIXELS, 128),
            code: Linear::new(128, 2 * CODE),
            decode: Linear::new(CODE, 128),
            pixels: Linear::new(128, PIXELS),
        }
    }

    fn encode(&self, images: Tensor) -> [Tensor; 2] {
        self.code.forward(self.encode.forward(images).silu()).split(-1)
    }

    /// Returns the logits of the pixels.
    fn decode(&self, code: Tensor) -> Tensor {
        self.pixels.forward(self.decode.forward(code).silu())
    }

    fn loss(&self, images: Tensor) -> Tensor {
        let [mean, log_variance] = self.encode(images);
        let code = mean + (0.5 * log_variance).exp() * randn(mean.shape());
        // Sums over each image, and means over the batch.
        let pixels = self.decode(code).bce_with_logits(images) * PIXELS as f64;
        let spread = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1.0).sum_axes(-1).mean();
        pixels.capture("pixels") + spread.capture("spread")
    }
}

pub(crate) struct Outcome {
    /// Fraction of the generated images that have a correlation of at least 0.8 with a digit of the font.
    pub like_digits: f64,
    /// Number of different digits among those.
    pub different: usize,
    /// Images, their reconstructions, and generated ones, as text.
    pub pictures: [String; 3],
}

pub(crate) fn train(device: &Device, epochs: usize) -> Result<Outcome> {
    let (images, _) = digits::images(1, 1000, 0, 0.05);
    let mut train = Trainer::new(Vae::new())
        .inputs([f32("images", [50, PIXELS])])
        .loss(|vae, [images]| vae.loss(images))
        .optimizer(Adam::new(3e-3))
        .seed(7)
        .compile(device)?;
    let mut batches = Batches::new(1000, 50).shuffled(7);
    for epoch in 0..epochs {
        for (i, batch) in batches.epoch().enumerate() {
            let step = train.step([&gather(&images, PIXELS, &batch)])?;
            if i == 0 && epoch % (epochs / 10).max(1) == 0 {
                let (pixels, spread) = (step.get("pixels")?[0], step.get("spread")?[0]);
                println!("epoch {epoch:>3}  pixels {pixels:.2} nats, code {spread:.2} nats");
            }
        }
    }

    let mut reconstruct = train.infer([f32("images", [12, PIXELS])], |vae, [images]| {
        let [mean, _] = vae.encode(images);
        vae.decode(mean).sigmoid()
    })?;
    let seen = &images[..12 * PIXELS];
    let again = reconstruct.run([seen])?;
    let nothing: [&[f32]; 0] = [];
    let drawn = train.infer([], |vae, []| vae.decode(randn([200, CODE])).sigmoid())?.run(nothing)?;
    let like: Vec<usize> = drawn.chunks(PIXELS).filter_map(like_a_digit).collect();
    Ok(Outcome {
        like_digits: like.len() as f64 / 200.0,
        different: (0..10).filter(|digit| like.contains(digit)).count(),
        pictures: [seen, &again, &drawn[..12 * PIXELS]].map(digits::show),
    })
}

/// Returns the digit of the font that an image has a correlation of at least 0.8 with.
fn like_a_digit(image: &[f32]) -> Option<usize> {
    let correlation = |other: &[f32]| {
        let mean = |x: &[f32]| x.iter().sum::<f32>() / PIXELS as f32;
        let (a, b) = (mean(image), mean(other));
        let product = |x: &[f32], m: f32, y: &[f32], n: f32| {
            x.iter().zip(y).map(|(x, y)| (x - m) * (y - n)).sum::<f32>()
        };
        product(image, a, other, b) / (product(image, a, image, a) * product(other, b, other, b)).sqrt()
    };
    (0..10).find(|&digit| correlation(&digits::draw(digit, FREE.0 / 2, FREE.1 / 2)) >= 0.8)
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 30)?;
    let [seen, again, drawn] = outcome.pictures;
    println!("digits\n{seen}\nreconstructed\n{again}\ndrawn out of noise\n{drawn}");
    println!(
        "{:.0}% of 200 drawn images are like a digit, {} different digits among them",
        100.0 * outcome.like_digits,
        outcome.different
    );
    Ok(())
}
