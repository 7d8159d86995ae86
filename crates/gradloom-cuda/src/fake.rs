//! A fake CUDA driver for tests. It stores memory and records calls, runs no kernels, and fails the call that
//! a test selects.

use super::driver::{
    Address, Algorithm, Call, CollectiveCall, Connection, Context, Driver, Event, Failure, Fallible,
    Function, GpuLink, Graph, GraphExec, KernelCall, Module, Node, ProductCall, Products, Properties, Stream,
};
use super::kernels::Compiler;
use gradloom_codegen::cuda::LibraryProduct;
use gradloom_codegen::cuda::nvrtc::Compiled;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

const BASE: Address = 1 << 40;

#[derive(Debug, Default)]
pub(super) struct Fake {
    state: Arc<Mutex<FakeState>>,
}

#[derive(Debug, Default)]
pub(super) struct FakeState {
    /// Names of all calls so far that can fail, in order.
    pub(super) calls: Vec<&'static str>,
    /// Index of the call that fails, and its error code.
    pub(super) fails: Option<(usize, u32)>,
    /// True if no event is ever reached.
    pub(super) hangs: bool,
    /// True if cuBLASLt is not installed.
    pub(super) lacks_products: bool,
    /// Size of the device's memory in bytes; unlimited if `None`.
    pub(super) bytes: Option<usize>,
    memory: BTreeMap<Address, Vec<u8>>,
    host: BTreeMap<Address, Box<[u64]>>,
    /// Kinds of the live handles: streams, events, modules, graphs, executable graphs.
    live: BTreeMap<usize, &'static str>,
    next: usize,
    /// Nodes of each graph or executable graph, each with the indices of the nodes it waits for.
    pub(super) graphs: BTreeMap<usize, Vec<(Vec<usize>, Call)>>,
    /// Products and collective ops requested of libraries since the last capture.
    pub(super) captured: Vec<Call>,
    /// Number of connections to other ranks that were aborted.
    pub(super) aborted: usize,
    /// CUDA version of the driver, 12.8 if `None`.
    pub(super) version: Option<i32>,
    /// Number of nodes that start before their predecessor is done.
    pub(super) early: usize,
    /// Number of kernels launched outside of graphs.
    pub(super) launches: usize,
    pub(super) replays: usize,
    retained: isize,
}

impl FakeState {
    fn meet(&mut self, call: &'static str) -> Fallible<()> {
        let number = self.calls.len();
        self.calls.push(call);
        match self.fails {
            Some((at, code)) if at == number => Err(Failure { call, code, text: "as the test asked".into() }),
            _ => Ok(()),
        }
    }

    fn new_handle(&mut self, what: &'static str) -> usize {
        self.next += 1;
        self.live.insert(self.next, what);
        self.next
    }

    fn give_back(&mut self, handle: usize, what: &'static str) {
        assert_eq!(self.live.remove(&handle), Some(what), "a handle is given back once");
    }

    fn is_live(&self, handle: usize, what: &'static str) {
        assert_eq!(self.live.get(&handle), Some(&what), "handles are used while they live");
    }

    /// Returns a range of the device's memory.
    fn range(&mut self, address: Address, bytes: usize) -> &mut [u8] {
        let (start, memory) =
            self.memory.range_mut(..=address).next_back().expect("the address was allocated");
        let offset = (address - start) as usize;
        assert!(offset + bytes <= memory.len(), "{bytes} bytes at {offset} of {}", memory.len());
        &mut memory[offset..offset + bytes]
    }

    fn add(&mut self, graph: Graph, after: &[Node], call: Call) -> Node {
        let nodes = self.graphs.get_mut(&graph.0).expect("the graph lives");
        let number = nodes.len();
        let after: Vec<usize> = after.iter().map(|node| node.0).collect();
        assert!(after.iter().all(|&node| node < number), "edges lead forwards");
        nodes.push((after, call));
        Node(number)
    }

