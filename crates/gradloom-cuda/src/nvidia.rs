//! NVIDIA's driver, through the bindings of `cudarc`, which load its library on first use.
//!
//! In: calls of [`Driver`]. Out: the driver's results. Invariant: the only state kept here is the result
//! of the driver's initialization.

use super::cublas::Cublas;
use super::driver::{
    Address, Connection, Context, Driver, EDGE_DATA, Event, Failure, Fallible, Function, GpuLink, Graph,
    GraphExec, KernelCall, Module, Node, Products, Properties, Stream,
};
use super::nccl::{self, Nccl};
use cudarc::driver::sys;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

/// NVIDIA's driver on this machine, initialized.
#[derive(Debug)]
pub(super) struct Nvidia(());

/// Calls a function of the driver. The caller is responsible for valid arguments.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: handles were returned by the driver and not released since, pointers refer to values that
        // live until the call returns, and memory is as large as the call requires; see `Driver`.
        checked(stringify!($name), unsafe { sys::$name($($argument),*) })
    };
}

fn checked(call: &'static str, result: sys::CUresult) -> Fallible<()> {
    if result == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut text = ptr::null();
    // SAFETY: the function only writes a pointer to a static text.
    let known = unsafe { sys::cuGetErrorString(result, &raw mut text) } == sys::CUresult::CUDA_SUCCESS;
    let text = match known && !text.is_null() {
        // SAFETY: the driver's texts are NUL-terminated and live as long as the process.
        true => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        false => "unknown error".to_string(),
    };
    Err(Failure { call, code: result as u32, text })
}

/// Calls a function that writes the pointer of a new object, and returns it as an exposed address.
fn made<T>(make: impl FnOnce(*mut *mut T) -> Fallible<()>) -> Fallible<usize> {
    let mut pointer = ptr::null_mut();
    make(&raw mut pointer)?;
    Ok(pointer.expose_provenance())
}

impl Nvidia {
    /// Initializes the driver; returns `None` if its library is not installed.
    ///
    /// # Errors
    /// Returns an error if initialization fails: there is no device, or the library does not match the kernel
    /// module.
    pub(super) fn open() -> Option<Fallible<Self>> {
        static STATE: OnceLock<Option<Fallible<()>>> = OnceLock::new();
        let state = STATE.get_or_init(|| {
            // SAFETY: the initialization code of NVIDIA's library is sound.
            unsafe { sys::is_culib_present() }.then(|| call!(cuInit(0)))
        });
        state.clone().map(|initialised| initialised.map(|()| Self(())))
    }

    fn attribute(device: c_int, attribute: sys::CUdevice_attribute) -> Fallible<c_int> {
        let mut value = 0;
        call!(cuDeviceGetAttribute(&raw mut value, attribute, device))?;
        Ok(value)
    }

    fn device(index: usize) -> Fallible<c_int> {
        let mut device = 0;
        call!(cuDeviceGet(&raw mut device, c_int::try_from(index).unwrap_or(c_int::MAX)))?;
        Ok(device)
    }
}

/// Returns pointers to a kernel's parameters, the form in which the driver takes them.
fn pointers(call: &KernelCall) -> Vec<*mut c_void> {
    call.parameters.iter().map(|value| ptr::from_ref(value).cast_mut().cast()).collect()
}

impl Driver for Nvidia {
    fn version(&self) -> Fallible<i32> {
        let mut version = 0;
        call!(cuDriverGetVersion(&raw mut version))?;
        Ok(version)
    }

