//! Compares padding, concatenation and windows with element-by-element placement. (Copies are tested next to
//! their loops.)

use crate::testing::{Case, Random, Tensor, assert_close};
use crate::{Call, Pool, Prepared};
use gradloom_core::ir::{DType, Number, OpKind, Shape};
use gradloom_core::kernel::{Kernel, Launch, Layout};

/// Places a tensor's elements at the positions of a layout of its shape.
fn place(into: &mut [f64], x: &Tensor, at: &Layout) {
    at.positions().zip(x.values()).for_each(|(p, v)| into[p] = v);
}

#[test]
fn padding_before_after_and_between() {
    let mut random = Random(1);
    // Each case has extents, low padding, high padding and interior padding.
    let cases: [[&[usize]; 4]; 6] = [
        [&[5], &[2], &[3], &[0]],
        [&[5, 3], &[0, 0], &[0, 0], &[0, 0]],
        [&[4, 70], &[1, 0], &[0, 9], &[2, 1]],
        [&[0, 3], &[2, 1], &[1, 0], &[4, 0]],
        [&[], &[], &[], &[]],
        [&[200, 3, 100], &[1, 1, 0], &[0, 1, 8], &[0, 0, 1]],
    ];
    for [shape, low, high, interior] in cases {
        for dtype in DType::IN_KERNELS {
            let x = Tensor::random(&mut random, dtype, &Shape::from(shape));
            let extent = |a: usize| low[a] + high[a] + shape[a] + shape[a].saturating_sub(1) * interior[a];
            let padded = Shape::from((0..shape.len()).map(extent).collect::<Vec<_>>());
            let strides = padded.strides();
            let at = Layout {
                offset: (0..shape.len()).map(|a| low[a] * strides[a]).sum(),
                shape: shape.into(),
                strides: (0..shape.len()).map(|a| strides[a] * (interior[a] + 1)).collect(),
            };
            let value = Number::of(dtype, 1.0);
            let mut expected = vec![1.0; padded.elements()];
            place(&mut expected, &x, &at);
            let [low, high, interior] = [low, high, interior].map(<[usize]>::to_vec);
            let kind = OpKind::Pad { low: low.clone(), high, interior: interior.clone(), value };
            let case = Case::new(kind, vec![x], dtype, padded);
            let got = case.run(|launch, _| super::prepare_pad(launch, &low, &interior, value)).unwrap();
            assert_close(&format!("pad {dtype}{shape:?}"), &got, &expected, 0.0);
        }
    }
}

#[test]
fn concatenation_along_every_axis() {
    let mut random = Random(2);
    for dtype in DType::IN_KERNELS {
        for axis in 0..3 {
            for extents in [&[4][..], &[1, 0, 7], &[300, 5, 90]] {
                let mut shape = vec![3, 5, 40];
                let parts: Vec<Tensor> = extents
                    .iter()
                    .map(|&n| {
                        shape[axis] = n;
                        Tensor::random(&mut random, dtype, &Shape::from(shape.as_slice()))
                    })
                    .collect();
                shape[axis] = extents.iter().sum();
                let whole = Layout::contiguous(&Shape::from(shape.as_slice()));
                let mut expected = vec![0.0; whole.shape.elements()];
                let mut start = vec![0; 3];
                for part in &parts {
                    let limit: Vec<usize> = (0..3).map(|a| start[a] + part.layout.shape[a]).collect();
                    place(&mut expected, part, &whole.slice(&start, &limit, &[1; 3]));
                    start[axis] = limit[axis];
                }
                let case = Case::new(OpKind::Concat { axis }, parts, dtype, shape.clone());
                let got = case.run(|launch, _| super::prepare_concat(launch, axis)).unwrap();
                assert_close(&format!("concat {dtype} {extents:?} along {axis}"), &got, &expected, 0.0);
            }
        }
    }
}

fn region_launch(start: [i32; 2]) -> (Launch, Vec<Vec<u32>>) {
    let mut random = Random(3);
    let value = Tensor::contiguous(&mut random, DType::F32, &Shape::from([2, 3]));
    let scalar = |v: i32| Tensor::of_bits(DType::I32, Shape::scalar(), [v as u32]);
    let mut case = Case::new(
        OpKind::DynamicUpdateSlice,
        vec![value, scalar(start[0]), scalar(start[1])],
        DType::F32,
        [4, 5],
    )
    .launch();
    case.kernel = Kernel::WriteRegion;
    // The target is in column-major order, from element 1 on.
    case.writes[0].layout = Layout { offset: 1, shape: [4, 5].into(), strides: vec![1, 4] };
    let data =
        vec![(1..=6).map(|v| (v as f32).to_bits()).collect(), vec![start[0] as u32], vec![start[1] as u32]];
    (case, data)
}

fn write_region(start: [i32; 2]) -> Result<Vec<f32>, String> {
    let (launch, data) = region_launch(start);
    let kernel: Box<dyn Prepared> = crate::index::prepare_write_region(&launch);
    let mut target = vec![0f32; 21];
    let reads: Vec<*const u8> = data.iter().map(|words| words.as_ptr().cast()).collect();
    let pool = Pool::new(2);
    let call = Call {
        pool: &pool,
        reads: &reads,
        writes: &[target.as_mut_ptr().cast()],
        scratch: std::ptr::null_mut(),
    };
    kernel.run(&call).map_err(|trap| trap.message)?;
    Ok(target)
}

#[test]
fn a_region_is_written_where_the_scalars_say() {
    for start in [[0, 0], [2, 2], [1, 0]] {
        let mut expected = vec![0f32; 21];
        for (i, j) in (0..2).flat_map(|i| (0..3).map(move |j| (i, j))) {
            let (row, column) = (start[0] as usize + i, start[1] as usize + j);
            expected[1 + row + 4 * column] = (1 + 3 * i + j) as f32;
        }
        assert_eq!(write_region(start).unwrap(), expected);
    }
}

#[test]
fn a_region_out_of_range_traps() {
    for (start, axis, last) in [([-1, 0], 0, 2), ([3, 0], 0, 2), ([0, 3], 1, 2), ([i32::MIN, 9], 0, 2)] {
        let message = write_region(start).unwrap_err();
        let expected = format!("write_region: start {} on axis {axis} is out of range", start[axis]);
        assert!(message.starts_with(&expected) && message.ends_with(&format!("0..={last}")), "{message}");
    }
}
