//! What the ways to bind buffers cost (`docs/webgpu-experiments.md`).
//!
//! Each workload is a list of launches over values; a layout says where values live and how a shader reaches
//! them. The arithmetic is the same text in all of them.

use crate::device::Device;
use gradloom_codegen::cpu::{DotProblem, MatrixView};
use gradloom_codegen::wgsl::dot::{Choice, DotKernel, Epilogue, Operand, Scalar, choose, generate};
use std::time::Duration;

/// How values are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// One buffer; every value of a launch is a binding of its own, `read_write`, over its range.
    Arena,
    /// Two buffers, of which a launch reads one (`read`) and writes the other.
    Pool,
    /// Eight buffers, four of which are read and four written, in turn.
    Pools,
    /// A buffer for each value; inputs are `read`.
    Buffers,
    /// One buffer, bound once as a whole; offsets come from a uniform.
    Whole,
    /// As before, with the offsets of each launch at a dynamic offset of one uniform buffer, and the group of
    /// the arena set once.
    WholeOnce,
}

const LAYOUTS: [(Layout, &str); 6] = [
    (Layout::Arena, "A arena"),
    (Layout::Pool, "B pool of 2"),
    (Layout::Pools, "B pool of 8"),
    (Layout::Buffers, "B a buffer each"),
    (Layout::Whole, "C whole"),
    (Layout::WholeOnce, "C whole, dynamic"),
];

impl Layout {
    fn whole(self) -> bool {
        matches!(self, Self::Whole | Self::WholeOnce)
    }

    /// Declarations of the values of a launch, the last of which is written; all are arrays of `vec4<f32>`.
    fn declare(self, values: usize) -> String {
        if self.whole() {
            return "@group(0) @binding(0) var<storage, read_write> arena: array<vec4<f32>>;\n\
                    @group(1) @binding(0) var<uniform> offsets: vec4<u32>;\n"
                .into();
        }
        let access = |i: usize| match self {
            Self::Arena => "read_write",
            _ if i + 1 == values => "read_write",
            _ => "read",
        };
        (0..values)
            .map(|i| format!("@group(0) @binding({i}) var<storage, {}> x{i}: array<vec4<f32>>;\n", access(i)))
            .collect()
    }

    /// Item `index` of value `i`.
    fn item(self, i: usize, index: &str) -> String {
        match self.whole() {
            true => format!("arena[offsets[{i}] + ({index})]"),
            false => format!("x{i}[{index}]"),
        }
    }
}

/// A launch: which shader, over which values (the last is written).
struct Launch {
    shader: usize,
    values: Vec<usize>,
}

/// Shaders, values and launches.
struct Workload {
    name: String,
    /// Source and workgroups of each shader, for a layout.
    shaders: Vec<Shader>,
    /// Size of each value in items of 16 bytes, and which buffer of two it is in.
    values: Vec<(u64, usize)>,
    launches: Vec<Launch>,
}

struct Shader {
    source: Box<dyn Fn(Layout) -> String>,
    values: usize,
    workgroups: [u32; 3],
}

/// `y = 1.0001·x + 0.5` over items.
fn map(items: u64) -> Shader {
    let groups = items.div_ceil(256);
    let x = groups.min(65_535);
    Shader {
        source: Box::new(move |layout| {
            format!(
                "{}@compute @workgroup_size(256)\nfn main(@builtin(workgroup_id) w: vec3<u32>, \
                 @builtin(local_invocation_index) t: u32) {{\n\
                 let i = (w.x + w.y * {x}u) * 256u + t;\nif (i >= {items}u) {{ return; }}\n\
                 {} = fma({}, vec4<f32>(1.0001), vec4<f32>(0.5));\n}}\n",
                layout.declare(2),
                layout.item(1, "i"),
                layout.item(0, "i")
            )
        }),
        values: 2,
        workgroups: [x as u32, groups.div_ceil(x) as u32, 1],
    }
}

/// LayerNorm of rows of `items`·4 numbers, a workgroup a row.
fn layer_norm(rows: u32, items: u32) -> Shader {
    let source = move |layout: Layout| {
        format!(
            "{}var<workgroup> sums: array<vec2<f32>, 64>;\n\
             @compute @workgroup_size(64)\nfn main(@builtin(workgroup_id) w: vec3<u32>, \
             @builtin(local_invocation_index) t: u32) {{\n\
             let first = w.x * {items}u;\nvar sum = vec2<f32>();\n\
             for (var i = t; i < {items}u; i += 64u) {{ let x = {}; sum += vec2<f32>(dot(x, vec4<f32>(1.0)), \
             dot(x, x)); }}\n\
             sums[t] = sum;\nworkgroupBarrier();\n\
             for (var s = 32u; s > 0u; s >>= 1u) {{ if (t < s) {{ sums[t] += sums[t + s]; }} \
             workgroupBarrier(); }}\n\
             let mean = sums[0].x / {n:.1};\nlet scale = inverseSqrt(sums[0].y / {n:.1} - mean * mean + \
             1e-5);\n\
             for (var i = t; i < {items}u; i += 64u) {{ {} = ({} - mean) * scale; }}\n}}\n",
            layout.declare(2),
            layout.item(0, "first + i"),
            layout.item(1, "first + i"),
            layout.item(0, "first + i"),
            n = f64::from(items) * 4.0
        )
    };
    Shader { source: Box::new(source), values: 2, workgroups: [rows, 1, 1] }
}