    /// Returns the size in bytes of all allocations on the device.
    pub(super) fn used(&self) -> usize {
        self.memory.values().map(Vec::len).sum()
    }

    /// Returns the number of allocations on the device.
    pub(super) fn memories(&self) -> usize {
        self.memory.len()
    }

    /// Returns a description of all resources that were not released.
    pub(super) fn left(&self) -> String {
        let (memory, host) = (self.memory.len(), self.host.len());
        format!("{memory} allocations, {host} of the host, {} contexts, {:?}", self.retained, self.live)
    }
}

impl Fake {
    pub(super) fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap()
    }
}

impl Driver for Fake {
    fn version(&self) -> Fallible<i32> {
        let mut state = self.state();
        state.meet("version").map(|()| state.version.unwrap_or(12_080))
    }

    fn device_count(&self) -> Fallible<usize> {
        self.state().meet("device_count").map(|()| 2)
    }

    fn properties(&self, device: usize) -> Fallible<Properties> {
        self.state().meet("properties")?;
        let name = format!("fake {device}");
        // The second device is older than Ampere, so that opening it fails.
        let capability = if device == 0 { (9, 0) } else { (7, 5) };
        Ok(Properties { name, capability, bytes: 1 << 30, multiprocessors: 4 })
    }

    fn link(&self, _: usize, _: usize) -> Fallible<GpuLink> {
        self.state().meet("link").map(|()| GpuLink::NvLink)
    }

    fn retain(&self, _: usize) -> Fallible<Context> {
        let mut state = self.state();
        state.meet("retain")?;
        state.retained += 1;
        Ok(Context(1))
    }

    fn release(&self, _: usize) {
        self.state().retained -= 1;
    }

    fn enter(&self, _: Context) -> Fallible<()> {
        Ok(())
    }

    fn free_bytes(&self) -> Fallible<usize> {
        let mut state = self.state();
        state.meet("free_bytes")?;
        Ok(state.bytes.map_or(1 << 40, |bytes| bytes.saturating_sub(state.used())))
    }

    fn allocate(&self, bytes: usize) -> Fallible<Address> {
        let mut state = self.state();
        state.meet("allocate")?;
        if state.bytes.is_some_and(|most| state.used() + bytes > most) {
            return Err(Failure {
                call: "allocate",
                code: super::driver::OUT_OF_MEMORY,
                text: "full".into(),
            });
        }
        state.next += 1;
        let address = BASE + ((state.next as Address) << 32);
        // Filled with garbage, because callers must clear memory themselves.
        state.memory.insert(address, vec![0xa5; bytes]);
        Ok(address)
    }

    fn free(&self, address: Address) {
        assert!(self.state().memory.remove(&address).is_some(), "memory is freed once");
    }

    fn allocate_host(&self, bytes: usize) -> Fallible<Address> {
        let mut state = self.state();
        state.meet("allocate_host")?;
        let mut memory = vec![u64::MAX; bytes.div_ceil(8)].into_boxed_slice();
        let address = memory.as_mut_ptr().expose_provenance() as Address;
        state.host.insert(address, memory);
        Ok(address)
    }

    fn free_host(&self, address: Address) {
        assert!(self.state().host.remove(&address).is_some(), "memory is freed once");
    }

    fn fill(&self, address: Address, value: u8, bytes: usize, _: Stream) -> Fallible<()> {
        let mut state = self.state();
        state.meet("fill")?;
        state.range(address, bytes).fill(value);
        Ok(())
    }

    fn upload(&self, to: Address, bytes: &[u8], _: Stream) -> Fallible<()> {
        let mut state = self.state();
        state.meet("upload")?;
        state.range(to, bytes.len()).copy_from_slice(bytes);
        Ok(())
    }

    fn download(&self, from: Address, into: &mut [u8], _: Stream) -> Fallible<()> {
        let mut state = self.state();
        state.meet("download")?;
        into.copy_from_slice(state.range(from, into.len()));
        Ok(())
    }

