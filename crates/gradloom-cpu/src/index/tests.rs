//! Compares gather, scatter and windows with their definitions, for random shapes and layouts, including
//! results that overwrite an operand in place.

use super::*;
use crate::testing::{Case, Random, Tensor, assert_close, rounds};
use gradloom_core::ir::{DType, OpKind, ScatterOp, Shape};
use gradloom_core::kernel::Layout;

const DTYPES: [DType; 4] = [DType::F32, DType::I32, DType::U32, DType::Bool];

fn extents(random: &mut Random, most: usize, choices: &[usize]) -> Vec<usize> {
    (0..random.below(most + 1)).map(|_| choices[random.below(choices.len())]).collect()
}

fn i32s(shape: impl Into<Shape>, values: impl IntoIterator<Item = i32>) -> Tensor {
    Tensor::of_bits(DType::I32, shape, values.into_iter().map(|value| value as u32))
}

/// Extents of a gather: batch, rows, index and row.
struct Shapes {
    batch: Vec<usize>,
    rows: usize,
    index: Vec<usize>,
    row: Vec<usize>,
}

impl Shapes {
    fn random(random: &mut Random) -> Self {
        Self {
            batch: extents(random, 2, &[0, 1, 2, 3, 3]),
            rows: 1 + random.below(9),
            index: extents(random, 2, &[0, 1, 2, 5, 7, 7]),
            row: extents(random, 2, &[1, 2, 3, 17, 80]),
        }
    }

    fn x(&self) -> Shape {
        [&self.batch[..], &[self.rows], &self.row].concat().into()
    }

    fn index(&self) -> Shape {
        [&self.batch[..], &self.index].concat().into()
    }

    fn updates(&self) -> Shape {
        [&self.batch[..], &self.index, &self.row].concat().into()
    }

    /// Returns the row of x that each index selects, numbered over all batches.
    fn named(&self, index: &Tensor) -> Vec<usize> {
        let per_batch: usize = self.index.iter().product();
        let values = index.values();
        (0..values.len()).map(|i| i / per_batch * self.rows + values[i] as usize).collect()
    }

    fn indices(&self, random: &mut Random) -> Tensor {
        let shape = self.index();
        let values: Vec<i32> = (0..shape.elements()).map(|_| random.below(self.rows) as i32).collect();
        i32s(shape, values)
    }
}

#[test]
fn gather_takes_rows() {
    let mut random = Random(21);
    for round in 0..rounds(300) {
        let shapes = Shapes::random(&mut random);
        let dtype = DTYPES[round % 4];
        let x = Tensor::random(&mut random, dtype, &shapes.x());
        let index = shapes.indices(&mut random);
        let (values, row) = (x.values(), shapes.row.iter().product::<usize>());
        let expected: Vec<f64> =
            shapes.named(&index).into_iter().flat_map(|r| values[r * row..(r + 1) * row].to_vec()).collect();
        let batch = shapes.batch.len();
        let case = Case::new(OpKind::Gather { batch }, vec![x, index], dtype, shapes.updates());
        let got = case.run(|launch, _| prepare_gather(launch, batch)).unwrap();
        assert_close(&format!("round {round}"), &got, &expected, 0.0);
    }
}

#[test]
fn scatter_add_adds_in_order_also_in_place() {
    let mut random = Random(22);
    for round in 0..rounds(300) {
        let shapes = Shapes::random(&mut random);
        let dtype = DTYPES[round % 3];
        let in_place = random.below(2) == 0;
        let x = match in_place {
            true => Tensor::contiguous(&mut random, dtype, &shapes.x()),
            false => Tensor::random(&mut random, dtype, &shapes.x()),
        };
        let index = shapes.indices(&mut random);
        let updates = Tensor::random(&mut random, dtype, &shapes.updates());
        let row: usize = shapes.row.iter().product();
        let (mut expected, added) = (x.values(), updates.values());
        for (update, r) in shapes.named(&index).into_iter().enumerate() {
            for c in 0..row {
                let (sum, term) = (&mut expected[r * row + c], added[update * row + c]);
                *sum = match dtype {
                    DType::F32 => f64::from(*sum as f32 + term as f32),
                    DType::I32 => f64::from((*sum as i32).wrapping_add(term as i32)),
                    _ => f64::from((*sum as u32).wrapping_add(term as u32)),
                };
            }
        }
        let batch = shapes.batch.len();
        let kind = OpKind::Scatter { op: ScatterOp::Add, batch };
        let mut case = Case::new(kind, vec![x, index, updates], dtype, shapes.x());
        case.in_place = in_place.then_some(0);
        let got = case.run(|launch, _| prepare_scatter(launch, ScatterOp::Add, batch)).unwrap();
        assert_close(&format!("round {round}"), &got, &expected, 0.0);
    }
}

