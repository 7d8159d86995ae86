//! Sums over all ranks of a world: `torchrun --no-python --nproc-per-node 3 ring [ELEMENTS] [STEPS]`.
//!
//! Each rank prints the sum of the ranks' numbers, as it got it, and the time of a step.

use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_device::communicator::Communicator;
use gradloom_world::World;
use std::time::Instant;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut number = |default| {
        let invalid = |_| Error::new(ErrorKind::Feed, "the number of elements or steps is not a number");
        arguments.next().unwrap_or(Ok(default)).map_err(invalid)
    };
    let (elements, steps) = (number(1)?.max(1), number(1)?.max(1));
    let world = World::from_env()?;
    let mut part = vec![0.0; elements];
    let begin = Instant::now();
    for step in 0..steps {
        world.note_step(step as u64);
        part.fill(1.0 + world.rank() as f32);
        world.all_reduce(&mut [&mut part])?;
    }
    let seconds = begin.elapsed().as_secs_f64() / steps as f64;
    println!("rank {} of {}: the sum is {}, {seconds:.4} s a step", world.rank(), world.size(), part[0]);
    Ok(())
}