    fn device_count(&self) -> Fallible<usize> {
        let mut count = 0;
        call!(cuDeviceGetCount(&raw mut count))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    fn properties(&self, index: usize) -> Fallible<Properties> {
        use sys::CUdevice_attribute as Attribute;
        let device = Self::device(index)?;
        let mut name = [0; 256];
        call!(cuDeviceGetName(name.as_mut_ptr(), 256, device))?;
        let name: Vec<u8> = name.iter().take_while(|&&c| c != 0).map(|&c| c.cast_unsigned()).collect();
        let mut bytes = 0;
        call!(cuDeviceTotalMem_v2(&raw mut bytes, device))?;
        let major = Self::attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = Self::attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let count = Self::attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        Ok(Properties {
            name: String::from_utf8_lossy(&name).into_owned(),
            capability: (major, minor),
            bytes,
            multiprocessors: u32::try_from(count).unwrap_or(1),
        })
    }

    fn link(&self, index: usize, other: usize) -> Fallible<GpuLink> {
        use sys::CUdevice_P2PAttribute as Attribute;
        let (from, to) = (Self::device(index)?, Self::device(other)?);
        let has = |attribute| -> Fallible<bool> {
            let mut value = 0;
            call!(cuDeviceGetP2PAttribute(&raw mut value, attribute, from, to))?;
            Ok(value != 0)
        };
        Ok(if !has(Attribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED)? {
            GpuLink::Host
        } else if has(Attribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)? {
            GpuLink::NvLink
        } else {
            GpuLink::Pcie
        })
    }

    fn retain(&self, index: usize) -> Fallible<Context> {
        let device = Self::device(index)?;
        made(|to| call!(cuDevicePrimaryCtxRetain(to, device))).map(Context)
    }

    fn release(&self, index: usize) {
        if let Ok(device) = Self::device(index) {
            // Ignore a failure, for which there is no remedy here.
            let _ = call!(cuDevicePrimaryCtxRelease_v2(device));
        }
    }

    fn enter(&self, context: Context) -> Fallible<()> {
        call!(cuCtxSetCurrent(handle(context.0)))
    }

    fn free_bytes(&self) -> Fallible<usize> {
        let (mut free, mut total) = (0, 0);
        call!(cuMemGetInfo_v2(&raw mut free, &raw mut total))?;
        Ok(free)
    }

    fn allocate(&self, bytes: usize) -> Fallible<Address> {
        let mut address = 0;
        call!(cuMemAlloc_v2(&raw mut address, bytes))?;
        Ok(address)
    }

    fn free(&self, address: Address) {
        let _ = call!(cuMemFree_v2(address));
    }

    fn allocate_host(&self, bytes: usize) -> Fallible<Address> {
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        made(|to| call!(cuMemHostAlloc(to, bytes, flags))).map(|address| address as Address)
    }

    fn free_host(&self, address: Address) {
        let _ = call!(cuMemFreeHost(handle(host(address))));
    }

    fn fill(&self, address: Address, value: u8, bytes: usize, stream: Stream) -> Fallible<()> {
        call!(cuMemsetD8Async(address, value, bytes, handle(stream.0)))
    }

    fn upload(&self, to: Address, bytes: &[u8], stream: Stream) -> Fallible<()> {
        call!(cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), handle(stream.0)))
    }

    fn download(&self, from: Address, into: &mut [u8], stream: Stream) -> Fallible<()> {
        call!(cuMemcpyDtoHAsync_v2(into.as_mut_ptr().cast(), from, into.len(), handle(stream.0)))?;
        call!(cuStreamSynchronize(handle(stream.0)))
    }

    fn copy(&self, from: Address, to: Address, bytes: usize, stream: Stream) -> Fallible<()> {
        call!(cuMemcpyDtoDAsync_v2(to, from, bytes, handle(stream.0)))
    }

    fn stream(&self) -> Fallible<Stream> {
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        made(|to| call!(cuStreamCreate(to, flags))).map(Stream)
    }

    fn destroy_stream(&self, stream: Stream) {
        let _ = call!(cuStreamDestroy_v2(handle(stream.0)));
    }

    fn event(&self, timed: bool) -> Fallible<Event> {
        use sys::CUevent_flags_enum as Flags;
        let flags = if timed { Flags::CU_EVENT_DEFAULT } else { Flags::CU_EVENT_DISABLE_TIMING };
        made(|to| call!(cuEventCreate(to, flags as u32))).map(Event)
    }

    fn destroy_event(&self, event: Event) {
        let _ = call!(cuEventDestroy_v2(handle(event.0)));
    }

    fn record(&self, event: Event, stream: Stream) -> Fallible<()> {
        call!(cuEventRecord(handle(event.0), handle(stream.0)))
    }

    fn is_done(&self, event: Event) -> Fallible<bool> {
        // SAFETY: as in `call!`.
        match unsafe { sys::cuEventQuery(handle(event.0)) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => checked("cuEventQuery", result).map(|()| true),
        }
    }

    fn elapsed(&self, from: Event, to: Event) -> Fallible<f32> {
        let mut milliseconds = 0.0;
        call!(cuEventElapsedTime(&raw mut milliseconds, handle(from.0), handle(to.0)))?;
        Ok(milliseconds)
    }

    fn products(&self) -> Option<Box<dyn Products>> {
        Cublas::open().map(|library| Box::new(library) as Box<dyn Products>)
    }

    fn unique_id(&self) -> Fallible<Vec<u8>> {
        nccl::unique_id()
    }

    fn connect(&self, id: &[u8], rank: usize, ranks: usize) -> Fallible<Box<dyn Connection>> {
        Ok(Box::new(Nccl::connect(id, rank, ranks)?))
    }

    fn load(&self, cubin: &[u8]) -> Fallible<Module> {
        made(|to| call!(cuModuleLoadData(to, cubin.as_ptr().cast()))).map(Module)
    }

    fn unload(&self, module: Module) {
        let _ = call!(cuModuleUnload(handle(module.0)));
    }

    fn function(&self, module: Module, name: &str) -> Fallible<Function> {
        let name = CString::new(name).unwrap_or_default();
        made(|to| call!(cuModuleGetFunction(to, handle(module.0), name.as_ptr()))).map(Function)
    }

    fn allow_shared(&self, function: Function, bytes: u32) -> Fallible<()> {
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        call!(cuFuncSetAttribute(handle(function.0), attribute, bytes))
    }

    fn launch(&self, kernel: &KernelCall, stream: Stream) -> Fallible<()> {
        let mut parameters = pointers(kernel);
        let (blocks, threads) = (kernel.blocks, kernel.threads);
        let (function, stream) = (handle(kernel.function.0), handle(stream.0));
        let parameters = parameters.as_mut_ptr();
        let none = ptr::null_mut();
        call!(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, kernel.shared, stream, parameters, none))
    }

    fn graph(&self) -> Fallible<Graph> {
        made(|to| call!(cuGraphCreate(to, 0))).map(Graph)
    }

    fn destroy_graph(&self, graph: Graph) {
        let _ = call!(cuGraphDestroy(handle(graph.0)));
    }

    fn add_kernel(&self, graph: Graph, after: &[Node], kernel: &KernelCall) -> Fallible<Node> {
        let after: Vec<sys::CUgraphNode> = after.iter().map(|node| handle(node.0)).collect();
        let mut parameters = pointers(kernel);
        let described = sys::CUDA_KERNEL_NODE_PARAMS {
            func: handle(kernel.function.0),
            gridDimX: kernel.blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: kernel.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: kernel.shared,
            kernelParams: parameters.as_mut_ptr(),
            extra: ptr::null_mut(),
            kern: ptr::null_mut(),
            ctx: ptr::null_mut(),
        };
        let described = &raw const described;
        let (first, count) = (after.as_ptr(), after.len());
        made(|to| call!(cuGraphAddKernelNode_v2(to, handle(graph.0), first, count, described))).map(Node)
    }

    fn add_early_kernel(&self, graph: Graph, after: Node, kernel: &KernelCall) -> Fallible<Node> {
        // A product may be a child graph, which has no programmatic port, so the kernel waits until it is
        // done.
        if !is_kernel(handle(after.0)) {
            return self.add_kernel(graph, &[after], kernel);
        }
        let node = self.add_kernel(graph, &[], kernel)?;
        connect(graph, after, node, &PROGRAMMATIC)?;
        Ok(node)
    }

    fn capture(&self, stream: Stream, ask: &mut dyn FnMut() -> Fallible<()>) -> Fallible<Graph> {
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        call!(cuStreamBeginCapture_v2(handle(stream.0), mode))?;
        let asked = ask();
        let mut graph = ptr::null_mut();
        let ended = call!(cuStreamEndCapture(handle(stream.0), &raw mut graph));
        let graph = Graph(graph.expose_provenance());
        match asked.and(ended) {
            Ok(()) => Ok(graph),
            Err(failure) => {
                if graph.0 != 0 {
                    self.destroy_graph(graph);
                }
                Err(failure)
            }
        }
    }

    fn add_graph(&self, graph: Graph, after: &[Node], child: Graph) -> Fallible<Node> {
        let has_data = self.version()? >= EDGE_DATA;
        if let Some(kernels) = kernels_in_a_row(child, has_data) {
            let mut last = None;
            for (kernel, edge) in kernels {
                last = Some(match last {
                    None => copy_kernel(graph, after, kernel)?,
                    Some(before) if edge == FULL => copy_kernel(graph, &[before], kernel)?,
                    Some(before) => {
                        let node = copy_kernel(graph, &[], kernel)?;
                        connect(graph, before, node, &edge)?;
                        node
                    }
                });
            }
            return Ok(last.expect("a row has kernels"));
        }
        let after: Vec<sys::CUgraphNode> = after.iter().map(|node| handle(node.0)).collect();
        let (first, count) = (after.as_ptr(), after.len());
        let (graph, child) = (handle(graph.0), handle(child.0));
        made(|to| call!(cuGraphAddChildGraphNode(to, graph, first, count, child))).map(Node)
    }

    fn instantiate(&self, graph: Graph) -> Fallible<GraphExec> {
        made(|to| call!(cuGraphInstantiateWithFlags(to, handle(graph.0), 0))).map(GraphExec)
    }

    fn destroy_exec(&self, exec: GraphExec) {
        let _ = call!(cuGraphExecDestroy(handle(exec.0)));
    }

    fn launch_graph(&self, exec: GraphExec, stream: Stream) -> Fallible<()> {
        call!(cuGraphLaunch(handle(exec.0), handle(stream.0)))
    }
}

