//! A device that times dispatches on planned buffers filled with random numbers.

use gradloom_codegen::pipeline::Limits;
use gradloom_codegen::step::STATUS_WORDS;
use gradloom_codegen::wgsl::{Bound, Dispatch, Operands};
use gradloom_core::ir::DType;
use gradloom_core::plan::{Plan, Region, Role};
use std::sync::mpsc;
use wgpu::{Buffer, BufferUsages, Features};

/// Adapter to use, and limits to apply to it.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) adapter: String,
    pub(crate) memory: Option<u32>,
    pub(crate) invocations: Option<u32>,
}

pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) limits: Limits,
    device: wgpu::Device,
    queue: wgpu::Queue,
    queries: wgpu::QuerySet,
    resolved: Buffer,
    mapped: Buffer,
}

/// Buffers of the plan's regions, scratch and status.
pub(crate) struct Memory {
    regions: [(Region, Buffer); 3],
    scratch: Buffer,
    status: Buffer,
}

impl Device {
    pub(crate) fn open(options: &Options) -> Option<Self> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let wanted = options.adapter.to_lowercase();
        let adapter =
            pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all())).into_iter().find(|a| {
                a.features().contains(Features::TIMESTAMP_QUERY)
                    && a.get_info().name.to_lowercase().contains(&wanted)
            })?;
        let descriptor = wgpu::DeviceDescriptor {
            required_features: Features::TIMESTAMP_QUERY,
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let (device, queue) =
            pollster::block_on(adapter.request_device(&descriptor)).expect("it can be opened");
        let has = adapter.limits();
        let limits = Limits {
            invocations: options
                .invocations
                .unwrap_or(has.max_compute_invocations_per_workgroup.min(has.max_compute_workgroup_size_x)),
            workgroup_memory: options.memory.unwrap_or(has.max_compute_workgroup_storage_size),
            storage_buffers: has.max_storage_buffers_per_shader_stage as usize,
            binding_bytes: has.max_storage_buffer_binding_size,
            software: adapter.get_info().device_type == wgpu::DeviceType::Cpu,
            ..Limits::portable()
        };
        let queries = device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let [resolved, mapped] = [
            BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC,
            BufferUsages::MAP_READ | BufferUsages::COPY_DST,
        ]
        .map(|usage| buffer(&device, 16, usage));
        Some(Self { name: adapter.get_info().name, limits, device, queue, queries, resolved, mapped })
    }

    /// Creates the buffers for a plan. Inputs are random: floats from -1 to 1, integers below `rows`.
    pub(crate) fn memory(&self, plan: &Plan, rows: u32) -> Memory {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST;
        let totals = &plan.totals;
        let regions = [
            (Region::Store, totals.store),
            (Region::Constants, totals.constants),
            (Region::Step, totals.step),
        ]
        .map(|(region, bytes)| (region, buffer(&self.device, bytes, usage)));
        let mut state = 1_u32;
        for input in plan.buffers.iter().filter(|b| b.role == Role::Input && b.region == Region::Step) {
            let words = (0..input.bytes / 4).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                match input.ty.dtype {
                    DType::F32 => ((state >> 8) as f32 / 8_388_608.0 - 1.0).to_bits(),
                    _ => (state >> 8) % rows,
                }
            });
            let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
            self.queue.write_buffer(&regions[2].1, input.offset, &bytes);
        }
        let scratch = buffer(&self.device, totals.workspace, usage);
        Memory { regions, scratch, status: buffer(&self.device, 256, usage) }
    }

    /// Returns the median time of one dispatch in microseconds.
    pub(crate) fn time(
        &self,
        memory: &Memory,
        operands: &Operands,
        dispatch: &Dispatch,
        repeats: u32,
        rounds: usize,
    ) -> f64 {
        let source = wgpu::ShaderSource::Wgsl(dispatch.source.as_str().into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: None, source };
        // SAFETY: the shader accesses only its buffers, and its loops terminate.
        let module = unsafe {
            self.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
        };
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&self.layout(operands, dispatch)),
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        let tables: Vec<Option<Buffer>> = dispatch.bindings.iter().map(|bound| self.table(bound)).collect();
        let entries = dispatch.bindings.iter().enumerate().map(|(i, bound)| {
            let (buffer, range) = match bound {
                Bound::Operand(i) => {
                    let binding = &operands.bindings[*i];
                    let region = memory.regions.iter().find(|(region, _)| *region == binding.region);
                    (&region.expect("all regions are there").1, binding.range.clone())
                }
                Bound::Piece(..) => unreachable!("values of a benchmark fit into bindings"),
                Bound::Workspace(range) => (&memory.scratch, range.clone()),
                Bound::Table(numbers) => {
                    (tables[i].as_ref().expect("it was made"), 0..4 * numbers.len() as u64)
                }
                Bound::Status { .. } => (&memory.status, 0..4 * STATUS_WORDS as u64),
            };
            let size = std::num::NonZeroU64::new((range.end - range.start).next_multiple_of(4));
            let resource = wgpu::BufferBinding { buffer, offset: range.start, size };
            wgpu::BindGroupEntry { binding: i as u32, resource: wgpu::BindingResource::Buffer(resource) }
        });
        let entries = entries.collect::<Vec<_>>();
        let layout = pipeline.get_bind_group_layout(0);
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &entries,
        });
        let mut times: Vec<f64> =
            (0..=rounds).map(|_| self.round(&pipeline, &group, dispatch, repeats)).collect();
        // Drop the first round, which warms up the device.
        times.remove(0);
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    /// Creates the buffer of a table; returns `None` for other bindings.
    fn table(&self, bound: &Bound) -> Option<Buffer> {
        let Bound::Table(numbers) = bound else { return None };
        let table =
            buffer(&self.device, 4 * numbers.len() as u64, BufferUsages::STORAGE | BufferUsages::COPY_DST);
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.queue.write_buffer(&table, 0, &bytes);
        Some(table)
    }

    fn layout(&self, operands: &Operands, dispatch: &Dispatch) -> wgpu::PipelineLayout {
        let entry = |(i, bound): (usize, &Bound)| {
            let writable = match bound {
                Bound::Operand(i) | Bound::Piece(i, _) => operands.bindings[*i].writable,
                Bound::Workspace(_) => true,
                Bound::Table(_) => false,
                Bound::Status { writable } => *writable,
            };
            wgpu::BindGroupLayoutEntry {
                binding: i as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: !writable },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            }
        };
        let entries: Vec<_> = dispatch.bindings.iter().enumerate().map(entry).collect();
        let group = self
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        })
    }

    /// Runs one pass and returns the time of one dispatch in microseconds.
    fn round(
        &self,
        pipeline: &wgpu::ComputePipeline,
        group: &wgpu::BindGroup,
        dispatch: &Dispatch,
        repeats: u32,
    ) -> f64 {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let timestamp_writes = Some(wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        });
        let mut pass =
            encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes });
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, group, &[]);
        for _ in 0..repeats {
            let [x, y, z] = dispatch.workgroups;
            pass.dispatch_workgroups(x, y, z);
        }
        drop(pass);
        encoder.resolve_query_set(&self.queries, 0..2, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.mapped, 0, 16);
        self.queue.submit([encoder.finish()]);
        let (sender, receiver) = mpsc::channel();
        self.mapped.slice(..).map_async(wgpu::MapMode::Read, move |result| {
            sender.send(result).expect("the receiver waits");
        });
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("the device is there");
        receiver.recv().expect("it was called").expect("it can be read");
        let bytes = self.mapped.slice(..).get_mapped_range().expect("it is mapped").to_vec();
        self.mapped.unmap();
        let stamp = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let ticks = stamp(8).saturating_sub(stamp(0)) as f64;
        ticks * f64::from(self.queue.get_timestamp_period()) / 1e3 / f64::from(repeats)
    }
}

fn buffer(device: &wgpu::Device, bytes: u64, usage: BufferUsages) -> Buffer {
    let size = bytes.max(256).next_multiple_of(256);
    device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
}
