//! An adapter for experiments, with buffers, pipelines, and timing of passes.

use gradloom_codegen::pipeline::Limits;
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// An open device with a queue, and queries for two timestamps.
pub(crate) struct Device {
    pub(crate) adapter: String,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) limits: Limits,
    /// True if shaders may use `f16`.
    pub f16: bool,
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    mapped: wgpu::Buffer,
}

/// Median times over several runs, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Time between the timestamps at the start and the end of the pass.
    pub(crate) device: f64,
    /// Time to encode and submit the pass on the host.
    pub(crate) host: f64,
    /// Time from the start of encoding until the work is done.
    pub(crate) wall: f64,
}

/// Polls a future of native wgpu until it is complete.
fn block<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::yield_now();
    }
}

/// Returns the descriptor of the device to request, with all limits of the adapter and the features that the
/// generated shaders use.
fn description(adapter: &wgpu::Adapter) -> wgpu::DeviceDescriptor<'static> {
    let wanted = wgpu::Features::TIMESTAMP_QUERY
        | wgpu::Features::SHADER_F16
        | wgpu::Features::SUBGROUP
        | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
    wgpu::DeviceDescriptor {
        label: None,
        required_features: adapter.features() & wanted,
        required_limits: adapter.limits(),
        // SAFETY: cooperative matrices are used only as the adapter's properties permit.
        experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
        ..Default::default()
    }
}

/// Returns `true` if the adapter supports 16x16x16 products of `f16` with sums in `f32`.
fn cooperative(adapter: &wgpu::Adapter) -> bool {
    adapter.features().contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
        && adapter.cooperative_matrix_properties().iter().any(|x| {
            (x.m_size, x.n_size, x.k_size) == (16, 16, 16)
                && x.ab_type == wgpu::CooperativeScalarType::F16
                && x.cr_type == wgpu::CooperativeScalarType::F32
        })
}

