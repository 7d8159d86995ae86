//! Tests keys and values in 16 bits: attention over them equals attention over the numbers that they
//! represent, no program converts the whole pool to 32 bits, and written values are rounded to nearest.

mod common;
#[path = "../../gradloom-models/tests/common/decoder.rs"]
mod decoder;

use common::devices;
use decoder::Decoder;
use gradloom::CpuDevice as _;
use gradloom::ir::{DType, OpKind};
use gradloom::kernel::{Kernel, Launch};
use gradloom::nn::{KeyValueCache, Linear, State};
use gradloom::plan::{Buffer, Region, Role};
use gradloom::runtime::pipeline::Target;
use gradloom::runtime::{Limits, Precision};
use gradloom::trace::AttentionOptions;
use gradloom::{Device, Infer, Session, Tensor, f32, i32};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_models::kv::{PagedBatch, PagedKeyValues};
use gradloom_models::language_model::LanguageModel;

const NARROW: [DType; 2] = [DType::BF16, DType::F16];

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 101) as f32 * 0.7).sin() * 2.0).collect()
}

fn bytes(values: &[f32], dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        _ => values.iter().flat_map(|&x| dtype.narrow_bits(x).to_le_bytes()).collect(),
    }
}

fn rounded(values: &[f32], dtype: DType) -> Vec<f32> {
    values.iter().map(|&x| dtype.of_narrow_bits(dtype.narrow_bits(x))).collect()
}

#[track_caller]
fn assert_near(got: &[f32], want: &[f32], bound: f32, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        assert!((a - b).abs() <= bound || a == b, "{what}, element {i}: {a}, not {b}");
    }
}

/// Extents of attention over a pool: sequences, heads, key heads, queries, depth, depth of the values,
/// positions per block, blocks per table.
type Extents = [usize; 8];

/// Computes attention over a pool of states with dtype `kept`, whose elements are rounded to `dtype`.
fn over_a_pool(
    device: &Device,
    kept: DType,
    dtype: DType,
    extents: Extents,
    lengths: &[i32],
) -> [Vec<f32>; 2] {
    let [batch, heads, key_heads, queries, depth, value_depth, size, blocks] = extents;
    let pool = batch * blocks + 3;
    let state = |part: &str, depth| {
        State::new([pool, key_heads, size, depth], DType::F32, 0.0).kept_as(kept).named(part)
    };
    let states = [state("keys", depth), state("values", value_depth)];
    let session = Session::new(Linear::new(1, 1), device, 0).unwrap();
    let inputs =
        [f32("q", [batch, heads, queries, depth]), i32("lengths", [batch]), i32("table", [batch, blocks])];
    let mut program: Infer<3, (Tensor, Tensor)> = session
        .infer(inputs, |_, [q, lengths, table]| {
            let options = AttentionOptions::full().key_length(lengths).block_table(table);
            let [keys, values] = states.each_ref().map(|state| state.tensor().cast(DType::F32));
            q.attention_with_log_sum(keys, values, options)
        })
        .unwrap();
    for (seed, state) in states.iter().enumerate() {
        let elements = rounded(&numbers(state.shape().elements(), seed + 1), dtype);
        session.store().write(&[(state.name().unwrap(), state.ty(), &bytes(&elements, kept)[..])]).unwrap();
    }
    let table: Vec<i32> = (0..batch * blocks).map(|i| ((i * 5 + 2) % pool) as i32).collect();
    let q = numbers(batch * heads * queries * depth, 9);
    let (output, log_sum) = program.run((&q, lengths, &table)).unwrap();
    [output, log_sum]
}

#[test]
fn attention_over_16_bits_is_that_over_what_they_stand_for() {
    let cases: [(Extents, &[i32]); 6] = [
        // One query per text, as for the next token; one text has length 0.
        ([3, 4, 2, 1, 8, 8, 4, 5], &[20, 0, 7]),
        ([1, 1, 1, 1, 64, 64, 16, 3], &[33]),
        // Rows that do not fill vectors, and values with another depth.
        ([2, 3, 1, 1, 7, 5, 3, 4], &[12, 1]),
        ([2, 6, 3, 2, 17, 33, 5, 7], &[34, 0]),
        // Many queries, for which keys and values are packed.
        ([2, 4, 2, 19, 36, 20, 6, 9], &[53, 8]),
        ([1, 2, 2, 40, 5, 6, 7, 11], &[77]),
    ];
    for device in devices() {
        for dtype in NARROW {
            for (extents, lengths) in cases {
                let [got, want] =
                    [dtype, DType::F32].map(|kept| over_a_pool(&device, kept, dtype, extents, lengths));
                let what = format!("{dtype}, {extents:?}, {lengths:?} on {}", device.description());
                assert_near(&got[0], &want[0], 1e-5, &what);
                assert_near(&got[1], &want[1], 1e-5, &what);
                assert!(want[0].iter().any(|x| x.abs() > 0.1), "{what}: nothing is seen");
            }
        }
    }
}