/// A product of square matrices.
fn product(n: usize, device: &Device) -> Shader {
    let limits = device.limits;
    let view = MatrixView { offset: 0, free_stride: n, contract_stride: 1 };
    let rhs = MatrixView { offset: 0, free_stride: 1, contract_stride: n };
    let problem = DotProblem { batch: Vec::new(), m: n, n, k: n, lhs: view, rhs };
    let shaders = move |layout: Layout| {
        let (lhs, rhs) = (|i: &str| layout.item(0, i), |i: &str| layout.item(1, i));
        let kernel = DotKernel {
            problem: &problem,
            lhs: Operand { scalar: Scalar::F32, lanes: 4, load: &lhs },
            rhs: Operand { scalar: Scalar::F32, lanes: 4, load: &rhs },
            epilogue: Epilogue {
                lanes: 4,
                store: &|writer, element| {
                    let place = layout.item(2, &format!("{} >> 2u", element.index));
                    writer.line(format!("{place} = {};", element.value));
                },
            },
            declarations: &|_| layout.declare(3),
        };
        let choice = Choice { parts: 1, ..choose(&problem, false, &limits) };
        generate(&kernel, &choice, &limits).product
    };
    let workgroups = shaders(Layout::Arena).workgroups;
    Shader { source: Box::new(move |layout| shaders(layout).source), values: 3, workgroups }
}

/// All workloads that the device can hold.
fn workloads(device: &Device) -> Vec<Workload> {
    let small = 64 * 1024 / 4;
    let chain = Workload {
        name: "100 dependent maps of 64 Ki".into(),
        shaders: vec![map(small)],
        values: (0..101).map(|i| (small, i % 2)).collect(),
        launches: (0..100).map(|i| Launch { shader: 0, values: vec![i, i + 1] }).collect(),
    };
    let independent = Workload {
        name: "100 independent maps of 64 Ki".into(),
        shaders: vec![map(small)],
        values: (0..200).map(|i| (small, i % 2)).collect(),
        launches: (0..100).map(|i| Launch { shader: 0, values: vec![2 * i, 2 * i + 1] }).collect(),
    };
    let unary = |name: String, shader: Shader, items: u64| Workload {
        name,
        shaders: vec![shader],
        values: vec![(items, 0), (items, 1)],
        launches: vec![Launch { shader: 0, values: vec![0, 1] }],
    };
    let square = |n: usize| {
        let items = (n * n / 4) as u64;
        Workload {
            name: format!("product {n}^3"),
            shaders: vec![product(n, device)],
            values: vec![(items, 0), (items, 0), (items, 1)],
            launches: vec![Launch { shader: 0, values: vec![0, 1, 2] }],
        }
    };
    let mut all = vec![chain, independent];
    // The whole arena has to fit into one binding.
    let large = if device.limits.software { 8 } else { 64 };
    let items = large * (1 << 20) / 4;
    all.push(unary(format!("map of {large} Mi"), map(items), items));
    let rows = if device.limits.software { 4096 } else { 16384 };
    all.push(unary(format!("LayerNorm {rows} x 768"), layer_norm(rows, 192), u64::from(rows) * 192));
    let sizes: &[usize] = if device.limits.software { &[512] } else { &[1024, 4096] };
    all.extend(sizes.iter().map(|&n| square(n)));
    all
}

/// What a launch needs to be encoded.
struct Encoded {
    pipeline: usize,
    groups: Vec<wgpu::BindGroup>,
    offset: Option<u32>,
    workgroups: [u32; 3],
}

fn group_layout(device: &Device, entries: &[wgpu::BindingType]) -> wgpu::BindGroupLayout {
    let entries: Vec<_> = entries
        .iter()
        .enumerate()
        .map(|(i, &ty)| wgpu::BindGroupLayoutEntry {
            binding: i as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty,
            count: None,
        })
        .collect();
    device
        .device
        .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries })
}

fn binding(ty: wgpu::BufferBindingType, has_dynamic_offset: bool) -> wgpu::BindingType {
    wgpu::BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None }
}

fn group(
    device: &Device,
    layout: &wgpu::BindGroupLayout,
    ranges: &[(&wgpu::Buffer, u64, u64)],
) -> wgpu::BindGroup {
    let entries: Vec<_> = ranges
        .iter()
        .enumerate()
        .map(|(i, &(buffer, offset, size))| wgpu::BindGroupEntry {
            binding: i as u32,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer,
                offset,
                size: std::num::NonZeroU64::new(size),
            }),
        })
        .collect();
    device.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
}

