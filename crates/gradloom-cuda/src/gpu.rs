//! An open device and its health.

use super::algorithms::Algorithms;
use super::driver::{
    Address, Call, CollectiveCall, Connection, Context, Driver, EDGE_DATA, Event, Failure, Fallible,
    ProductCall, Products, Properties, Stream,
};
use super::kernels::Kernels;
use super::poller::Poller;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{CollectiveOp, DType};
use gradloom_device::cancel::Stop;
use gradloom_device::communicator::Communicator;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// An open device with the resources that its programs share. It has one stream, in which all work is
/// ordered.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) index: usize,
    pub(super) properties: Properties,
    /// Version of the driver, encoded as 13000 for CUDA 13.0.
    pub(super) version: i32,
    context: Context,
    pub(super) stream: Stream,
    pub(super) kernels: Kernels,
    pub(super) poller: Poller,
    /// cuBLASLt, opened on first use.
    products: OnceLock<Option<Box<dyn Products>>>,
    pub(super) algorithms: Algorithms,
    /// Connection to the other ranks, once the device is part of a world.
    world: OnceLock<World>,
    health: Mutex<Option<(ErrorKind, String)>>,
    watchdog: Option<Duration>,
    /// Events that are free for reuse.
    events: Mutex<Vec<Event>>,
}

/// Time between two looks whether another rank has failed, while GPUs are connected.
const POLL: Duration = Duration::from_millis(20);
/// Time from the start of a wait during which it polls the device without a pause.
const SPIN: Duration = Duration::from_micros(200);
/// Time from the start of a wait during which it yields to other threads between polls, once [`SPIN`] has
/// passed.
const YIELD: Duration = Duration::from_millis(20);
/// Time for which a wait sleeps between polls, once [`YIELD`] has passed.
const NAP: Duration = Duration::from_micros(100);

impl Gpu {
    /// Opens the driver's device with the given index.
    ///
    /// # Errors
    /// Returns an error if the device cannot be opened.
    pub(super) fn open(
        driver: Arc<dyn Driver>,
        index: usize,
        kernels: Kernels,
        algorithms: Algorithms,
        watchdog: Option<Duration>,
    ) -> Result<Self> {
        let opened = |failure: Failure| {
            Error::new(ErrorKind::Device, format!("GPU {index} cannot be opened: {failure}")).help(
                "`gradloom devices` tells what the driver says; other programs may keep it to themselves",
            )
        };
        let version = driver.version().map_err(opened)?;
        let properties = driver.properties(index).map_err(opened)?;
        let context = driver.retain(index).map_err(opened)?;
        let stream = driver.enter(context).and_then(|()| driver.stream());
        let stream = stream.inspect_err(|_| driver.release(index)).map_err(opened)?;
        Ok(Self {
            driver,
            index,
            properties,
            version,
            context,
            stream,
            kernels,
            poller: Poller::default(),
            products: OnceLock::new(),
            algorithms,
            world: OnceLock::new(),
            health: Mutex::default(),
            watchdog,
            events: Mutex::default(),
        })
    }

    /// Returns the architecture that kernels are compiled for, such as `sm_90a`. From compute capability 9.0
    /// on, it includes the architecture-specific features.
    pub(super) fn architecture(&self) -> String {
        let (major, minor) = self.properties.capability;
        format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" })
    }

    /// Calls the driver in the device's context.
    ///
    /// # Errors
    /// Returns an error if the device is lost, or the call fails.
    pub(super) fn ask<T>(&self, what: &str, f: impl FnOnce(&dyn Driver) -> Fallible<T>) -> Result<T> {
        self.check()?;
        self.driver
            .enter(self.context)
            .and_then(|()| f(&*self.driver))
            .map_err(|failure| self.failed(&failure, || format!("the GPU cannot {what}: {failure}")))
    }

    pub(super) fn products(&self) -> Option<&dyn Products> {
        self.products.get_or_init(|| self.ask("open", |driver| Ok(driver.products())).ok()?).as_deref()
    }

    /// Runs a call on the stream.
    ///
    /// # Errors
    /// Returns an error if the device is lost or rejects the call.
    pub(super) fn run(&self, call: &Call) -> Result<()> {
        match call {
            Call::Kernel(call) => self.ask("run a kernel", |driver| driver.launch(call, self.stream)),
            Call::Product(call) => self.ask("multiply", |_| self.multiply(call, self.stream)),
            Call::Collective(call) => self.ask("communicate", |_| self.communicate(call, self.stream)),
        }
    }