/// Edge data for a kernel that starts once all blocks of its predecessor have triggered it.
const PROGRAMMATIC: sys::CUgraphEdgeData = sys::CUgraphEdgeData {
    from_port: sys::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC as u8,
    to_port: 0,
    type_: sys::CUgraphDependencyType::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u8,
    reserved: [0; 5],
};

/// Edge data for a kernel that starts once its predecessor is done.
const FULL: sys::CUgraphEdgeData = sys::CUgraphEdgeData { from_port: 0, type_: 0, ..PROGRAMMATIC };

/// Adds an edge with the given edge data to a graph.
fn connect(graph: Graph, from: Node, to: Node, edge: &sys::CUgraphEdgeData) -> Fallible<()> {
    let (from, to) = (handle(from.0), handle(to.0));
    call!(cuGraphAddDependencies_v2(handle(graph.0), &raw const from, &raw const to, ptr::from_ref(edge), 1))
}

fn is_kernel(node: sys::CUgraphNode) -> bool {
    use sys::CUgraphNodeType_enum as Kind;
    let mut kind = Kind::CU_GRAPH_NODE_TYPE_EMPTY;
    let known = call!(cuGraphNodeGetType(node, &raw mut kind)).is_ok();
    known && kind == Kind::CU_GRAPH_NODE_TYPE_KERNEL
}