impl Device {
    /// Opens the first adapter that supports timestamps and whose name contains `name`, if there is one.
    pub(crate) fn open(name: &str) -> Option<Self> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapters = block(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
        let fits = |adapter: &wgpu::Adapter| {
            adapter.get_info().name.to_lowercase().contains(&name.to_lowercase())
                && adapter.features().contains(wgpu::Features::TIMESTAMP_QUERY)
        };
        let adapter = adapters.into_iter().find(fits)?;
        let info = adapter.get_info();
        let (device, queue) = block(adapter.request_device(&description(&adapter))).ok()?;
        let raw = device.limits();
        let subgroup = (info.subgroup_min_size == info.subgroup_max_size
            && device.features().contains(wgpu::Features::SUBGROUP))
        .then_some(info.subgroup_max_size);
        let limits = Limits {
            invocations: raw.max_compute_invocations_per_workgroup.min(raw.max_compute_workgroup_size_x),
            workgroup_memory: raw.max_compute_workgroup_storage_size,
            workgroups: raw.max_compute_workgroups_per_dimension,
            subgroup,
            cooperative: cooperative(&adapter),
            software: info.device_type == wgpu::DeviceType::Cpu,
            scalar: info.name.contains("SwiftShader"),
            ..Limits::portable()
        };
        let buffer = |usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: 16,
                usage,
                mapped_at_creation: false,
            })
        };
        Some(Self {
            adapter: format!("{} ({})", info.name, info.driver_info),
            limits,
            f16: device.features().contains(wgpu::Features::SHADER_F16),
            queries: device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count: 2,
            }),
            resolved: buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC),
            mapped: buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST),
            device,
            queue,
        })
    }

    pub(crate) fn buffer(&self, bytes: u64) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes.next_multiple_of(16).max(16),
            usage: wgpu::BufferUsages::STORAGE
                | wgpu::BufferUsages::UNIFORM
                | wgpu::BufferUsages::COPY_DST
                | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        })
    }

    pub(crate) fn upload(&self, bytes: &[u8]) -> wgpu::Buffer {
        let buffer = self.buffer(bytes.len() as u64);
        self.queue.write_buffer(&buffer, 0, bytes);
        buffer
    }

    pub(crate) fn read(&self, buffer: &wgpu::Buffer, bytes: u64) -> Vec<u8> {
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, bytes);
        self.queue.submit([encoder.finish()]);
        self.mapped(&staging)
    }

    fn mapped(&self, buffer: &wgpu::Buffer) -> Vec<u8> {
        let (send, receive) = mpsc::channel();
        buffer.map_async(wgpu::MapMode::Read, .., move |result| drop(send.send(result)));
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("the device answers");
        receive.recv().expect("the callback ran").expect("the buffer is mapped");
        let bytes = buffer.get_mapped_range(..).expect("the buffer is mapped").to_vec();
        buffer.unmap();
        bytes
    }

    /// Creates a pipeline with the entry point `main` and without run-time checks, or returns the shader's
    /// error.
    pub(crate) fn pipeline(
        &self,
        source: &str,
        layout: Option<&wgpu::PipelineLayout>,
    ) -> Result<wgpu::ComputePipeline, String> {
        let scopes = [wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation]
            .map(|filter| self.device.push_error_scope(filter));
        let description =
            wgpu::ShaderModuleDescriptor { label: None, source: wgpu::ShaderSource::Wgsl(source.into()) };
        // SAFETY: generated shaders access only their operands; the caller is responsible for shaders in
        // files.
        let module = unsafe {
            self.device.create_shader_module_trusted(description, wgpu::ShaderRuntimeChecks::unchecked())
        };
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        // Pop the innermost scope first, as wgpu requires.
        let errors = scopes.into_iter().rev().filter_map(|scope| block(scope.pop()));
        match errors.last() {
            None => Ok(pipeline),
            Some(error) => Err(error.to_string()),
        }
    }

    /// Creates a pipeline, and a bind group of whole, writable buffers as group 0. The shader need not use
    /// all buffers.
    pub(crate) fn bound(
        &self,
        source: &str,
        buffers: &[&wgpu::Buffer],
    ) -> Result<(wgpu::ComputePipeline, wgpu::BindGroup), String> {
        let entry = |i: usize| wgpu::BindGroupLayoutEntry {
            binding: i as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: false },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let layout = self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &(0..buffers.len()).map(entry).collect::<Vec<_>>(),
        });
        let pipeline_layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = self.pipeline(source, Some(&pipeline_layout))?;
        Ok((pipeline, self.group(&layout, buffers)))
    }

    pub(crate) fn group(&self, layout: &wgpu::BindGroupLayout, buffers: &[&wgpu::Buffer]) -> wgpu::BindGroup {
        let resources = buffers.iter().map(|buffer| buffer.as_entire_binding()).enumerate();
        let entries: Vec<_> =
            resources.map(|(i, resource)| wgpu::BindGroupEntry { binding: i as u32, resource }).collect();
        self.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
    }

    /// Times a pass with one submission, after warm-up runs for `warm`, during which clock rates rise.
    pub(crate) fn measure(
        &self,
        warm: Duration,
        runs: usize,
        encode: impl Fn(&mut wgpu::ComputePass<'_>),
    ) -> Timing {
        let mut all: [Vec<f64>; 3] = Default::default();
        let start = Instant::now();
        self.once(&encode);
        while start.elapsed() < warm {
            self.once(&encode);
        }
        for _ in 0..runs {
            let timing = self.once(&encode);
            all[0].push(timing.device);
            all[1].push(timing.host);
            all[2].push(timing.wall);
        }
        let [device, host, wall] = all.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        Timing { device, host, wall }
    }

    fn once(&self, encode: impl Fn(&mut wgpu::ComputePass<'_>)) -> Timing {
        let start = Instant::now();
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set: &self.queries,
                    beginning_of_pass_write_index: Some(0),
                    end_of_pass_write_index: Some(1),
                }),
            });
            encode(&mut pass);
        }
        encoder.resolve_query_set(&self.queries, 0..2, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.mapped, 0, 16);
        self.queue.submit([encoder.finish()]);
        let host = start.elapsed();
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("the device answers");
        let wall = start.elapsed();
        let bytes = self.mapped(&self.mapped);
        let tick = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("8 bytes"));
        Timing {
            device: (tick(1) - tick(0)) as f64 * f64::from(self.queue.get_timestamp_period()) / 1e3,
            host: host.as_secs_f64() * 1e6,
            wall: wall.as_secs_f64() * 1e6,
        }
    }
}
