//! Compute pipelines. There is one for each distinct shader, shared by all programs of the device as long as
//! one of them uses it; several are created in parallel.

use super::gpu::Gpu;
use super::pipeline_cache::SavedPipelines;
use gradloom_codegen::wgsl::{Dispatch, Operands, writable};
use gradloom_core::error::{Error, ErrorKind, Result};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, BufferBindingType,
    ComputePipeline, ComputePipelineDescriptor, PipelineLayout, PipelineLayoutDescriptor,
    ShaderModuleDescriptor, ShaderRuntimeChecks, ShaderSource, ShaderStages,
};

/// A compiled shader with the layout of its bindings.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) pipeline: ComputePipeline,
    pub(super) bindings: BindGroupLayout,
}

/// The pipelines of a device, by the source code of their shaders.
#[derive(Debug, Default)]
pub(crate) struct Pipelines {
    /// Pipelines in use by programs.
    made: Mutex<HashMap<String, Weak<Pipeline>>>,
    layouts: Mutex<HashMap<Vec<bool>, (BindGroupLayout, PipelineLayout)>>,
    kept: Option<SavedPipelines>,
}

/// Returns the error for a kernel that the driver or the validation rejects.
pub(super) fn refused(dispatch: &Dispatch, why: &wgpu::Error) -> Error {
    let message = format!("the GPU's driver refuses the kernel `{}`: {why}", dispatch.label);
    Error::new(ErrorKind::Internal, message)
        .note("this is a defect of gradloom or of the driver: please report it with the kernel's text")
        .note(dispatch.source.clone())
}

/// Maximum total number of loop iterations of an invocation in Mesa's llvmpipe, which silently exits loops
/// beyond that (`LP_MAX_TGSI_LOOP_ITERATIONS` of its gallivm).
const LLVMPIPE_TURNS: u64 = 65_535;

fn ended_early(dispatch: &Dispatch) -> Error {
    let message = format!(
        "llvmpipe ends loops after {LLVMPIPE_TURNS} turns, and those of `{}` take {}: results would be wrong",
        dispatch.label, dispatch.turns
    );
    Error::new(ErrorKind::Device, message).help("use the CPU, or a real GPU, which has no such limit")
}

impl Pipelines {
    /// Creates an empty set that uses the given cache.
    pub(super) fn new(kept: Option<SavedPipelines>) -> Self {
        Self { kept, ..Self::default() }
    }

    /// Returns the size in bytes of the driver data found in the cache; `None` if the driver does not support
    /// one.
    pub(super) fn found(&self) -> Option<usize> {
        self.kept.as_ref().map(|kept| kept.found)
    }

    /// Returns the pipelines of shaders, in order.
    ///
    /// # Errors
    /// Returns an error if the driver or the validation rejects a shader, which is a defect of gradloom or
    /// the driver, or a loop exceeds llvmpipe's limit. `origin` adds the position in the user's source.
    pub(super) fn get(
        &self,
        gpu: &Gpu,
        shaders: &[(&Operands, &Dispatch)],
        origin: impl Fn(usize, Error) -> Error,
    ) -> Result<Vec<Arc<Pipeline>>> {
        let mut known: HashMap<&str, Arc<Pipeline>> = HashMap::new();
        let mut missing: Vec<usize> = Vec::new();
        {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            made.retain(|_, pipeline| pipeline.strong_count() > 0);
            let mut seen: HashSet<&str> = HashSet::new();
            for (i, (_, dispatch)) in shaders.iter().enumerate() {
                if seen.insert(&dispatch.source) {
                    match made.get(&dispatch.source).and_then(Weak::upgrade) {
                        Some(pipeline) => drop(known.insert(&dispatch.source, pipeline)),
                        None => missing.push(i),
                    }
                }
            }
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(missing.len().max(1));
        let next = std::sync::atomic::AtomicUsize::new(0);
        let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        let new = Mutex::new(&mut known);
        std::thread::scope(|scope| {
            let make = || {
                while let Some(&i) = missing.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let (operands, dispatch) = shaders[i];
                    match self.make(gpu, operands, dispatch) {
                        Ok(pipeline) => {
                            let mut new = new.lock().unwrap_or_else(PoisonError::into_inner);
                            new.insert(&dispatch.source, Arc::new(pipeline));
                        }
                        Err(error) => {
                            // Report the error of the first shader, regardless of the order in which threads
                            // find errors.
                            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                            if failed.as_ref().is_none_or(|(first, _)| i < *first) {
                                *failed = Some((i, error));
                            }
                            return;
                        }
                    }
                }
            };
            for _ in 1..threads {
                // Ignore a failure to start a thread, after which fewer threads do the work; this one always
                // does.
                let _ = std::thread::Builder::new().spawn_scoped(scope, make);
            }
            make();
        });
        if let Some((i, error)) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(origin(i, error));
        }
        if let Some(kept) = self.kept.as_ref().filter(|_| !missing.is_empty()) {
            kept.save();
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.extend(known.iter().map(|(source, pipeline)| (source.to_string(), Arc::downgrade(pipeline))));
        Ok(shaders.iter().map(|(_, dispatch)| Arc::clone(&known[dispatch.source.as_str()])).collect())
    }

    fn make(&self, gpu: &Gpu, operands: &Operands, dispatch: &Dispatch) -> Result<Pipeline> {
        if gpu.report.name.contains("llvmpipe") && dispatch.turns > LLVMPIPE_TURNS {
            return Err(ended_early(dispatch));
        }
        let (bindings, layout) = self.layout(gpu, writable(operands, dispatch));
        let made = gpu.validated(|| {
            let descriptor = ShaderModuleDescriptor {
                label: Some(&dispatch.label),
                source: ShaderSource::Wgsl(dispatch.source.as_str().into()),
            };
            // SAFETY: kernels access only ranges checked by the plan's verifier, and their loops terminate.
            let module = unsafe {
                gpu.device.create_shader_module_trusted(descriptor, ShaderRuntimeChecks::unchecked())
            };
            gpu.device.create_compute_pipeline(&ComputePipelineDescriptor {
                label: Some(&dispatch.label),
                layout: Some(&layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: self.kept.as_ref().map(|kept| &kept.cache),
            })
        });
        made.map(|pipeline| Pipeline { pipeline, bindings }).map_err(|error| refused(dispatch, &error))
    }

    fn layout(&self, gpu: &Gpu, writable: Vec<bool>) -> (BindGroupLayout, PipelineLayout) {
        let mut layouts = self.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let entry = |(binding, &writable): (usize, &bool)| BindGroupLayoutEntry {
                binding: binding as u32,
                visibility: ShaderStages::COMPUTE,
                ty: BindingType::Buffer {
                    ty: BufferBindingType::Storage { read_only: !writable },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            };
            let entries: Vec<BindGroupLayoutEntry> = writable.iter().enumerate().map(entry).collect();
            let bindings = gpu
                .device
                .create_bind_group_layout(&BindGroupLayoutDescriptor { label: None, entries: &entries });
            let layout = gpu.device.create_pipeline_layout(&PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&bindings)],
                immediate_size: 0,
            });
            (bindings, layout)
        };
        layouts.entry(writable.clone()).or_insert_with(make).clone()
    }
}