    fn copy(&self, from: Address, to: Address, bytes: usize, _: Stream) -> Fallible<()> {
        let mut state = self.state();
        state.meet("copy")?;
        let copy = state.range(from, bytes).to_vec();
        state.range(to, bytes).copy_from_slice(&copy);
        Ok(())
    }

    fn stream(&self) -> Fallible<Stream> {
        let mut state = self.state();
        state.meet("stream")?;
        Ok(Stream(state.new_handle("stream")))
    }

    fn destroy_stream(&self, stream: Stream) {
        self.state().give_back(stream.0, "stream");
    }

    fn event(&self, _: bool) -> Fallible<Event> {
        let mut state = self.state();
        state.meet("event")?;
        Ok(Event(state.new_handle("event")))
    }

    fn destroy_event(&self, event: Event) {
        self.state().give_back(event.0, "event");
    }

    fn record(&self, event: Event, _: Stream) -> Fallible<()> {
        let mut state = self.state();
        state.is_live(event.0, "event");
        state.meet("record")
    }

    fn is_done(&self, event: Event) -> Fallible<bool> {
        let mut state = self.state();
        state.is_live(event.0, "event");
        if state.hangs {
            return Ok(false);
        }
        state.meet("is_done").map(|()| true)
    }

    fn elapsed(&self, _: Event, _: Event) -> Fallible<f32> {
        self.state().meet("elapsed").map(|()| 0.25)
    }

    fn products(&self) -> Option<Box<dyn Products>> {
        if self.state().lacks_products {
            return None;
        }
        let state = Arc::clone(&self.state);
        Some(Box::new(FakeProducts { state }))
    }

    fn unique_id(&self) -> Fallible<Vec<u8>> {
        self.state().meet("unique_id").map(|()| b"the id".to_vec())
    }

    fn connect(&self, id: &[u8], _: usize, _: usize) -> Fallible<Box<dyn Connection>> {
        assert_eq!(id, b"the id", "it is what the first rank has told");
        self.state().meet("connect")?;
        Ok(Box::new(FakeConnection { state: Arc::clone(&self.state) }))
    }

    fn load(&self, cubin: &[u8]) -> Fallible<Module> {
        assert!(cubin.starts_with(b"cubin of "), "it is what the compiler gave");
        let mut state = self.state();
        state.meet("load")?;
        Ok(Module(state.new_handle("module")))
    }

    fn unload(&self, module: Module) {
        self.state().give_back(module.0, "module");
    }

    fn function(&self, module: Module, _: &str) -> Fallible<Function> {
        let mut state = self.state();
        state.is_live(module.0, "module");
        state.meet("function")?;
        Ok(Function(module.0))
    }

    fn allow_shared(&self, function: Function, bytes: u32) -> Fallible<()> {
        let mut state = self.state();
        state.is_live(function.0, "module");
        assert!(bytes <= 227 << 10, "no GPU has {bytes} bytes of shared memory");
        state.meet("allow_shared")
    }

    fn launch(&self, call: &KernelCall, _: Stream) -> Fallible<()> {
        let mut state = self.state();
        state.is_live(call.function.0, "module");
        state.meet("launch")?;
        state.launches += 1;
        Ok(())
    }

    fn graph(&self) -> Fallible<Graph> {
        let mut state = self.state();
        state.meet("graph")?;
        let graph = state.new_handle("graph");
        state.graphs.insert(graph, Vec::new());
        Ok(Graph(graph))
    }

    fn destroy_graph(&self, graph: Graph) {
        let mut state = self.state();
        state.graphs.remove(&graph.0);
        state.give_back(graph.0, "graph");
    }

    fn add_kernel(&self, graph: Graph, after: &[Node], call: &KernelCall) -> Fallible<Node> {
        let mut state = self.state();
        state.is_live(call.function.0, "module");
        state.meet("add_kernel")?;
        Ok(state.add(graph, after, Call::Kernel(call.clone())))
    }

