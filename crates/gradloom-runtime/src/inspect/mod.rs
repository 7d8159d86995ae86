//! Inspection of a compiled program: its stages, launches and memory as text, JSON, and a page.
//!
//! In: a program, with the graphs that it was made of where they are kept. Out: an [`Inspection`]. Nothing is
//! run.

mod browser;
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

/// Structure of a program: [`Train::inspect`](crate::Train::inspect) and
/// [`Infer::inspect`](crate::Infer::inspect) make one, on any device.
///
/// `Display` prints, as `gradloom inspect` does, how large the graph is after each stage, how long the
/// stages took, how many launches there are, and what is in memory.
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
    /// In the order in which they were made.
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

    /// Returns the launches and the buffers, with names and places. Its `Display` lists them; its
    /// [`to_json`](PlanView::to_json) has all of them, for tools.
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

    /// Returns the graphs that a step replays, of a program for CUDA: their nodes and edges, and what the
    /// host runs between them, with the reason. None on devices that replay no graphs.
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

    /// Returns the text of each kernel, in the order in which they run, with the number of its launch in
    /// [`Inspection::plan`]: CUDA C, WGSL, or, for the processor, the instructions of its loops over tiles.
    /// On a GPU whose buffers are too small for the plan's memory, what runs is cut into more kernels.
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
    /// When a kernel cannot run on the device.
    pub fn kernels(&self) -> Result<Vec<Text>> {
        let target = self.program.device().target();
        target.emit(self.program.graph(), self.program.plan())
    }

    /// Returns the kernels of a program for a GPU in the language that all GPUs share, before they are
    /// printed as WGSL or CUDA C; none for a CPU.
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
    /// When a kernel cannot run on the device.
    pub fn common_kernels(&self) -> Result<Vec<Text>> {
        let target = self.program.backend().target().in_precision(self.program.device().precision());
        target.kernels(self.program.graph(), self.program.plan())
    }

    /// Returns the information that `Display` prints, as one JSON object on one line: `stages`, `times`,
    /// `passes`, `operations`, the numbers of launches and bytes, and for a CUDA program its `replay`. Keys
    /// are added, never renamed. [`Inspection::plan`] has the JSON of the plan.
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

    /// Returns the plan as an HTML page: launches, buffers, and the memory over time. The page needs no
    /// other files.
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
    /// When the file cannot be written.
    pub fn write_html(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        regular_file::write(path, self.to_html().as_bytes())
            .map_err(|error| unwritable(&path.display().to_string(), &error))
    }

    /// Writes the page to a new file in the folder for temporary files, and shows it in the user's browser.
    /// Returns the file's path.
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
    /// When the file cannot be written, or no browser can be opened: the message has the path of the file,
    /// which stays.
    pub fn open_html(&self) -> Result<PathBuf> {
        let path = browser::write(self.to_html().as_bytes())?;
        browser::show(browser::command(), &path)?;
        Ok(path)
    }
}