/// Returns the kernels of a graph that is a linear chain of kernels, in order, each with the edge from its
/// predecessor; `None` for any other graph.
fn kernels_in_a_row(graph: Graph, has_data: bool) -> Option<Vec<(sys::CUgraphNode, sys::CUgraphEdgeData)>> {
    /// Maximum number of nodes and of edges; the library computes a product with one or two kernels.
    const MOST: usize = 8;
    let (mut nodes, mut count) = ([ptr::null_mut(); MOST], MOST);
    call!(cuGraphGetNodes(handle(graph.0), nodes.as_mut_ptr(), &raw mut count)).ok()?;
    let ([mut from, mut to], mut edges, mut data) = ([[ptr::null_mut(); MOST]; 2], MOST, [FULL; MOST]);
    let room = (from.as_mut_ptr(), to.as_mut_ptr());
    // Without a data array, the driver does not return edges that have data. A full array may be incomplete,
    // so the graph is then rejected below.
    if has_data {
        let data = data.as_mut_ptr();
        call!(cuGraphGetEdges_v2(handle(graph.0), room.0, room.1, data, &raw mut edges)).ok()?;
    } else {
        call!(cuGraphGetEdges(handle(graph.0), room.0, room.1, &raw mut edges)).ok()?;
    }
    if count == 0 || count >= MOST || edges >= MOST {
        return None;
    }
    let nodes = &nodes[..count];
    if !nodes.iter().copied().all(is_kernel) {
        return None;
    }
    let edges: Vec<_> = from.into_iter().zip(to).take(edges).collect();
    let data_to =
        |node| edges.iter().zip(data).find(|((_, to), _)| *to == node).map_or(FULL, |(_, data)| data);
    Some(in_a_row(nodes, &edges)?.into_iter().map(|node| (node, data_to(node))).collect())
}