/// Places the values of a workload: (buffer, offset in bytes) of each, and the buffers.
fn place(device: &Device, layout: Layout, values: &[(u64, usize)]) -> (Vec<(usize, u64)>, Vec<wgpu::Buffer>) {
    let mut sizes: Vec<u64> = Vec::new();
    let mut places = Vec::new();
    for (i, &(items, side)) in values.iter().enumerate() {
        let buffer = match layout {
            Layout::Pool => side,
            Layout::Pools => 4 * side + i / 2 % 4,
            Layout::Buffers => i,
            _ => 0,
        };
        sizes.resize(sizes.len().max(buffer + 1), 0);
        places.push((buffer, sizes[buffer]));
        sizes[buffer] += (items * 16).next_multiple_of(256);
    }
    (places, sizes.into_iter().map(|size| device.buffer(size)).collect())
}

/// Pipelines and bind groups for a workload in a layout.
fn encoded(
    device: &Device,
    workload: &Workload,
    layout: Layout,
) -> (Vec<wgpu::ComputePipeline>, Vec<Encoded>) {
    let (places, buffers) = place(device, layout, &workload.values);
    let group_layouts = |shader: &Shader| -> Vec<wgpu::BindGroupLayout> {
        if layout.whole() {
            let uniform = binding(wgpu::BufferBindingType::Uniform, layout == Layout::WholeOnce);
            return vec![
                group_layout(
                    device,
                    &[binding(wgpu::BufferBindingType::Storage { read_only: false }, false)],
                ),
                group_layout(device, &[uniform]),
            ];
        }
        let reads = |i: usize| layout != Layout::Arena && i + 1 < shader.values;
        let entries: Vec<_> = (0..shader.values)
            .map(|i| binding(wgpu::BufferBindingType::Storage { read_only: reads(i) }, false))
            .collect();
        vec![group_layout(device, &entries)]
    };
    let layouts: Vec<_> = workload.shaders.iter().map(group_layouts).collect();
    let pipelines = workload.shaders.iter().zip(&layouts).map(|(shader, groups)| {
        let groups: Vec<_> = groups.iter().map(Some).collect();
        let layout_of = device.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &groups,
            immediate_size: 0,
        });
        device.pipeline(&(shader.source)(layout), Some(&layout_of)).expect("the shader is valid")
    });
    let pipelines = pipelines.collect();
    // Offsets of every launch in one buffer, 256 bytes apart.
    let offsets: Vec<u8> = workload
        .launches
        .iter()
        .flat_map(|launch| {
            let mut bytes = vec![0u8; 256];
            for (i, &value) in launch.values.iter().enumerate() {
                bytes[4 * i..4 * i + 4].copy_from_slice(&((places[value].1 / 16) as u32).to_le_bytes());
            }
            bytes
        })
        .collect();
    let offsets = device.upload(&offsets);
    let launches = workload.launches.iter().enumerate().map(|(i, launch)| {
        let shader = &workload.shaders[launch.shader];
        let layouts = &layouts[launch.shader];
        let (groups, offset) = if layout.whole() {
            let arena = &buffers[0];
            let whole = group(device, &layouts[0], &[(arena, 0, arena.size())]);
            let once = layout == Layout::WholeOnce;
            let start = if once { 0 } else { 256 * i as u64 };
            let uniform = group(device, &layouts[1], &[(&offsets, start, 16)]);
            (vec![whole, uniform], once.then_some(256 * i as u32))
        } else {
            let ranges: Vec<_> = launch
                .values
                .iter()
                .map(|&v| (&buffers[places[v].0], places[v].1, workload.values[v].0 * 16))
                .collect();
            (vec![group(device, &layouts[0], &ranges)], None)
        };
        Encoded { pipeline: launch.shader, groups, offset, workgroups: shader.workgroups }
    });
    (pipelines, launches.collect())
}

/// Prints the table.
pub(crate) fn run(device: &Device) {
    println!("{:<32} {:<18} {:>10} {:>10} {:>10}", "workload", "layout", "device us", "host us", "wall us");
    for workload in workloads(device) {
        for (layout, name) in LAYOUTS {
            let largest = workload.values.iter().map(|x| x.0 * 16).sum::<u64>();
            if layout.whole() && largest > device.largest_binding() {
                println!("{:<32} {name:<18} the arena is larger than a binding", workload.name);
                continue;
            }
            let (pipelines, launches) = encoded(device, &workload, layout);
            let timing = device.measure(Duration::from_millis(200), 21, |pass| {
                let mut last = None;
                for launch in &launches {
                    if last != Some(launch.pipeline) {
                        pass.set_pipeline(&pipelines[launch.pipeline]);
                    }
                    if launch.offset.is_none() || last.is_none() {
                        pass.set_bind_group(0, &launch.groups[0], &[]);
                    }
                    if let Some(uniform) = launch.groups.get(1) {
                        let offset = launch.offset;
                        pass.set_bind_group(1, uniform, offset.as_slice());
                    }
                    last = Some(launch.pipeline);
                    let [x, y, z] = launch.workgroups;
                    pass.dispatch_workgroups(x, y, z);
                }
            });
            println!(
                "{:<32} {name:<18} {:>10.1} {:>10.1} {:>10.1}",
                workload.name, timing.device, timing.host, timing.wall
            );
        }
    }
}
