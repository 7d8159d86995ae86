//! Functions that this backend needs of a CUDA driver: NVIDIA's ([`super::nvidia`]), or, in tests, one that
//! runs nothing and records the calls (`fake.rs`).
//!
//! Handles are plain numbers, so that a driver can be anything. Always holds for the callers: a context is
//! current ([`Driver::enter`]) before anything is asked of it; memory is freed and modules are unloaded only
//! when no work on the device can use them.

use gradloom_codegen::cuda::LibraryProduct;
use std::fmt;

/// The address of a byte on the device, or of one of the host that the device reaches under the same address.
pub(super) type Address = u64;

/// A driver's own number of something.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])* #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)] pub(super) struct $name(pub(super) usize);)+
    };
}

handles! {
    /// A device's context.
    Context,
    /// A queue of work that is done in order.
    Stream,
    /// A point in a stream.
    Event,
    /// Loaded machine code.
    Module,
    /// A kernel of a module.
    Function,
    /// A graph that is being built.
    Graph,
    /// A kernel in a graph.
    Node,
    /// A graph that is ready to be launched.
    GraphExec,
}

/// A call of the driver that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The driver's function.
    pub(super) call: &'static str,
    /// The driver's number of the error.
    pub(super) code: u32,
    /// Message of the driver.
    pub(super) text: String,
}

/// First version, as in [`Driver::version`], in which edges of graphs have data of their own.
pub(super) const EDGE_DATA: i32 = 12_030;

/// The driver's number for missing memory.
pub(super) const OUT_OF_MEMORY: u32 = 2;

impl Failure {
    pub(super) fn is_out_of_memory(&self) -> bool {
        self.code == OUT_OF_MEMORY
    }

    /// Returns whether the device is unusable for the rest of the process: a kernel or the device itself
    /// failed.
    pub(super) fn is_loss(&self) -> bool {
        // CUDA's driver API, "CUresult": deinitialised, ECC, illegal address, launch timeout, context is
        // destroyed, assertion, hardware stack, illegal instruction, misaligned address, invalid address
        // space, invalid program counter, launch failed, and unknown.
        matches!(self.code, 4 | 214 | 219 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 999)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, error {})", self.text, self.call, self.code)
    }
}

pub(super) type Fallible<T> = Result<T, Failure>;

/// A device, as its driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Properties {
    pub(super) name: String,
    /// Compute capability, as (9, 0).
    pub(super) capability: (i32, i32),
    /// Bytes of its memory.
    pub(super) bytes: usize,
    pub(super) multiprocessors: u32,
}

/// A kernel with what it is run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelCall {
    pub(super) function: Function,
    pub(super) blocks: u32,
    pub(super) threads: u32,
    /// Addresses, in the order of the function's parameters.
    pub(super) parameters: Vec<Address>,
}

/// A product of the vendor's library, with what it is run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProductCall {
    pub(super) product: LibraryProduct,
    pub(super) algorithm: Algorithm,
    /// Addresses of the left operand, the right one, the result, and the product's scratch.
    pub(super) addresses: [Address; 4],
}

/// Algorithm of the library for a product, in the library's own encoding.
pub(super) type Algorithm = [u64; 8];

/// Operation of a stream, or node of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Kernel(KernelCall),
    Product(ProductCall),
}

/// The vendor's library of matrix products, opened for a device, whose context is current.
pub(super) trait Products: fmt::Debug + Send + Sync {
    /// Returns the library's version: algorithms of different versions differ.
    fn version(&self) -> usize;
    /// Returns ways to compute a product, at most `most`, best first by the library's own estimate.
    fn algorithms(&self, product: &LibraryProduct, most: usize) -> Fallible<Vec<Algorithm>>;
    /// Computes a product; see [`ProductCall`].
    fn multiply(
        &self,
        product: &LibraryProduct,
        algorithm: &Algorithm,
        addresses: [Address; 4],
        stream: Stream,
    ) -> Fallible<()>;
}

