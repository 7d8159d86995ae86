//! Interface to a CUDA driver: NVIDIA's ([`super::nvidia`]) or, in tests, one that runs nothing and records
//! the calls (`fake.rs`).
//!
//! Handles are plain numbers, so that any driver can implement the traits. Callers guarantee that a context
//! is current ([`Driver::enter`]) before any other call, and that memory is freed and modules are unloaded
//! only when no work on the device can still use them.

use gradloom_codegen::cuda::LibraryProduct;
use gradloom_core::ir::{CollectiveOp, DType};
use std::fmt;

/// Address of a byte on the device, or in host memory that the device accesses at the same address.
pub(super) type Address = u64;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])* #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)] pub(super) struct $name(pub(super) usize);)+
    };
}

handles! {
    Context,
    /// A queue of work that runs in order.
    Stream,
    /// A point in a stream.
    Event,
    /// Loaded machine code.
    Module,
    Function,
    Graph,
    /// A kernel in a graph.
    Node,
    /// An executable graph.
    GraphExec,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Name of the driver's function.
    pub(super) call: &'static str,
    pub(super) code: u32,
    pub(super) text: String,
}

/// First driver version, as in [`Driver::version`], that supports edge data in graphs.
pub(super) const EDGE_DATA: i32 = 12_030;

/// The driver's error code for insufficient memory.
pub(super) const OUT_OF_MEMORY: u32 = 2;

impl Failure {
    pub(super) fn is_out_of_memory(&self) -> bool {
        self.code == OUT_OF_MEMORY
    }

    /// Returns `true` if the device is unusable for the rest of the process, because a kernel or the device
    /// itself failed.
    pub(super) fn is_loss(&self) -> bool {
        // These codes of "CUresult" in CUDA's driver API mean deinitialized, ECC, illegal address, launch
        // timeout, context is destroyed, assertion, hardware stack, illegal instruction, misaligned address,
        // invalid address space, invalid program counter, launch failed, and unknown.
        matches!(self.code, 4 | 214 | 219 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 999)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, error {})", self.text, self.call, self.code)
    }
}

pub(super) type Fallible<T> = Result<T, Failure>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Properties {
    pub(super) name: String,
    /// Compute capability as (major, minor), such as (9, 0).
    pub(super) capability: (i32, i32),
    /// Size of the device's memory in bytes.
    pub(super) bytes: usize,
    pub(super) multiprocessors: u32,
}

/// A kernel with its launch configuration and parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelCall {
    pub(super) function: Function,
    pub(super) blocks: u32,
    pub(super) threads: u32,
    /// Size of dynamic shared memory, in bytes.
    pub(super) shared: u32,
    /// Parameters, all of them addresses.
    pub(super) parameters: Vec<Address>,
}

/// A product by cuBLASLt with its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProductCall {
    pub(super) product: LibraryProduct,
    pub(super) algorithm: Algorithm,
    /// Addresses of the left operand, the right operand, the result, the scratch, and the bias, which is 0 if
    /// there is none.
    pub(super) addresses: [Address; 5],
}

/// Algorithm of the library for a product, in the library's encoding.
pub(super) type Algorithm = [u64; 8];

/// A collective op by NCCL with its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CollectiveCall {
    pub(super) op: CollectiveOp,
    /// For each operand, the number of elements of the operand or the result, if that is smaller, as NCCL
    /// counts them.
    pub(super) elements: Vec<usize>,
    /// Type of each operand and its result: f32, f16 or bf16.
    pub(super) dtypes: Vec<DType>,
    /// Addresses of the operands.
    pub(super) reads: Vec<Address>,
    /// Addresses of the results.
    pub(super) writes: Vec<Address>,
}

/// An operation of a stream, or a node of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Kernel(KernelCall),
    Product(ProductCall),
    Collective(CollectiveCall),
}

/// cuBLASLt, opened for the device whose context was current.
pub(super) trait Products: fmt::Debug + Send + Sync {
    /// Returns the library's version; algorithms of different versions differ.
    fn version(&self) -> usize;
    /// Returns up to `most` algorithms for a product, in the order of the library's estimate, fastest first.
    fn algorithms(&self, product: &LibraryProduct, most: usize) -> Fallible<Vec<Algorithm>>;
    /// Queues a product on a stream, without waiting. `addresses` are those of [`ProductCall`].
    fn multiply(
        &self,
        product: &LibraryProduct,
        algorithm: &Algorithm,
        addresses: [Address; 5],
        stream: Stream,
    ) -> Fallible<()>;
}

/// Connection between two GPUs, from the fastest kind to the slowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuLink {
    /// A GPU accesses the memory of the other with its own atomic operations: NVLink or NVSwitch.
    NvLink,
    /// A GPU accesses the memory of the other over PCI Express.
    Pcie,
    /// Copies between the GPUs pass through the host's memory.
    Host,
}

impl fmt::Display for GpuLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NvLink => "NVLink",
            Self::Pcie => "PCI Express",
            Self::Host => "the host's memory",
        })
    }
}