/// Returns the nodes in the order of the edges if the edges form a single chain through all nodes; `None`
/// otherwise.
fn in_a_row<T: Copy + PartialEq>(nodes: &[T], edges: &[(T, T)]) -> Option<Vec<T>> {
    let mut row = vec![*nodes.iter().find(|&node| edges.iter().all(|(_, to)| to != node))?];
    while let Some((_, next)) = edges.iter().find(|(from, _)| *from == row[row.len() - 1]) {
        // Reject a second edge to a node, and a cycle.
        if row.contains(next) {
            return None;
        }
        row.push(*next);
    }
    (row.len() == nodes.len() && edges.len() + 1 == nodes.len()).then_some(row)
}

/// Adds a copy of a kernel node of another graph. A graph of only kernels launches several times as fast as
/// one with child graphs.
fn copy_kernel(graph: Graph, after: &[Node], kernel: sys::CUgraphNode) -> Fallible<Node> {
    let after: Vec<sys::CUgraphNode> = after.iter().map(|node| handle(node.0)).collect();
    // Zeroed, because the next call reads fields that the driver may leave unwritten.
    let mut described = MaybeUninit::zeroed();
    call!(cuGraphKernelNodeGetParams_v2(kernel, described.as_mut_ptr()))?;
    let mut node = ptr::null_mut();
    let (first, count, described) = (after.as_ptr(), after.len(), described.as_ptr());
    call!(cuGraphAddKernelNode_v2(&raw mut node, handle(graph.0), first, count, described))?;
    // Copy the cluster dimensions and the limit of dynamic shared memory, which are attributes.
    call!(cuGraphKernelNodeCopyAttributes(node, kernel))?;
    Ok(Node(node.expose_provenance()))
}

/// Converts a handle to the driver's pointer.
fn handle<T>(number: usize) -> *mut T {
    ptr::with_exposed_provenance_mut(number)
}

/// Converts a host address to an integer of pointer size.
fn host(address: Address) -> usize {
    usize::try_from(address).expect("addresses of the host fit its words")
}

#[cfg(test)]
mod tests {
    use super::in_a_row;

    #[test]
    fn kernels_in_a_row_are_told_from_others() {
        assert_eq!(in_a_row(&['a'], &[]), Some(vec!['a']));
        assert_eq!(in_a_row(&['c', 'a', 'b'], &[('b', 'c'), ('a', 'b')]), Some(vec!['a', 'b', 'c']));
        assert_eq!(in_a_row::<char>(&[], &[]), None);
        // Unconnected nodes, a fork, a join and a cycle are rejected.
        assert_eq!(in_a_row(&['a', 'b'], &[]), None);
        assert_eq!(in_a_row(&['a', 'b', 'c'], &[('a', 'b'), ('a', 'c')]), None);
        assert_eq!(in_a_row(&['a', 'b', 'c'], &[('a', 'c'), ('b', 'c')]), None);
        assert_eq!(in_a_row(&['a', 'b', 'c'], &[('a', 'b'), ('b', 'c'), ('c', 'b')]), None);
    }
}
