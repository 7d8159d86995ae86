//! Inspects a compiled program: its stages, launches and memory as text, JSON, and an HTML page.
//!
//! In: a program, with the graphs of its stages if they are kept. Out: an [`Inspection`]. Nothing is run.

mod browser;
mod network;
mod page;
mod summary;

use crate::program::Program;
use gradloom_codegen::cuda::Replay;
use gradloom_codegen::pipeline::{StageTime, Stages, Text};
use gradloom_core::error::Result;
use gradloom_core::ir::Graph;
use gradloom_core::passes::PassReport;
use gradloom_core::plan::PlanView;
use gradloom_device::regular_file;
use gradloom_device::regular_file::unwritable;
use std::path::{Path, PathBuf};

/// Structure of a program, created by [`Train::inspect`](crate::Train::inspect) and
/// [`Infer::inspect`](crate::Infer::inspect), on any device.
///
/// `Display` prints, as `gradloom inspect` does, the size of the graph after each stage, the time of each
/// stage, the number of launches, and the contents of memory.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
/// use gradloom::{nn::Linear, optim::Sgd, trace::f32};
/// use gradloom::{Device, Trainer};
///
/// let train = Trainer::new(Linear::new(8, 2))
///     .inputs([f32("x", [4, 8])])
///     .loss(|layer, [x]| layer.forward(x).square().mean())
///     .optimizer(Sgd::new(0.1))
///     .compile(&Device::null())?;
/// let inspection = train.inspect();
/// assert!(inspection.to_string().starts_with("stage      ops"));
/// assert!(inspection.plan().to_string().starts_with(&format!("{} launches", train.plan().launches.len())));
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Inspection<'p> {
    title: String,
    program: &'p Program,
    /// Graphs after each stage, in the order of the stages.
    graphs: Vec<(&'static str, &'p Graph)>,
    times: &'p [StageTime],
    reports: &'p [PassReport],
}

impl<'p> Inspection<'p> {
    pub(crate) fn of_training(program: &'p Program, stages: &'p Stages) -> Self {
        let Stages { trace, grad, optim, passes, times, reports, .. } = stages;
        let graphs = vec![("trace", trace), ("grad", grad), ("optim", optim), ("passes", passes)];
        Self { title: "a training step".to_string(), program, graphs, times, reports }
    }

    pub(crate) fn of_forward(program: &'p Program) -> Self {
        let (graphs, times) = (vec![("passes", program.graph())], &program.stages().times);
        Self { title: "a forward program".to_string(), program, graphs, times, reports: &[] }
    }

    /// Sets the title of the page.
    #[must_use]
    pub fn titled(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    /// Returns a view of the launches and buffers, with their names and source locations. `Display` lists the
    /// most important ones; [`to_json`](PlanView::to_json) returns all of them, for tools.
    ///
    /// ```
    /// # use gradloom_core::{nn::Linear, trace::f32};
    /// # use gradloom_runtime::{Device, Session};
    /// let session = Session::new(Linear::new(8, 2), &Device::null(), 0)?;
    /// let infer = session.infer([f32("x", [4, 8])], |layer, [x]| layer.forward(x).relu())?;
    /// let inspection = infer.inspect();
    /// let plan = inspection.plan();
    /// assert_eq!(plan.launch(0).name(), "dot [4 x 2] with epilogue");
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn plan(&self) -> PlanView<'p> {
        self.program.plan().view(self.program.graph())
    }

    /// Returns the graphs that a step of a CUDA program replays: their nodes and edges, and the operations
    /// that the host runs between them, with the reasons. Returns `None` for devices that replay no graphs.
    ///
    /// ```
    /// # use gradloom_core::{nn::Linear, trace::f32};
    /// # use gradloom_runtime::{Device, Limits, Precision, Session};
    /// # use gradloom_runtime::pipeline::Target;
    /// let device = Device::null_for(Target::cuda(Limits::cuda(), Precision::F32));
    /// let session = Session::new(Linear::new(8, 2), &device, 0)?;
    /// let infer = session.infer([f32("x", [4, 8])], |layer, [x]| layer.forward(x).relu())?;
    /// let replay = infer.inspect().replay().expect("it is for CUDA");
    /// // The data of the step, the layer, the results.
    /// assert_eq!((replay.shapes()[0].nodes, replay.covered()), (3, 1));
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn replay(&self) -> Option<Replay> {
        self.program.replay()
    }

