//! Products as the experiments and the tests run them: plain operands, each in a buffer of its own.

use crate::device::Device;
use gradloom_codegen::cpu::{BatchAxis, DotProblem, MatrixView};
use gradloom_codegen::wgsl::Shader;
use gradloom_codegen::wgsl::dot::{
    Choice, DotKernel, DotShaders, Element, Epilogue, Operand, Scalar, Stage, generate, lanes, workspace_item,
};

/// `batch` products of `[m, k]` and `[k, n]` matrices.
#[derive(Clone, Debug)]
pub(crate) struct Matrices {
    pub(crate) name: String,
    pub(crate) batch: usize,
    /// m, n and k.
    pub(crate) extents: [usize; 3],
    /// Whether the operands are stored by columns.
    pub(crate) by_columns: [bool; 2],
    pub(crate) scalar: Scalar,
}

/// The operands' elements and the results' places.
pub(crate) struct Operands {
    values: [Vec<f32>; 2],
    buffers: [wgpu::Buffer; 2],
    pub(crate) result: wgpu::Buffer,
}

/// Pipelines with their bind groups and dispatches, in order.
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

/// WGSL's name of an item.
fn item(scalar: Scalar, lanes: u32) -> &'static str {
    match (scalar, lanes) {
        (Scalar::F32, 1) => "f32",
        (Scalar::F32, _) => "vec4<f32>",
        (Scalar::F16, 1) => "f16",
        (Scalar::F16, _) => "vec4<f16>",
    }
}

/// A number in [-1, 1) that `f16` has too.
fn value(i: usize, seed: u64) -> f32 {
    let mut x = (i as u64 ^ (seed << 40)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x >> 33) % 2048) as f32 / 1024.0 - 1.0
}

/// Bits of an `f16`, of a number that it has: a multiple of 1/1024 in [-1, 1].
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    if value == 0.0 {
        return sign;
    }
    let exponent = ((bits >> 23) & 0xff) as u16 - 112;
    sign | (exponent << 10) | ((bits >> 13) & 0x3ff) as u16
}

impl Matrices {
    pub(crate) fn new(
        name: &str,
        batch: usize,
        extents: [usize; 3],
        by_columns: [bool; 2],
        scalar: Scalar,
    ) -> Self {
        Self { name: name.into(), batch, extents, by_columns, scalar }
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

    /// Floating-point operations.
    pub(crate) fn operations(&self) -> f64 {
        let [m, n, k] = self.extents;
        2.0 * (self.batch * m * n * k) as f64
    }

    /// The shaders of a choice; the epilogue stores what it is given.
    pub(crate) fn shaders(&self, choice: &Choice, device: &Device) -> DotShaders {
        let problem = self.problem();
        let items = lanes(&problem, &device.limits);
        let (lhs, rhs) = (|i: &str| format!("lhs[{i}]"), |i: &str| format!("rhs[{i}]"));
        let result_lanes = if problem.n.is_multiple_of(4) && !device.limits.scalar { 4 } else { 1 };
        let result = item(Scalar::F32, result_lanes);
        let declarations = |stage: Stage| {
            let array = |binding: u32, name: &str, access: &str, item: &str| {
                format!("@group(0) @binding({binding}) var<storage, {access}> {name}: array<{item}>;\n")
            };
            let operands = array(0, "lhs", "read", item(self.scalar, items[0]))
                + &array(1, "rhs", "read", item(self.scalar, items[1]));
            match stage {
                Stage::Whole => operands + &array(2, "result", "read_write", result),
                Stage::Parts => operands + &array(2, "workspace", "read_write", workspace_item(&problem)),
                Stage::Sum => {
                    array(0, "workspace", "read", workspace_item(&problem))
                        + &array(1, "result", "read_write", result)
                }
            }
        };
        let kernel = DotKernel {
            problem: &problem,
            lhs: Operand { scalar: self.scalar, lanes: items[0], load: &lhs },
            rhs: Operand { scalar: self.scalar, lanes: items[1], load: &rhs },
            epilogue: Epilogue {
                lanes: result_lanes,
                store: &|writer, element: &Element<'_>| {
                    writer.line(format!("result[{} / {result_lanes}u] = {};", element.index, element.value));
                },
            },
            declarations: &declarations,
        };
        generate(&kernel, choice, &device.limits)
    }

    pub(crate) fn operands(&self, device: &Device) -> Operands {
        let [m, n, k] = self.extents;
        let fill = |elements: usize, seed: u64| (0..elements).map(|i| value(i, seed)).collect::<Vec<f32>>();
        let values = [fill(self.batch * m * k, 1), fill(self.batch * k * n, 2)];
        let upload = |values: &Vec<f32>| {
            let bytes: Vec<u8> = match self.scalar {
                Scalar::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
                Scalar::F16 => values.iter().flat_map(|&x| half(x).to_le_bytes()).collect(),
            };
            device.upload(&bytes)
        };
        Operands {
            buffers: [upload(&values[0]), upload(&values[1])],
            result: device.buffer(4 * (self.batch * m * n) as u64),
            values,
        }
    }

    /// Pipelines for the shaders.
    pub(crate) fn prepare(
        &self,
        device: &Device,
        operands: &Operands,
        shaders: &DotShaders,
    ) -> Result<Prepared, String> {
        let workspace = device.buffer(4 * shaders.workspace as u64);
        let [lhs, rhs] = &operands.buffers;
        let first = if shaders.sum.is_some() { &workspace } else { &operands.result };
        let mut stages = Vec::new();
        let mut add = |shader: &Shader, buffers: &[&wgpu::Buffer]| -> Result<(), String> {
            let (pipeline, group) = device.bound(&shader.source, buffers)?;
            stages.push((pipeline, group, shader.workgroups));
            Ok(())
        };
        add(&shaders.product, &[lhs, rhs, first])?;
        if let Some(sum) = &shaders.sum {
            add(sum, &[&workspace, &operands.result])?;
        }
        Ok(Prepared(stages))
    }

    /// The largest error of at most `samples` results against sums in `f64`, over the root of the sum's
    /// length; infinite if any result is not a number.
    pub(crate) fn error(&self, operands: &Operands, bytes: &[u8], samples: usize) -> f64 {
        let [m, n, k] = self.extents;
        let results: Vec<f32> =
            bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().expect("4 bytes"))).collect();
        if results.iter().any(|x| x.is_nan()) {
            return f64::INFINITY;
        }
        let problem = self.problem();
        let step = (results.len() / samples).max(1);
        // A step with no factor in common with the extents meets all rows and columns.
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
