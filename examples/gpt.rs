//! Trains a small GPT-2 on a text and lets it write: `cargo run --release --example gpt -- [TEXT-FILE]`.

use gradloom::prelude::*;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "README.md".to_string());
    let text = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    let (batch, context) = (8, 64);
    if text.len() < context + 2 {
        return Err(format!("{path} has {} bytes; {} are needed", text.len(), context + 2).into());
    }
    let config =
        Gpt2Config { vocabulary: 256, context, width: 64, heads: 4, layers: 2, ..Gpt2Config::default() };

    let mut train = Trainer::new(Gpt2::new(&config)?)
        .inputs([i32("ids", [batch, context]), i32("targets", [batch, context])])
        .loss(|gpt, [ids, targets]| gpt.loss(ids, targets))
        .optimizer(AdamW::new(Schedule::warmup_cosine(3e-3, 20, 300, 3e-4)).weight_decay(0.1))
        .clip_norm(1.0)
        .compile(&Device::auto()?)?;

    for step in 0..300 {
        let start = |row: usize| (step * 9973 + row * 7919) % (text.len() - context - 1);
        let window = |shift: usize| -> Vec<i32> {
            (0..batch)
                .flat_map(|row| &text[start(row) + shift..][..context])
                .map(|&byte| byte.into())
                .collect()
        };
        let done = train.step([&window(0), &window(1)])?;
        if step % 50 == 0 {
            println!("step {step:>4}  loss {:.3} nats a byte", done.loss()?);
        }
    }

    let mut next = train.infer([i32("ids", [1, context])], |gpt, [ids]| gpt.forward(ids))?;
    let mut written = b"A tensor compiler ".to_vec();
    for _ in 0..120 {
        let seen = written.len().min(context);
        let mut ids = vec![0; context];
        for (id, &byte) in ids.iter_mut().zip(&written[written.len() - seen..]) {
            *id = byte.into();
        }
        let logits = &next.run([&ids])?[(seen - 1) * 256..][..256];
        let likeliest = (0..256).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).expect("256 bytes");
        written.push(likeliest as u8);
    }
    println!("{}", String::from_utf8_lossy(&written));
    Ok(())
}