    pub(super) fn multiply(&self, call: &ProductCall, stream: Stream) -> Fallible<()> {
        let products = self.products().expect("the program was made for it");
        products.multiply(&call.product, &call.algorithm, call.addresses, stream)
    }

    pub(super) fn communicate(&self, call: &CollectiveCall, stream: Stream) -> Fallible<()> {
        let world = self.world.get().expect("the program was loaded for a world");
        world.connection.queue(call, stream)
    }

    /// Connects the device to those of the other ranks; waits for them.
    ///
    /// # Errors
    /// Returns an error if NCCL is missing, a rank has failed, or the device is part of another world.
    pub(super) fn join(self: &Arc<Self>, communicator: Arc<dyn Communicator>) -> Result<()> {
        if self.world.get().is_some() {
            return Err(Error::new(ErrorKind::Device, "the GPU is part of a world already")
                .help("call `in_world` once, and use the device that it returns"));
        }
        // All ranks ask, so that one without NCCL fails before others wait for it. Only rank 0's id is used.
        let mut id = self.ask("find other GPUs", |driver| driver.unique_id())?;
        communicator.broadcast(0, &mut id)?;
        let connection = self.connected(id, &*communicator)?;
        let _ = self.world.set(World { communicator, connection });
        self.first_sum()
    }

