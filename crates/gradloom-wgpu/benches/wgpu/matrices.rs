//! Products for the experiments and tests: plain operands, each in its own buffer.

use crate::device::Device;
use gradloom_codegen::pipeline::Precision;
use gradloom_codegen::product::{BatchAxis, DotProblem, MatrixView};
use gradloom_codegen::wgsl::Bound;
use gradloom_codegen::wgsl::tuning::{Alone, Choice, Problem, alone};
use gradloom_core::kernel::ProductChoice;
use gradloom_testing::Random;

/// `batch` products of `[m, k]` and `[k, n]` matrices.
#[derive(Clone, Debug)]
pub(crate) struct Matrices {
    pub(crate) name: String,
    pub(crate) batch: usize,
    /// Extents m, n and k.
    pub(crate) extents: [usize; 3],
    /// True for operands that are stored by columns.
    pub(crate) by_columns: [bool; 2],
    /// Precision, which determines whether operands may be rounded to f16.
    pub(crate) precision: Precision,
}

/// Elements of the operands, and buffers for operands and results.
pub(crate) struct Operands {
    values: [Vec<f32>; 2],
    buffers: [wgpu::Buffer; 2],
    pub(crate) result: wgpu::Buffer,
}

/// Pipelines with their bind groups and numbers of workgroups, in order.
pub(crate) struct Prepared(Vec<(wgpu::ComputePipeline, wgpu::BindGroup, [u32; 3])>);

impl Prepared {
    pub(crate) fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
        for (pipeline, group, [x, y, z]) in &self.0 {
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, group, &[]);
            pass.dispatch_workgroups(*x, *y, *z);
        }
    }
}

/// Returns a number in [-1, 1) that is exactly representable in `f16`.
fn value(i: usize, seed: u64) -> f32 {
    let x = Random(i as u64 ^ (seed << 40)).next();
    ((x >> 33) % 2048) as f32 / 1024.0 - 1.0
}

impl Matrices {
    pub(crate) fn new(
        name: &str,
        batch: usize,
        extents: [usize; 3],
        by_columns: [bool; 2],
        precision: Precision,
    ) -> Self {
        Self { name: name.into(), batch, extents, by_columns, precision }
    }

    pub(crate) fn problem(&self) -> DotProblem {
        let [m, n, k] = self.extents;
        let view = |free: usize, contract: usize, contract_outer: bool| match contract_outer {
            true => MatrixView { offset: 0, free_stride: 1, contract_stride: free },
            false => MatrixView { offset: 0, free_stride: contract, contract_stride: 1 },
        };
        let batch = BatchAxis { extent: self.batch, lhs_stride: m * k, rhs_stride: k * n };
        DotProblem {
            batch: if self.batch > 1 { vec![batch] } else { Vec::new() },
            m,
            n,
            k,
            lhs: view(m, k, self.by_columns[0]),
            rhs: view(n, k, !self.by_columns[1]),
        }
    }

    pub(crate) fn operations(&self) -> f64 {
        let [m, n, k] = self.extents;
        2.0 * (self.batch * m * n * k) as f64
    }

    pub(crate) fn shaders(&self, choice: &ProductChoice, device: &Device) -> Alone {
        alone(&Problem::Product(self.problem()), &Choice::Product(*choice), &device.limits)
    }

    pub(crate) fn operands(&self, device: &Device) -> Operands {
        let [m, n, k] = self.extents;
        let fill = |elements: usize, seed: u64| (0..elements).map(|i| value(i, seed)).collect::<Vec<f32>>();
        let values = [fill(self.batch * m * k, 1), fill(self.batch * k * n, 2)];
        let upload = |values: &Vec<f32>| {
            device.upload(&values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())
        };
        Operands {
            buffers: [upload(&values[0]), upload(&values[1])],
            result: device.buffer(4 * (self.batch * m * n) as u64),
            values,
        }
    }

    /// Creates pipelines and bind groups for the shaders.
    pub(crate) fn prepare(
        &self,
        device: &Device,
        operands: &Operands,
        made: &Alone,
    ) -> Result<Prepared, String> {
        let bounds = || made.dispatches.iter().flat_map(|dispatch| &dispatch.bindings);
        let scratch = bounds().filter_map(|bound| match bound {
            Bound::Workspace(bytes) => Some(bytes.end),
            _ => None,
        });
        let workspace = device.buffer(scratch.max().unwrap_or(0));
        let [lhs, rhs] = &operands.buffers;
        let all = [lhs, rhs, &operands.result];
        let mut stages = Vec::new();
        for dispatch in &made.dispatches {
            let buffer = |bound: &Bound| match bound {
                Bound::Operand(binding) => Ok(all[*binding]),
                Bound::Workspace(_) => Ok(&workspace),
                other => Err(format!("a product binds {other:?}")),
            };
            let buffers: Result<Vec<_>, String> = dispatch.bindings.iter().map(buffer).collect();
            let (pipeline, group) = device.bound(&dispatch.source, &buffers?)?;
            stages.push((pipeline, group, dispatch.workgroups));
        }
        Ok(Prepared(stages))
    }

    /// Returns the maximum error of about `samples` results, compared with sums in f64 and divided by the
    /// square root of the number of summands; infinite if any result is NaN.
    pub(crate) fn error(&self, operands: &Operands, bytes: &[u8], samples: usize) -> f64 {
        let [m, n, k] = self.extents;
        let results: Vec<f32> =
            bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().expect("4 bytes"))).collect();
        if results.iter().any(|x| x.is_nan()) {
            return f64::INFINITY;
        }
        let problem = self.problem();
        let step = (results.len() / samples).max(1);
        // An odd step has no factor in common with extents that are powers of two, so that the samples cover
        // all rows and columns.
        let step = if step > 1 { step | 1 } else { 1 };
        let error = |index: usize| {
            let (batch, row, column) = (index / (m * n), index / n % m, index % n);
            let (lhs, rhs) = problem.batch_offsets(batch);
            let term = |p: usize| {
                let left =
                    operands.values[0][lhs + row * problem.lhs.free_stride + p * problem.lhs.contract_stride];
                let right = operands.values[1]
                    [rhs + column * problem.rhs.free_stride + p * problem.rhs.contract_stride];
                f64::from(left) * f64::from(right)
            };
            (f64::from(results[index]) - (0..k).map(term).sum::<f64>()).abs() / (k as f64).sqrt().max(1.0)
        };
        (0..results.len()).step_by(step).map(error).fold(0.0, f64::max)
    }
}