#[test]
fn large_tables_are_split() {
    let mut random = Random(23);
    // Test long rows (split by columns), short rows (split by rows), and rows longer than a task.
    for (rows, count, row) in [(100, 700, 384), (5000, 40_000, 3), (3, 2, 100_000), (7, 100_000, 1)] {
        let index = i32s([count], (0..count).map(|_| random.below(rows) as i32).collect::<Vec<_>>());
        let updates = Tensor::contiguous(&mut random, DType::U32, &[count, row].into());
        let zeros = Tensor::in_layout(&mut random, DType::U32, Layout::splat(&[rows, row].into()));
        let start = zeros.values()[0] as u32;
        let mut sums = vec![start; rows * row];
        let (numbers, added) = (index.values(), updates.values());
        for (update, number) in numbers.iter().enumerate() {
            for c in 0..row {
                let sum = &mut sums[*number as usize * row + c];
                *sum = sum.wrapping_add(added[update * row + c] as u32);
            }
        }
        let reads = vec![zeros, index.clone(), updates];
        let case =
            Case::new(OpKind::Scatter { op: ScatterOp::Add, batch: 0 }, reads, DType::U32, [rows, row]);
        let got = case.run(|launch, _| prepare_scatter(launch, ScatterOp::Add, 0)).unwrap();
        assert_eq!(got, sums.iter().map(|&s| f64::from(s)).collect::<Vec<_>>());

        let x = Tensor::of_bits(DType::U32, [rows, row], sums.iter().copied());
        let case = Case::new(OpKind::Gather { batch: 0 }, vec![x, index], DType::U32, [count, row]);
        let got = case.run(|launch, _| prepare_gather(launch, 0)).unwrap();
        let expected = numbers.iter().flat_map(|&n| &sums[n as usize * row..][..row]);
        assert!(got.iter().copied().eq(expected.map(|&s| f64::from(s))));
    }
}

#[test]
fn an_index_out_of_range_is_named() {
    let mut random = Random(24);
    for wrong in [-1, 4, i32::MIN, i32::MAX] {
        let index = i32s([2, 3], [0, 3, 1, 2, wrong, wrong]);
        let x = Tensor::contiguous(&mut random, DType::F32, &[4, 5].into());
        let updates = Tensor::contiguous(&mut random, DType::F32, &[2, 3, 5].into());
        let message = format!(
            "index {wrong} at position [1, 1] of the indices is out of range: there are 4 rows (0..4)"
        );
        let reads = vec![x.clone(), index.clone()];
        let case = Case::new(OpKind::Gather { batch: 0 }, reads, DType::F32, [2, 3, 5]);
        assert_eq!(case.run(|launch, _| prepare_gather(launch, 0)).unwrap_err().message, message);
        let case = Case::new(
            OpKind::Scatter { op: ScatterOp::Add, batch: 0 },
            vec![x, index, updates],
            DType::F32,
            [4, 5],
        );
        let trap = case.run(|launch, _| prepare_scatter(launch, ScatterOp::Add, 0)).unwrap_err();
        assert_eq!(trap.message, message);
    }
    // Any index is out of range if there are no rows.
    let x = Tensor::contiguous(&mut random, DType::F32, &[0, 2].into());
    let case = Case::new(OpKind::Gather { batch: 0 }, vec![x, i32s([1], [0])], DType::F32, [1, 2]);
    assert!(case.run(|launch, _| prepare_gather(launch, 0)).unwrap_err().message.contains("0 rows"));
}

/// Returns a shape, the extents of a window, and starts at which the window fits.
fn window(random: &mut Random) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
    let shape: Vec<usize> = (0..random.below(4)).map(|_| random.below(8)).collect();
    let sizes: Vec<usize> = shape.iter().map(|&n| random.below(n + 1)).collect();
    let starts = shape.iter().zip(&sizes).map(|(n, size)| random.below(n - size + 1)).collect();
    (shape, sizes, starts)
}