    /// Returns the source of each kernel, in launch order, with the index of its launch in
    /// [`Inspection::plan`]: CUDA C, WGSL, or, for the CPU, the instructions of its loops over tiles. On a
    /// GPU whose buffers are smaller than the plan's memory, the program that runs is split into more
    /// kernels.
    ///
    /// ```
    /// # use gradloom_core::{nn::Linear, trace::f32};
    /// # use gradloom_runtime::{Device, Limits, Precision, Session};
    /// # use gradloom_runtime::pipeline::Target;
    /// # let device = Device::null_for(Target::cuda(Limits::cuda(), Precision::F32));
    /// # let session = Session::new(Linear::new(8, 2), &device, 0)?;
    /// # let infer = session.infer([f32("x", [4, 8])], |layer, [x]| layer.forward(x).relu())?;
    /// let kernels = infer.inspect().kernels()?;
    /// assert_eq!((kernels.len(), kernels[0].launch), (1, 0));
    /// assert!(kernels[0].source.contains("__global__"));
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if a kernel cannot run on the device.
    pub fn kernels(&self) -> Result<Vec<Text>> {
        let target = self.program.device().target();
        target.emit(self.program.graph(), self.program.plan())
    }

    /// Returns the kernels of a GPU program in the common kernel language, before they are printed as WGSL or
    /// CUDA C; empty for a CPU.
    ///
    /// ```
    /// # use gradloom_core::{nn::Linear, trace::f32};
    /// # use gradloom_runtime::{Device, Limits, Precision, Session};
    /// # use gradloom_runtime::pipeline::Target;
    /// # let device = Device::null_for(Target::cuda(Limits::cuda(), Precision::F32));
    /// # let session = Session::new(Linear::new(8, 2), &device, 0)?;
    /// # let infer = session.infer([f32("x", [4, 8])], |layer, [x]| layer.forward(x).relu())?;
    /// assert!(infer.inspect().common_kernels()?[0].source.starts_with("kernel \"dot"));
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if a kernel cannot run on the device.
    pub fn common_kernels(&self) -> Result<Vec<Text>> {
        let target = self.program.backend().target().in_precision(self.program.device().precision());
        target.kernels(self.program.graph(), self.program.plan())
    }

    /// Returns the information that `Display` prints as one JSON object on one line: `stages`, `times`,
    /// `passes`, `operations`, the numbers of launches and bytes, and `replay` for a CUDA program. Keys may
    /// be added, but are never renamed. [`PlanView::to_json`] returns the plan.
    ///
    /// ```
    /// # use gradloom_core::{nn::Linear, trace::f32};
    /// # use gradloom_runtime::{Device, Session};
    /// # let session = Session::new(Linear::new(8, 2), &Device::null(), 0)?;
    /// # let infer = session.infer([f32("x", [4, 8])], |layer, [x]| layer.forward(x).relu())?;
    /// assert!(infer.inspect().to_json().contains("\"launches\":1,"));
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        summary::json(self)
    }

    /// Returns the plan as an HTML page: launches, buffers, and memory over time. The page is self-contained.
    ///
    /// ```
    /// # use gradloom_core::{nn::Linear, trace::f32};
    /// # use gradloom_runtime::{Device, Session};
    /// # let session = Session::new(Linear::new(8, 2), &Device::null(), 0)?;
    /// # let infer = session.infer([f32("x", [4, 8])], |layer, [x]| layer.forward(x).relu())?;
    /// let page = infer.inspect().titled("my classifier").to_html();
    /// assert!(page.contains("<title>my classifier</title>"));
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn to_html(&self) -> String {
        page::page(&self.title, &self.plan().to_json())
    }

    /// Writes the page to a file.
    ///
    /// ```no_run
    /// # use gradloom_core::{nn::Linear, trace::f32};
    /// # use gradloom_runtime::{Device, Session};
    /// # let session = Session::new(Linear::new(8, 2), &Device::null(), 0)?;
    /// # let infer = session.infer([f32("x", [4, 8])], |layer, [x]| layer.forward(x).relu())?;
    /// infer.inspect().write_html("plan.html")?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write_html(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        regular_file::write(path, self.to_html().as_bytes())
            .map_err(|error| unwritable(&path.display().to_string(), &error))
    }

    /// Writes the page to a new file in the folder for temporary files, opens it in the user's browser, and
    /// returns its path.
    ///
    /// ```no_run
    /// # use gradloom_core::{nn::Linear, trace::f32};
    /// # use gradloom_runtime::{Device, Session};
    /// # let session = Session::new(Linear::new(8, 2), &Device::null(), 0)?;
    /// # let infer = session.infer([f32("x", [4, 8])], |layer, [x]| layer.forward(x).relu())?;
    /// infer.inspect().open_html()?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or if no browser can be opened. In the latter case the
    /// file is kept, and the message contains its path.
    pub fn open_html(&self) -> Result<PathBuf> {
        let path = browser::write(self.to_html().as_bytes())?;
        browser::show(browser::command(), &path)?;
        Ok(path)
    }
}
