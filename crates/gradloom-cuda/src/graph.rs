//! Construction of graphs.

use super::driver::{Call, Driver, Graph, GraphExec, Node};
use super::gpu::Gpu;
use gradloom_core::error::Result;
use std::cell::RefCell;

/// A graph under construction, destroyed on drop.
pub(super) struct Building<'g> {
    gpu: &'g Gpu,
    graph: Graph,
    /// Graphs of collective ops.
    captured: RefCell<Vec<Graph>>,
}

/// An executable graph, and the graphs that must live as long.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) exec: GraphExec,
    captured: Vec<Graph>,
}

impl Replayed {
    /// Destroys the graphs, which the device must not be using.
    pub(super) fn destroy(&self, driver: &dyn Driver) {
        driver.destroy_exec(self.exec);
        self.captured.iter().for_each(|&graph| driver.destroy_graph(graph));
    }
}

impl<'g> Building<'g> {
    /// Creates an empty graph.
    ///
    /// # Errors
    /// Returns an error if the device is lost or rejects the call.
    pub(super) fn new(gpu: &'g Gpu) -> Result<Self> {
        let graph = gpu.ask("make a graph", |driver| driver.graph())?;
        Ok(Self { gpu, graph, captured: RefCell::default() })
    }

    /// Adds a call that starts when the nodes in `after` are done. If `early` is true, `after` is a single
    /// node, and a kernel may already start when all of that node's blocks have triggered it or ended.
    ///
    /// # Errors
    /// Returns an error if the device is lost or rejects the call.
    pub(super) fn add(&self, after: &[Node], early: bool, call: &Call) -> Result<Node> {
        let &Self { gpu, graph, .. } = self;
        gpu.ask("add to a graph", |driver| match call {
            Call::Kernel(call) if early => driver.add_early_kernel(graph, after[0], call),
            Call::Kernel(call) => driver.add_kernel(graph, after, call),
            Call::Product(call) => {
                let stream = driver.stream()?;
                let child = driver.capture(stream, &mut || gpu.multiply(call, stream));
                driver.destroy_stream(stream);
                let child = child?;
                let node = driver.add_graph(graph, after, child);
                driver.destroy_graph(child);
                node
            }
            Call::Collective(call) => {
                let stream = driver.stream()?;
                let child = driver.capture(stream, &mut || gpu.communicate(call, stream));
                driver.destroy_stream(stream);
                let child = child?;
                // NCCL keeps what the captured kernels read for as long as the captured graph lives.
                self.captured.borrow_mut().push(child);
                driver.add_graph(graph, after, child)
            }
        })
    }

    /// Instantiates the graph for launching.
    ///
    /// # Errors
    /// Returns an error if the device is lost or rejects the call.
    pub(super) fn ready(self) -> Result<Replayed> {
        let exec = self.gpu.ask("make a graph ready", |driver| driver.instantiate(self.graph))?;
        Ok(Replayed { exec, captured: self.captured.take() })
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        self.gpu.give_back(|driver| {
            driver.destroy_graph(self.graph);
            self.captured.take().into_iter().for_each(|graph| driver.destroy_graph(graph));
        });
    }
}