/// Returns the row-major positions of a window.
fn places(shape: &[usize], sizes: &[usize], starts: &[usize]) -> Vec<usize> {
    let limits: Vec<usize> = starts.iter().zip(sizes).map(|(start, size)| start + size).collect();
    let layout = Layout::contiguous(&shape.into()).slice(starts, &limits, &vec![1; shape.len()]);
    layout.positions().collect()
}

#[test]
fn windows_are_read_and_replaced_at_their_starts() {
    let mut random = Random(25);
    for round in 0..rounds(300) {
        let dtype = DTYPES[round % 4];
        let (shape, sizes, starts) = window(&mut random);
        let in_place = random.below(2) == 0;
        let x = match in_place {
            true => Tensor::contiguous(&mut random, dtype, &shape[..].into()),
            false => Tensor::random(&mut random, dtype, &shape[..].into()),
        };
        let update = Tensor::random(&mut random, dtype, &sizes[..].into());
        let scalars: Vec<Tensor> = starts.iter().map(|&start| i32s([], [start as i32])).collect();
        let places = places(&shape, &sizes, &starts);
        let mut values = x.values();

        let reads = [vec![x.clone()], scalars.clone()].concat();
        let kind = OpKind::DynamicSlice { sizes: sizes.clone() };
        let got = Case::new(kind, reads, dtype, &sizes[..]).run(|launch, _| prepare_dynamic_slice(launch));
        let expected: Vec<f64> = places.iter().map(|&p| values[p]).collect();
        assert_close(&format!("round {round}: slice"), &got.unwrap(), &expected, 0.0);

        let new = update.values();
        places.iter().zip(&new).for_each(|(&p, &value)| values[p] = value);
        let reads = [vec![x, update], scalars].concat();
        let mut case = Case::new(OpKind::DynamicUpdateSlice, reads, dtype, &shape[..]);
        case.in_place = in_place.then_some(0);
        let got = case.run(|launch, _| prepare_dynamic_update_slice(launch)).unwrap();
        assert_close(&format!("round {round}: update"), &got, &values, 0.0);
    }
}

#[test]
fn a_window_that_sticks_out_is_a_trap() {
    let mut random = Random(26);
    let x = Tensor::contiguous(&mut random, DType::F32, &[4, 6].into());
    let update = Tensor::contiguous(&mut random, DType::F32, &[2, 6].into());
    for wrong in [-1, 3, i32::MIN, i32::MAX] {
        let starts = vec![i32s([], [wrong]), i32s([], [0])];
        let message = format!("start {wrong} on axis 0 is out of range: a window of 2 fits into 4 at 0..=2");
        let reads = [vec![x.clone()], starts.clone()].concat();
        let case = Case::new(OpKind::DynamicSlice { sizes: vec![2, 6] }, reads, DType::F32, [2, 6]);
        let trap = case.run(|launch, _| prepare_dynamic_slice(launch)).unwrap_err();
        assert_eq!(trap.message, message);
        let reads = [vec![x.clone(), update.clone()], starts].concat();
        let case = Case::new(OpKind::DynamicUpdateSlice, reads, DType::F32, [4, 6]);
        let trap = case.run(|launch, _| prepare_dynamic_update_slice(launch)).unwrap_err();
        assert_eq!(trap.message, message);
    }
}

#[test]
fn distinct_rows_are_put_and_others_left_out() {
    let mut random = Random(25);
    for in_place in [None, Some(0)] {
        for dtype in DTYPES {
            let index = i32s([5], [2, -1, 4, 0, i32::MAX]);
            let x = Tensor::contiguous(&mut random, dtype, &[4, 3].into());
            let updates = Tensor::contiguous(&mut random, dtype, &[5, 3].into());
            let mut expected = x.values();
            for (update, row) in [(0, 2), (3, 0)] {
                expected[row * 3..][..3].copy_from_slice(&updates.values()[update * 3..][..3]);
            }
            let kind = OpKind::Scatter { op: ScatterOp::Distinct, batch: 0 };
            let mut case = Case::new(kind, vec![x, index, updates], dtype, [4, 3]);
            case.in_place = in_place;
            let got = case.run(|launch, _| prepare_scatter(launch, ScatterOp::Distinct, 0)).unwrap();
            assert_close(&format!("{dtype} {in_place:?}"), &got, &expected, 0.0);
        }
    }
}