/// The connection of a device to those of the other ranks of its world.
pub(super) trait Connection: fmt::Debug + Send + Sync {
    /// Queues a collective op on a stream, without waiting.
    fn queue(&self, call: &CollectiveCall, stream: Stream) -> Fallible<()>;
    /// Returns the error of an earlier op that failed while it ran.
    fn check(&self) -> Fallible<()>;
    /// Ends all queued ops, whose results are then unspecified. The connection must not be used again.
    fn abort(&self);
}

pub(super) trait Driver: fmt::Debug + Send + Sync {
    /// Returns the driver's version, encoded as 13000 for CUDA 13.0.
    fn version(&self) -> Fallible<i32>;
    fn device_count(&self) -> Fallible<usize>;
    fn properties(&self, device: usize) -> Fallible<Properties>;

    /// Returns the connection between two devices.
    fn link(&self, index: usize, other: usize) -> Fallible<GpuLink>;
    fn retain(&self, device: usize) -> Fallible<Context>;
    fn release(&self, device: usize);
    /// Makes the context current in the calling thread.
    fn enter(&self, context: Context) -> Fallible<()>;
    /// Returns the free memory of the device in bytes.
    fn free_bytes(&self) -> Fallible<usize>;

    fn allocate(&self, bytes: usize) -> Fallible<Address>;
    /// Waits for the device and frees memory.
    fn free(&self, address: Address);
    /// Allocates host memory that the device accesses at the same address.
    fn allocate_host(&self, bytes: usize) -> Fallible<Address>;
    fn free_host(&self, address: Address);
    /// Sets each of `bytes` bytes to `value`.
    fn fill(&self, address: Address, value: u8, bytes: usize, stream: Stream) -> Fallible<()>;
    /// Copies bytes from the host to the device; the source can be reused once this returns.
    fn upload(&self, to: Address, bytes: &[u8], stream: Stream) -> Fallible<()>;
    /// Copies bytes to the host and waits for the copy.
    fn download(&self, from: Address, into: &mut [u8], stream: Stream) -> Fallible<()>;
    fn copy(&self, from: Address, to: Address, bytes: usize, stream: Stream) -> Fallible<()>;

    fn stream(&self) -> Fallible<Stream>;
    fn destroy_stream(&self, stream: Stream);
    /// Creates an event; only `timed` ones can be compared by [`Driver::elapsed`].
    fn event(&self, timed: bool) -> Fallible<Event>;
    fn destroy_event(&self, event: Event);
    fn record(&self, event: Event, stream: Stream) -> Fallible<()>;
    /// Returns `true` if the device has reached the event.
    fn is_done(&self, event: Event) -> Fallible<bool>;
    /// Returns the time between two timed events in milliseconds. The device must have reached both.
    fn elapsed(&self, from: Event, to: Event) -> Fallible<f32>;

    /// Opens cuBLASLt for the current context; returns `None` if it is missing.
    fn products(&self) -> Option<Box<dyn Products>>;

    /// Returns the bytes with which the ranks of a world connect their devices.
    fn unique_id(&self) -> Fallible<Vec<u8>>;
    /// Connects the device of the current context to those of the other ranks; waits for them.
    fn connect(&self, id: &[u8], rank: usize, ranks: usize) -> Fallible<Box<dyn Connection>>;

    fn load(&self, cubin: &[u8]) -> Fallible<Module>;
    fn unload(&self, module: Module);
    fn function(&self, module: Module, name: &str) -> Fallible<Function>;
    /// Allows launches of a function with this many bytes of shared memory, which may exceed 48 KB.
    fn allow_shared(&self, function: Function, bytes: u32) -> Fallible<()>;
    fn launch(&self, call: &KernelCall, stream: Stream) -> Fallible<()>;

    fn graph(&self) -> Fallible<Graph>;
    fn destroy_graph(&self, graph: Graph);
    /// Adds a kernel that starts when the nodes in `after` are done.
    fn add_kernel(&self, graph: Graph, after: &[Node], call: &KernelCall) -> Fallible<Node>;
    /// Adds a kernel that may start once all blocks of `after` have triggered it or ended. The kernel's own
    /// code must wait until `after` is done before it uses the results of `after`. Requires [`EDGE_DATA`] and
    /// compute capability 9.0.
    fn add_early_kernel(&self, graph: Graph, after: Node, call: &KernelCall) -> Fallible<Node>;
    /// Captures the operations that `ask` submits to the stream as a graph, instead of executing them.
    fn capture(&self, stream: Stream, ask: &mut dyn FnMut() -> Fallible<()>) -> Fallible<Graph>;
    /// Adds the content of `child`, which starts when the nodes in `after` are done. A sequence of kernels is
    /// added as nodes of this graph, anything else as a child graph. Returns the last node.
    fn add_graph(&self, graph: Graph, after: &[Node], child: Graph) -> Fallible<Node>;
    fn instantiate(&self, graph: Graph) -> Fallible<GraphExec>;
    fn destroy_exec(&self, exec: GraphExec);
    fn launch_graph(&self, exec: GraphExec, stream: Stream) -> Fallible<()>;
}