/// A CUDA driver.
pub(super) trait Driver: fmt::Debug + Send + Sync {
    /// Returns the version, as 13000 for 13.0.
    fn version(&self) -> Fallible<i32>;
    fn device_count(&self) -> Fallible<usize>;
    fn properties(&self, device: usize) -> Fallible<Properties>;
    fn retain(&self, device: usize) -> Fallible<Context>;
    fn release(&self, device: usize);
    /// Makes the context current in the calling thread.
    fn enter(&self, context: Context) -> Fallible<()>;
    /// Returns the free bytes of the device's memory.
    fn free_bytes(&self) -> Fallible<usize>;

    fn allocate(&self, bytes: usize) -> Fallible<Address>;
    /// Waits for the device, and frees memory.
    fn free(&self, address: Address);
    /// Allocates memory of the host that the device reads and writes under the same address.
    fn allocate_host(&self, bytes: usize) -> Fallible<Address>;
    fn free_host(&self, address: Address);
    /// Sets bytes to a value.
    fn fill(&self, address: Address, value: u8, bytes: usize, stream: Stream) -> Fallible<()>;
    /// Copies bytes of the host to the device; they may change once this returns.
    fn upload(&self, to: Address, bytes: &[u8], stream: Stream) -> Fallible<()>;
    /// Copies bytes to the host, and returns when they are there.
    fn download(&self, from: Address, into: &mut [u8], stream: Stream) -> Fallible<()>;
    fn copy(&self, from: Address, to: Address, bytes: usize, stream: Stream) -> Fallible<()>;

    fn stream(&self) -> Fallible<Stream>;
    fn destroy_stream(&self, stream: Stream);
    /// Returns a new event; a `timed` one can be compared with others by [`Driver::elapsed`].
    fn event(&self, timed: bool) -> Fallible<Event>;
    fn destroy_event(&self, event: Event);
    fn record(&self, event: Event, stream: Stream) -> Fallible<()>;
    /// Returns whether the device is past an event.
    fn is_done(&self, event: Event) -> Fallible<bool>;
    /// Returns the milliseconds from one timed event to another; the device must be past both.
    fn elapsed(&self, from: Event, to: Event) -> Fallible<f32>;

    /// Returns the library of products for the current context; none if it is missing.
    fn products(&self) -> Option<Box<dyn Products>>;

    fn load(&self, cubin: &[u8]) -> Fallible<Module>;
    fn unload(&self, module: Module);
    fn function(&self, module: Module, name: &str) -> Fallible<Function>;
    fn launch(&self, call: &KernelCall, stream: Stream) -> Fallible<()>;

    fn graph(&self) -> Fallible<Graph>;
    fn destroy_graph(&self, graph: Graph);
    /// Adds a kernel that starts when those before it are done.
    fn add_kernel(&self, graph: Graph, after: &[Node], call: &KernelCall) -> Fallible<Node>;
    /// Adds a kernel that starts when all blocks of the kernel before it let it or are done, and itself waits
    /// for that one to be done. From [`EDGE_DATA`] and compute capability 9.0 on.
    fn add_early_kernel(&self, graph: Graph, after: Node, call: &KernelCall) -> Fallible<Node>;
    /// Captures the operations that `ask` requests of the stream as a graph, instead of executing them.
    fn capture(&self, stream: Stream, ask: &mut dyn FnMut() -> Fallible<()>) -> Fallible<Graph>;
    /// Adds what another graph has, as nodes of this one if it is a sequence of kernels, which starts when
    /// the nodes before it are done. Returns the last node.
    fn add_graph(&self, graph: Graph, after: &[Node], child: Graph) -> Fallible<Node>;
    fn instantiate(&self, graph: Graph) -> Fallible<GraphExec>;
    fn destroy_exec(&self, exec: GraphExec);
    fn launch_graph(&self, exec: GraphExec, stream: Stream) -> Fallible<()>;
}