    fn add_early_kernel(&self, graph: Graph, after: Node, call: &KernelCall) -> Fallible<Node> {
        let node = self.add_kernel(graph, &[after], call)?;
        self.state().early += 1;
        Ok(node)
    }

    fn capture(&self, stream: Stream, ask: &mut dyn FnMut() -> Fallible<()>) -> Fallible<Graph> {
        let mut state = self.state();
        state.is_live(stream.0, "stream");
        state.meet("capture")?;
        drop(state);
        ask()?;
        let mut state = self.state();
        let graph = state.new_handle("graph");
        let captured = std::mem::take(&mut state.captured);
        state.graphs.insert(graph, captured.into_iter().map(|call| (Vec::new(), call)).collect());
        Ok(Graph(graph))
    }

    fn add_graph(&self, graph: Graph, after: &[Node], child: Graph) -> Fallible<Node> {
        let mut state = self.state();
        state.meet("add_graph")?;
        let call = state.graphs[&child.0][0].1.clone();
        Ok(state.add(graph, after, call))
    }

    fn instantiate(&self, graph: Graph) -> Fallible<GraphExec> {
        let mut state = self.state();
        state.meet("instantiate")?;
        let exec = state.new_handle("exec");
        let nodes = state.graphs[&graph.0].clone();
        state.graphs.insert(exec, nodes);
        Ok(GraphExec(exec))
    }

    fn destroy_exec(&self, exec: GraphExec) {
        let mut state = self.state();
        state.graphs.remove(&exec.0);
        state.give_back(exec.0, "exec");
    }

    fn launch_graph(&self, exec: GraphExec, _: Stream) -> Fallible<()> {
        let mut state = self.state();
        state.is_live(exec.0, "exec");
        state.meet("launch_graph")?;
        state.replays += 1;
        Ok(())
    }
}

/// A library that multiplies nothing.
#[derive(Debug)]
struct FakeProducts {
    state: Arc<Mutex<FakeState>>,
}

impl Products for FakeProducts {
    fn version(&self) -> usize {
        1
    }

    fn algorithms(&self, _: &LibraryProduct, most: usize) -> Fallible<Vec<Algorithm>> {
        self.state.lock().unwrap().meet("algorithms")?;
        Ok((0..most.min(2) as u64).map(|number| [number; 8]).collect())
    }

    fn multiply(
        &self,
        product: &LibraryProduct,
        algorithm: &Algorithm,
        addresses: [Address; 5],
        _: Stream,
    ) -> Fallible<()> {
        let mut state = self.state.lock().unwrap();
        state.meet("multiply")?;
        let call = ProductCall { product: *product, algorithm: *algorithm, addresses };
        state.captured.push(Call::Product(call));
        Ok(())
    }
}

/// A connection that moves nothing.
#[derive(Debug)]
struct FakeConnection {
    state: Arc<Mutex<FakeState>>,
}

impl Connection for FakeConnection {
    fn queue(&self, call: &CollectiveCall, _: Stream) -> Fallible<()> {
        let mut state = self.state.lock().unwrap();
        state.meet("queue")?;
        state.captured.push(Call::Collective(call.clone()));
        Ok(())
    }

    fn check(&self) -> Fallible<()> {
        self.state.lock().unwrap().meet("check")
    }

    fn abort(&self) {
        self.state.lock().unwrap().aborted += 1;
    }
}

/// A compiler that compiles nothing and counts the requests.
#[derive(Debug, Default)]
pub(super) struct FakeCompiler {
    pub(super) compiled: AtomicUsize,
}

impl Compiler for FakeCompiler {
    fn version(&self) -> String {
        "fake 1".to_string()
    }

    fn compile(&self, source: &str, architecture: &str) -> Result<Compiled, String> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        let cubin = format!("cubin of {source} for {architecture}").into_bytes();
        Ok(Compiled { cubin, messages: String::new() })
    }
}