/// Keys and values `[1, heads, keys, depth]` with a last axis that is not contiguous.
#[test]
fn elements_may_lie_apart() {
    for dtype in NARROW {
        for queries in [1, 9] {
            let [got, want] = [dtype, DType::F32].map(|kept| {
                let states = ["keys", "values"]
                    .map(|part| State::new([2, 11, 13], DType::F32, 0.0).kept_as(kept).named(part));
                let session = Session::new(Linear::new(1, 1), &Device::cpu(), 0).unwrap();
                let mut program: Infer<1, Tensor> = session
                    .infer([f32("q", [1, 2, queries, 11])], |_, [q]| {
                        let [keys, values] = states.each_ref().map(|state| {
                            state.tensor().cast(DType::F32).transpose(1, 2).reshape([1, 2, 13, 11])
                        });
                        q.attention(keys, values, AttentionOptions::full())
                    })
                    .unwrap();
                for (seed, state) in states.iter().enumerate() {
                    let elements = bytes(&rounded(&numbers(286, seed + 1), dtype), kept);
                    session.store().write(&[(state.name().unwrap(), state.ty(), &elements[..])]).unwrap();
                }
                program.run([&numbers(22 * queries, 4)]).unwrap()
            });
            assert_near(&got, &want, 1e-5, &format!("{dtype}, {queries} queries"));
        }
    }
}

fn config() -> Gpt2Config {
    Gpt2Config { vocabulary: 37, context: 32, width: 24, heads: 3, layers: 2, ..Gpt2Config::default() }
}

const BLOCKS: usize = 40;

fn step<M: LanguageModel>(
    session: &Session<M>,
    pool: &PagedKeyValues,
    rows: usize,
    time: usize,
) -> Infer<4, Tensor> {
    let inputs =
        [i32("ids", [rows, time]), i32("tables", [rows, 8]), i32("starts", [rows]), i32("lengths", [rows])];
    session
        .infer(inputs, |model, [ids, tables, starts, lengths]| {
            model.logits(pool.extend(model, ids, PagedBatch { tables, starts, lengths }))
        })
        .unwrap()
}

/// The keys of the first layer do not depend on a cache, so both pools receive the same numbers.
#[test]
fn what_a_pool_is_given_is_rounded_to_the_nearest() {
    for device in devices() {
        for dtype in NARROW {
            let session = Session::new(Gpt2::new(&config()).unwrap(), &device, 5).unwrap();
            let sizes = session.model().sizes();
            let tables: Vec<i32> = (0..24).map(|i| (i * 7 + 1) % BLOCKS as i32).collect();
            let ids: Vec<i32> = (0..9).map(|i| i * 5 % 37).collect();
            let [wide, narrow] = [("wide", DType::F32), ("narrow", dtype)].map(|(name, kept)| {
                let pool = PagedKeyValues::new(sizes, BLOCKS, 4, name).kept_as(kept);
                let (mut many, mut one) = (step(&session, &pool, 3, 3), step(&session, &pool, 3, 1));
                // The second row has fewer new tokens; the third has none at first.
                many.run((&ids, &tables, &[0, 0, 0], &[3, 2, 0])).unwrap();
                let logits = one.run((&ids[..3], &tables, &[3, 2, 0], &[4, 3, 1])).unwrap();
                let read = |part: &str| session.store().read(&format!("{name}.h.0.{part}")).unwrap();
                (["keys", "values"].map(read), logits)
            });
            for (wide, narrow) in wide.0.iter().zip(&narrow.0) {
                let wide: Vec<f32> = wide.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
                assert_eq!(wide.iter().filter(|&&x| x != 0.0).count(), 8 * 24, "positions of three texts");
                assert!(bytes(&wide, dtype) == *narrow, "{dtype} on {}", device.description());
            }
            assert_near(&narrow.1, &wide.1, 2e-2, "logits");
        }
    }
}

