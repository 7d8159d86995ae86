//! Matrices with orthonormal rows or columns.

/// Orthonormalizes the rows of a row-major matrix, or its columns if there are fewer of them, and multiplies
/// them by `gain`. Uses Gram-Schmidt twice, in f64. A vector that depends linearly on those before it becomes
/// 0.
pub(super) fn orthonormalise(matrix: &mut [f32], rows: usize, gain: f64) {
    let columns = matrix.len().checked_div(rows).unwrap_or(0);
    let (count, length) = (rows.min(columns), rows.max(columns));
    let place = |vector: usize, i: usize| match rows <= columns {
        true => vector * columns + i,
        false => i * columns + vector,
    };
    let mut done: Vec<Vec<f64>> = Vec::with_capacity(count);
    for vector in 0..count {
        let mut v: Vec<f64> = (0..length).map(|i| matrix[place(vector, i)].into()).collect();
        for _ in 0..2 {
            for other in &done {
                let along: f64 = dot(&v, other);
                v.iter_mut().zip(other).for_each(|(v, other)| *v -= along * other);
            }
        }
        let norm = dot(&v, &v).sqrt();
        v.iter_mut().for_each(|v| *v = if norm > 1e-12 { *v / norm } else { 0.0 });
        for (i, &v) in v.iter().enumerate() {
            matrix[place(vector, i)] = (v * gain) as f32;
        }
        done.push(v);
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b)
}

#[cfg(test)]
mod tests {
    use super::{dot, orthonormalise};
    use gradloom_testing::Random;

    #[test]
    fn rows_or_columns_are_orthonormal() {
        let mut random = Random::new(3);
        for (rows, columns) in [(1, 1), (3, 7), (7, 3), (5, 5), (0, 4), (4, 0)] {
            let mut matrix: Vec<f32> =
                (0..rows * columns).map(|_| random.uniform(-1.0, 1.0) as f32).collect();
            orthonormalise(&mut matrix, rows, 2.0);
            let vector = |n: usize| -> Vec<f64> {
                let at = |i: usize| if rows <= columns { n * columns + i } else { i * columns + n };
                (0..rows.max(columns)).map(|i| matrix[at(i)].into()).collect()
            };
            for a in 0..rows.min(columns) {
                for b in 0..=a {
                    let want = if a == b { 4.0 } else { 0.0 };
                    assert!(
                        (dot(&vector(a), &vector(b)) - want).abs() < 1e-5,
                        "{rows} x {columns}: {a}, {b}"
                    );
                }
            }
        }
    }
}
