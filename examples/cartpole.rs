//! A network learns to keep a pole upright on a cart, by pushing the cart left or right.
//!
//! `cargo run --release --example cartpole`
//!
//! Policy gradients (REINFORCE): 16 games are played with pushes drawn from the network's distribution, then
//! pushes that led to a longer balance than average become more likely. The example contains the simulator.
//! Shows a model that alternates between acting and training, and a weighted loss. A game ends after 200
//! moves. Expect the games to become longer, and at least 190 moves on average over 20 new games in which the
//! more likely push is always taken.

#[path = "common/random.rs"]
mod random;

use gradloom::prelude::*;
use random::Random;

const GAMES: usize = 16;
const MOVES: usize = 200;

#[derive(Module)]
struct Policy {
    hidden: Linear,
    push: Linear,
}

impl Policy {
    fn new() -> Self {
        Self { hidden: Linear::new(4, 32), push: Linear::new(32, 2) }
    }

    /// Returns the logits of a push to the left and to the right.
    fn forward(&self, cart: Tensor) -> Tensor {
        self.push.forward(self.hidden.forward(cart).tanh())
    }
}

/// Position and speed of the cart, and angle and angular speed of the pole.
type Cart = [f32; 4];

fn start(random: &mut Random) -> Cart {
    [(); 4].map(|()| 0.1 * random.uniform() - 0.05)
}

/// Returns the cart's state 0.02 s later, in metres, radians and seconds. The cart weighs 1 kg, the pole 0.1
/// kg, and the pole is 1 m long (Barto, Sutton and Anderson, 1983).
fn push([x, speed, angle, turn]: Cart, right: bool) -> Cart {
    let force = if right { 10.0 } else { -10.0 };
    let (sin, cos) = angle.sin_cos();
    let pull = (force + 0.05 * turn * turn * sin) / 1.1;
    let turning = (9.8 * sin - cos * pull) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1));
    let moving = pull - 0.05 * turning * cos / 1.1;
    [x + 0.02 * speed, speed + 0.02 * moving, angle + 0.02 * turn, turn + 0.02 * turning]
}

fn has_fallen([x, _, angle, _]: Cart) -> bool {
    x.abs() > 2.4 || angle.abs() > 12f32.to_radians()
}

pub(crate) struct Outcome {
    /// Mean number of moves, at most 200, over 20 games in which the more likely push is taken.
    pub moves: f64,
}

pub(crate) fn train(device: &Device, rounds: usize) -> Result<Outcome> {
    let rows = GAMES * MOVES;
    let mut train = Trainer::new(Policy::new())
        .inputs([f32("carts", [rows, 4]), i32("pushes", [rows]), f32("weights", [rows])])
        .loss(|policy, [carts, pushes, weights]| {
            // Mean over the moves that were made; the other rows have weight 0.
            let made = weights.ne(0.0).cast(DType::F32).sum();
            (policy.forward(carts).cross_entropy_rows(pushes) * weights).sum() / made
        })
        .optimizer(Adam::new(Schedule::warmup_cosine(2e-2, 1, rounds as u64, 1e-3)))
        .seed(5)
        .compile(device)?;
    let mut policy = train
        .session()
        .infer_any_batch([f32("carts", [GAMES, 4])], |policy, [carts]| policy.forward(carts))?;

    let mut random = Random::new(5);
    for round in 0..rounds {
        // All games advance together: one run of the network computes a move of each.
        let mut carts: Vec<Cart> = (0..GAMES).map(|_| start(&mut random)).collect();
        let (mut seen, mut pushes) = (vec![0.0; 4 * rows], vec![0; rows]);
        let mut lengths = [0; GAMES];
        for step in 0..MOVES {
            let logits = policy.run([carts.as_flattened()])?;
            for (game, cart) in carts.iter_mut().enumerate().filter(|(_, cart)| !has_fallen(**cart)) {
                let (row, right) = (game * MOVES + step, random.choose(&logits[2 * game..][..2]));
                seen[4 * row..][..4].copy_from_slice(cart);
                pushes[row] = right as i32;
                *cart = push(*cart, right == 1);
                lengths[game] = step + 1;
            }
        }

        // Value of a move: the discounted number of moves that follow it.
        let worth = |left: usize| (1.0 - 0.98f32.powi(left as i32)) / (1.0 - 0.98);
        let worths: Vec<f32> = lengths.iter().flat_map(|&n| (0..n).map(move |i| worth(n - i))).collect();
        let mean = worths.iter().sum::<f32>() / worths.len() as f32;
        let variance = worths.iter().map(|w| (w - mean).powi(2)).sum::<f32>() / worths.len() as f32;
        let mut weights = vec![0.0; rows];
        for (game, &n) in lengths.iter().enumerate() {
            for i in 0..n {
                weights[game * MOVES + i] = (worth(n - i) - mean) / (variance.sqrt() + 1e-3);
            }
        }
        train.step((&seen, &pushes, &weights))?;
        if round % 8 == 0 {
            let moves = lengths.iter().sum::<usize>() / GAMES;
            println!("round {round:>3}  {:<50} {moves} moves", "#".repeat(moves / 4));
        }
    }

    let mut moves = 0;
    let mut carts: Vec<Cart> = (0..20).map(|_| start(&mut random)).collect();
    for _ in 0..MOVES {
        let logits = policy.run([carts.as_flattened()])?;
        for (cart, logits) in carts.iter_mut().zip(logits.chunks(2)).filter(|(cart, _)| !has_fallen(**cart)) {
            *cart = push(*cart, logits[1] > logits[0]);
            moves += 1;
        }
    }
    Ok(Outcome { moves: f64::from(moves) / 20.0 })
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 80)?;
    println!("{:.1} of {MOVES} moves on average over 20 new games", outcome.moves);
    Ok(())
}
