//! Values of collectives, against sums of integers that f32 represents.

use super::support::{patient, world};
use gradloom_device::communicator::Communicator;
use gradloom_world::{Membership, World};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SIZES: [usize; 6] = [1, 2, 3, 4, 5, 8];

/// Numbers without a pattern, the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn integers(&mut self, length: usize) -> Vec<f32> {
        (0..length).map(|_| (self.next() % 2001) as f32 - 1000.0).collect()
    }

    fn floats(&mut self, length: usize) -> Vec<f32> {
        (0..length).map(|_| (self.next() as f32 / 1e6).sin() * (self.next() % 100) as f32).collect()
    }
}

/// Lists of lengths: none, empty parts, fewer elements than ranks, many parts, several pieces.
fn lengths() -> Vec<Vec<usize>> {
    let mut numbers = Numbers(7);
    let many = (0..300).map(|_| (numbers.next() % 40) as usize).collect();
    let mixed = (0..12).map(|_| (numbers.next() % 30_000) as usize).collect();
    vec![vec![], vec![0], vec![0, 0, 1, 0], vec![1], vec![7, 0, 0, 2], many, mixed, vec![1_500_001, 3]]
}

fn parts(rank: usize, lengths: &[usize], make: impl Fn(&mut Numbers, usize) -> Vec<f32>) -> Vec<Vec<f32>> {
    let mut numbers = Numbers(rank as u64 + 1);
    lengths.iter().map(|length| make(&mut numbers, *length)).collect()
}

fn all_reduce(world: &World, parts: &mut [Vec<f32>]) {
    let mut parts: Vec<_> = parts.iter_mut().map(Vec::as_mut_slice).collect();
    world.all_reduce(&mut parts).expect("a sum");
}

fn bits(parts: &[Vec<f32>]) -> Vec<u32> {
    parts.iter().flatten().map(|value| value.to_bits()).collect()
}

#[test]
fn no_rank_leaves_a_sum_before_all_have_entered_it() {
    for size in SIZES {
        let entered = AtomicUsize::new(0);
        world(size, |world| {
            let mut numbers = Numbers(world.rank() as u64 + 1);
            for round in 1..=50 {
                std::thread::sleep(Duration::from_micros(numbers.next() % 300));
                entered.fetch_add(1, Ordering::SeqCst);
                all_reduce(&world, &mut parts(0, &lengths()[round % 4], Numbers::integers));
                assert!(entered.load(Ordering::SeqCst) >= round * size, "round {round} of {size} ranks");
            }
        });
    }
}

#[test]
fn sums_of_integers_are_exact() {
    for size in SIZES {
        let sums = world(size, |world| {
            let sum = |lengths: Vec<usize>| {
                let mut parts = parts(world.rank(), &lengths, Numbers::integers);
                all_reduce(&world, &mut parts);
                parts
            };
            lengths().into_iter().map(sum).collect::<Vec<_>>()
        });
        for (index, lengths) in lengths().iter().enumerate() {
            let mut expected = parts(0, lengths, Numbers::integers);
            for rank in 1..size {
                let other = parts(rank, lengths, Numbers::integers);
                let pairs = expected.iter_mut().flatten().zip(other.iter().flatten());
                pairs.for_each(|(sum, value)| *sum += value);
            }
            for sum in &sums {
                assert!(sum[index] == expected, "{size} ranks, lengths {index}");
            }
        }
    }
}

#[test]
fn all_ranks_get_the_same_bits() {
    for size in SIZES {
        let sums = world(size, |world| {
            let mut parts = parts(world.rank(), &[5, 70_000, 0, 333], Numbers::floats);
            all_reduce(&world, &mut parts);
            bits(&parts)
        });
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{size} ranks");
    }
}

#[test]
fn a_sum_is_its_slices_gathered() {
    for size in SIZES {
        for shards in [vec![0], vec![1], vec![2, 0, 3], vec![40_000, 1, 70_001]] {
            world(size, |world| {
                let lengths: Vec<_> = shards.iter().map(|shard| shard * size).collect();
                let mut sums = parts(world.rank(), &lengths, Numbers::integers);
                let own = sums.clone();
                all_reduce(&world, &mut sums);
                let mut slices: Vec<_> = shards.iter().map(|shard| vec![0.0; *shard]).collect();
                scatter(&world, &own, &mut slices);
                let rank = world.rank();
                for (slice, sum) in slices.iter().zip(&sums) {
                    assert!(slice[..] == sum[rank * slice.len()..(rank + 1) * slice.len()]);
                }
                let mut gathered: Vec<_> = lengths.iter().map(|length| vec![-1.0; *length]).collect();
                gather(&world, &slices, &mut gathered);
                assert!(gathered == sums, "{size} ranks, {shards:?}");
            });
        }
    }
}