#[test]
fn a_text_in_16_bits_goes_on_as_in_32() {
    for dtype in NARROW {
        let session = Session::new(Gpt2::new(&config()).unwrap(), &Device::cpu(), 5).unwrap();
        let [wide, narrow] = [("wide", DType::F32), ("narrow", dtype)].map(|(name, kept)| {
            let mut decoder = Decoder::kept_as(&session, name, kept).unwrap();
            let mut logits = decoder.feed(&[3, 1, 4, 1, 5]).unwrap();
            logits.extend(decoder.feed(&[9]).unwrap());
            logits
        });
        assert_near(&narrow, &wide, 2e-2, "logits");
        let of = |name: &str| session.store().entries().into_iter().find(|e| e.name == name).unwrap().ty;
        assert_eq!((of("narrow.h.1.keys").dtype, of("narrow.length").dtype), (dtype, DType::I32));
        let [wide, narrow] = ["wide", "narrow"].map(|name| {
            let keys = session.store().read(&format!("{name}.h.0.keys")).unwrap();
            if name == "narrow" {
                return keys;
            }
            bytes(&keys.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect::<Vec<_>>(), dtype)
        });
        assert!(wide == narrow, "{dtype}");
    }
}

/// Attention reads the pool directly, and no buffer of a step is as large as a pool.
#[test]
fn no_program_holds_the_pool_in_32_bits() {
    let targets = [
        Target::cpu(2),
        Target::wgsl(Limits::portable(), Precision::F32),
        Target::wgsl(Limits::desktop(), Precision::F32),
        Target::cuda(Limits::cuda(), Precision::F32),
        Target::cuda(Limits::cuda(), Precision::Bf16),
    ];
    for target in targets {
        let device = Device::null_for(target.clone());
        for dtype in NARROW {
            for time in [1, 3] {
                let session = Session::new(Gpt2::new(&config()).unwrap(), &device, 5).unwrap();
                let sizes = session.model().sizes();
                let pool = PagedKeyValues::new(sizes, 400, 4, "pool").kept_as(dtype);
                let program = step(&session, &pool, 3, time);
                let plan = program.plan();
                let is_attention =
                    |launch: &&Launch| matches!(launch.kernel, Kernel::Op(OpKind::Attention(_)));
                let over_pools = |launch: &&Launch| launch.reads[1].layout.shape[0] == 400;
                let launches: Vec<&Launch> =
                    plan.launches.iter().filter(is_attention).filter(over_pools).collect();
                assert_eq!(launches.len(), 2, "{target:?}");
                for launch in launches {
                    assert!(launch.reads[1..3].iter().all(|read| read.dtype == dtype), "{target:?}");
                }
                let pool_bytes = 400 * 3 * 4 * 8 * 2;
                let pools = |b: &&Buffer| b.role == Role::State && b.bytes == pool_bytes;
                assert_eq!(plan.buffers.iter().filter(pools).count(), 4, "{target:?}");
                let held = plan.buffers.iter().filter(|b| b.region != Region::Store).map(|b| b.bytes).max();
                assert!(held.unwrap() < pool_bytes, "{target:?} holds {held:?}");
            }
        }
    }
}

/// The scatters that write new keys and values into the pool also round them.
#[test]
fn on_gpus_nothing_is_launched_for_16_bits() {
    for target in
        [Target::wgsl(Limits::desktop(), Precision::F32), Target::cuda(Limits::cuda(), Precision::F32)]
    {
        let device = Device::null_for(target.clone());
        let [wide, narrow] = [("wide", DType::F32), ("narrow", DType::BF16)].map(|(name, kept)| {
            let session = Session::new(Gpt2::new(&config()).unwrap(), &device, 5).unwrap();
            let pool = PagedKeyValues::new(session.model().sizes(), BLOCKS, 4, name).kept_as(kept);
            let program = step(&session, &pool, 3, 1);
            let kernels = program.plan().launches.iter().map(|launch| format!("{:?}", launch.kernel));
            kernels.collect::<Vec<_>>()
        });
        assert_eq!(wide, narrow, "{target:?}");
    }
}

#[test]
#[should_panic(expected = "to be kept as a float")]
fn keys_are_floats() {
    _ = KeyValueCache::new(1, 1, 4, 8).kept_as(DType::I32);
}