    /// Connects to the GPUs of the other ranks.
    fn connected(
        self: &Arc<Self>,
        id: Vec<u8>,
        communicator: &dyn Communicator,
    ) -> Result<Box<dyn Connection>> {
        let (rank, ranks) = (communicator.rank(), communicator.size());
        let (gpu, (done, result)) = (Arc::clone(self), channel());
        // Connecting waits for all ranks, and cannot be interrupted. If one fails, the thread is left behind.
        let connect = move || {
            let connection = gpu.ask("connect to other GPUs", |driver| driver.connect(&id, rank, ranks));
            let _ = done.send(connection);
        };
        let started = Builder::new().name("gradloom-connect".to_string()).spawn(connect);
        started.map_err(|error| {
            Error::new(ErrorKind::Device, format!("the GPU cannot connect to other GPUs: {error}"))
                .help("end other programs, or raise the limit of processes (ulimit -u)")
        })?;
        loop {
            match result.recv_timeout(POLL) {
                // A rank that has failed is the cause of failures of others.
                Ok(connection) => {
                    return connection.map_err(|error| communicator.check().err().unwrap_or(error));
                }
                Err(RecvTimeoutError::Timeout) => communicator.check()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(ErrorKind::Internal, "connecting to other GPUs panicked"));
                }
            }
        }
    }

    /// Sums a number over all ranks. NCCL connects the devices at the first op, which should not be one that
    /// is captured in a graph.
    fn first_sum(self: &Arc<Self>) -> Result<()> {
        let number = self.ask("allocate a number", |driver| driver.allocate(4))?;
        let op = CollectiveOp::AllReduce;
        let (elements, dtypes) = (vec![1], vec![DType::F32]);
        let call = CollectiveCall { op, elements, dtypes, reads: vec![number], writes: vec![number] };
        let summed = self.ask("clear a number", |driver| driver.fill(number, 0, 4, self.stream));
        let summed = summed.and_then(|()| self.run(&Call::Collective(call)));
        let summed = summed.and_then(|()| self.wait_for_all());
        // Frees the memory once the device has used it.
        self.give_back(|driver| driver.free(number));
        summed
    }

    pub(super) fn communicator(&self) -> Option<&Arc<dyn Communicator>> {
        self.world.get().map(|world| &world.communicator)
    }

    /// Checks that no other rank has failed. If one has, ends the ops that wait for it.
    ///
    /// # Errors
    /// Returns an error that names the rank, or NCCL's. The device is then lost.
    fn check_world(&self) -> Result<()> {
        let Some(World { communicator, connection }) = self.world.get() else { return Ok(()) };
        let failed = |failure: Failure| {
            Error::new(ErrorKind::World, format!("the GPUs lost their connection: {failure}"))
        };
        let checked = communicator.check().and_then(|()| connection.check().map_err(failed));
        checked.inspect_err(|error| {
            self.fail(error.kind(), error.message().to_string());
            connection.abort();
        })
    }

    /// Returns `true` if a kernel of a graph can start before its predecessor is done.
    pub(super) fn starts_early(&self) -> bool {
        self.properties.capability >= (9, 0) && self.version >= EDGE_DATA
    }

    /// Releases a resource, regardless of the device's health.
    pub(super) fn give_back(&self, f: impl FnOnce(&dyn Driver)) {
        if self.driver.enter(self.context).is_ok() {
            f(&*self.driver);
        }
    }

    /// Like [`Gpu::ask`], for allocations: returns `None` if there is not enough memory or the call fails.
    pub(super) fn ask_memory(&self, f: impl FnOnce(&dyn Driver) -> Fallible<Address>) -> Option<Address> {
        self.check().ok()?;
        match self.driver.enter(self.context).and_then(|()| f(&*self.driver)) {
            Ok(address) => Some(address),
            Err(failure) if failure.is_out_of_memory() => None,
            Err(failure) => {
                self.failed(&failure, || format!("the GPU gives no memory: {failure}"));
                None
            }
        }
    }

    /// Returns the error of a failed call; marks the device as lost if the failure is a loss.
    fn failed(&self, failure: &Failure, message: impl FnOnce() -> String) -> Error {
        if failure.is_loss() {
            self.lose(format!("the GPU was lost: {failure}"));
        }
        self.check().err().unwrap_or_else(|| Error::new(ErrorKind::Device, message()))
    }

    /// Marks the device as lost; the first message is kept.
    pub(super) fn lose(&self, message: String) {
        self.fail(ErrorKind::Lost, message);
    }

    fn fail(&self, kind: ErrorKind, message: String) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.get_or_insert((kind, message));
    }

    /// Checks that the device is not lost.
    ///
    /// # Errors
    /// Returns an error if the device is lost; later results cannot be relied on.
    pub(super) fn check(&self) -> Result<()> {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match &*health {
            None => Ok(()),
            Some((kind, message)) => Err(Error::new(*kind, message.clone()).help(
                "start the program again, and restore the parameters from the last checkpoint: CUDA gives no \
                 lost GPU back to a process that has seen it fail",
            )),
        }
    }

    /// Waits until the device has reached an event.
    ///
    /// # Errors
    /// Returns an error if the device is lost or exceeds the watchdog's limit, or the wait is stopped.
    pub(super) fn wait(&self, event: Event, stop: Stop<'_>) -> Result<()> {
        let began = Instant::now();
        loop {
            if self.ask("tell whether a step is done", |driver| driver.is_done(event))? {
                return Ok(());
            }
            stop.check()?;
            let waited = began.elapsed();
            if waited >= SPIN {
                self.check_world()?;
            }
            if let Some(limit) = self.watchdog.filter(|limit| waited >= *limit) {
                self.lose(format!("the GPU hangs: a step was not done within {limit:?}"));
                return self.check();
            }
            if waited < SPIN {
                std::hint::spin_loop();
            } else if waited < YIELD {
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }

    /// Waits until all work submitted so far is done.
    ///
    /// # Errors
    /// Same as [`Gpu::wait`].
    pub(super) fn wait_for_all(self: &Arc<Self>) -> Result<()> {
        self.mark()?.wait(Stop::default())
    }

    /// Records an event in the stream, after all work submitted so far, and returns a handle to it.
    ///
    /// # Errors
    /// Returns an error if the device is lost, or has no more events.
    pub(super) fn mark(self: &Arc<Self>) -> Result<Mark> {
        let free = self.events.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let event = match free {
            Some(event) => event,
            None => self.ask("make an event", |driver| driver.event(false))?,
        };
        let mark = Mark { gpu: Arc::clone(self), event };
        self.ask("mark a point in its work", |driver| driver.record(event, self.stream))?;
        Ok(mark)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let events = std::mem::take(self.events.get_mut().unwrap_or_else(PoisonError::into_inner));
        let (products, world) = (self.products.take(), self.world.take());
        self.give_back(|driver| {
            drop((products, world));
            events.into_iter().for_each(|event| driver.destroy_event(event));
            driver.destroy_stream(self.stream);
            self.kernels.unload(driver);
        });
        self.driver.release(self.index);
    }
}

/// A device's part of a world.
#[derive(Debug)]
struct World {
    /// Connection between the ranks' hosts.
    communicator: Arc<dyn Communicator>,
    /// Connection between the ranks' devices.
    connection: Box<dyn Connection>,
}

#[derive(Debug)]
pub(super) struct Mark {
    pub(super) gpu: Arc<Gpu>,
    event: Event,
}

impl Mark {
    /// Waits until the device has reached the event; see [`Gpu::wait`].
    pub(super) fn wait(&self, stop: Stop<'_>) -> Result<()> {
        self.gpu.wait(self.event, stop)
    }

    /// Returns `true` if the device has reached the event or is lost.
    pub(super) fn is_over(&self) -> bool {
        self.gpu.ask("tell whether a step is done", |driver| driver.is_done(self.event)).unwrap_or(true)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.gpu.events.lock().unwrap_or_else(PoisonError::into_inner).push(self.event);
    }
}