fn scatter(world: &World, parts: &[Vec<f32>], shards: &mut [Vec<f32>]) {
    let parts: Vec<_> = parts.iter().map(Vec::as_slice).collect();
    let mut shards: Vec<_> = shards.iter_mut().map(Vec::as_mut_slice).collect();
    world.reduce_scatter(&parts, &mut shards).expect("slices of a sum");
}

fn gather(world: &World, shards: &[Vec<f32>], parts: &mut [Vec<f32>]) {
    let shards: Vec<_> = shards.iter().map(Vec::as_slice).collect();
    let mut parts: Vec<_> = parts.iter_mut().map(Vec::as_mut_slice).collect();
    world.all_gather(&shards, &mut parts).expect("all shards");
}

#[test]
fn a_part_has_the_bits_of_its_slices() {
    for size in SIZES {
        world(size, |world| {
            let mut sum = parts(world.rank(), &[size * 90_000], Numbers::floats);
            let own = sum.clone();
            all_reduce(&world, &mut sum);
            let mut slice = [vec![0.0; 90_000]];
            scatter(&world, &own, &mut slice);
            let begin = world.rank() * 90_000;
            assert!(bits(&slice) == bits(&[sum[0][begin..begin + 90_000].to_vec()]), "{size} ranks");
        });
    }
}

#[test]
fn every_rank_can_broadcast() {
    for size in SIZES {
        world(size, |world| {
            for length in [0, 1, 1_000_000] {
                for root in 0..size {
                    let message: Vec<u8> = (0..length).map(|index| (index + root) as u8).collect();
                    let mut bytes =
                        if world.rank() == root { message.clone() } else { vec![9; world.rank()] };
                    world.broadcast(root, &mut bytes).expect("a copy");
                    assert!(bytes == message, "{size} ranks, {length} bytes from {root}");
                }
            }
        });
    }
}

#[test]
fn special_numbers_pass() {
    let sums = world(3, |world| {
        let rank = world.rank();
        let (infinity, nan) = (f32::INFINITY, f32::NAN);
        let rows = [[1.0, nan, infinity, infinity, f32::MAX], [1.0, 0.0, 1.0, -infinity, f32::MAX], [0.0; 5]];
        let mut part = rows[rank];
        world.all_reduce(&mut [&mut part]).expect("a sum");
        let mut gathered = [0.0; 3];
        let payload = f32::from_bits(0x7FC0_1234);
        world.all_gather(&[&[payload]], &mut [&mut gathered]).expect("all numbers");
        assert!(gathered.iter().all(|value| value.to_bits() == payload.to_bits()));
        part
    });
    for sum in sums {
        assert_eq!(sum[0], 2.0);
        assert!(sum[1].is_nan() && sum[2] == f32::INFINITY && sum[3].is_nan() && sum[4] == f32::INFINITY);
    }
}

#[test]
fn a_slow_rank_is_waited_for() {
    let options = gradloom_world::WorldOptions { heartbeat_timeout: Duration::from_millis(800), ..patient() };
    let members = super::support::memberships(3, options);
    super::support::run(members, |member| {
        let world = World::join(member).expect("a world");
        if world.rank() == 1 {
            std::thread::sleep(2 * options.heartbeat_timeout);
        }
        let mut part = [1.0];
        world.all_reduce(&mut [&mut part]).expect("a sum");
        assert_eq!(part, [3.0]);
    });
}

#[test]
fn wrong_arguments_are_named() {
    let world = World::join(Membership::alone()).expect("a world");
    let cases = [
        (world.reduce_scatter(&[&[1.0]], &mut []), "reduce_scatter got 1 parts and 0 shards"),
        (
            world.all_gather(&[&[1.0], &[1.0]], &mut [&mut [0.0], &mut [0.0, 0.0]]),
            "all_gather got a part 1 of 2 elements, but 1 shards of 1",
        ),
        (world.broadcast(1, &mut vec![]), "there is no rank 1 to broadcast in a world of 1 ranks"),
    ];
    for (result, message) in cases {
        assert_eq!(result.unwrap_err().message(), message);
    }
    world.check().expect("a world that goes on");
}
