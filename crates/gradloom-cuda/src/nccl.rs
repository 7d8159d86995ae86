//! NCCL, NVIDIA's library of collective operations between GPUs. It is opened when a device joins a world,
//! from the file in `GRADLOOM_NCCL`, the system's library path, or CUDA's folders, in this order.
//!
//! In: addresses on the device. Out: operations on a stream, which may be captured. Functions, types and
//! constants follow NCCL's documentation, "NCCL API". Invariant: only one thread at a time uses the
//! connection, except to check or abort it.

use super::driver::{CollectiveCall, Connection, Failure, Fallible, Stream};
use super::library::library;
use gradloom_codegen::cuda::nvrtc::places;
use gradloom_core::ir::{CollectiveOp, DType};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Environment variable that contains the path of the library.
pub(super) const VARIABLE: &str = "GRADLOOM_NCCL";

/// Size of a [`UniqueId`] in bytes.
const ID_BYTES: usize = 128;

type Pointer = *mut c_void;

/// `ncclUniqueId`: what rank 0 tells all others, so that they find each other.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; ID_BYTES]);

library! {
    get_id = b"ncclGetUniqueId": fn(*mut UniqueId) -> c_int;
    connect = b"ncclCommInitRank": fn(*mut Pointer, c_int, UniqueId, c_int) -> c_int;
    destroy = b"ncclCommDestroy": fn(Pointer) -> c_int;
    abort = b"ncclCommAbort": fn(Pointer) -> c_int;
    async_error = b"ncclCommGetAsyncError": fn(Pointer, *mut c_int) -> c_int;
    text = b"ncclGetErrorString": fn(c_int) -> *const c_char;
    group_start = b"ncclGroupStart": fn() -> c_int;
    group_end = b"ncclGroupEnd": fn() -> c_int;
    all_reduce = b"ncclAllReduce":
        fn(*const c_void, *mut c_void, usize, c_int, c_int, Pointer, Pointer) -> c_int;
    reduce_scatter = b"ncclReduceScatter":
        fn(*const c_void, *mut c_void, usize, c_int, c_int, Pointer, Pointer) -> c_int;
    all_gather = b"ncclAllGather": fn(*const c_void, *mut c_void, usize, c_int, Pointer, Pointer) -> c_int;
}

impl Functions {
    fn checked(&self, call: &'static str, status: c_int) -> Fallible<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library's texts are NUL-terminated and live as long as the library.
        let text = unsafe { CStr::from_ptr((self.text)(status)) }.to_string_lossy().into_owned();
        // Offset the codes, so that they do not collide with the driver's.
        Err(Failure { call, code: 20_000 + status.unsigned_abs(), text })
    }
}

/// Returns the library, which stays open until the process ends, because its threads may outlive the
/// connections.
fn functions() -> Fallible<&'static Functions> {
    static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
    let open = || Functions::open(places(VARIABLE, "nccl", &["2"]));
    FUNCTIONS.get_or_init(open).as_ref().ok_or_else(|| Failure {
        call: "ncclGetUniqueId",
        code: 20_000,
        text: format!("NCCL is not installed (libnccl.so.2; `{VARIABLE}` may name the file)"),
    })
}

/// Returns the bytes with which the ranks of a world find each other.
///
/// # Errors
/// Returns an error if the library is missing or has no network.
pub(super) fn unique_id() -> Fallible<Vec<u8>> {
    let functions = functions()?;
    let mut id = UniqueId([0; ID_BYTES]);
    // SAFETY: the function only writes the id.
    functions.checked("ncclGetUniqueId", unsafe { (functions.get_id)(&raw mut id) })?;
    Ok(id.0.to_vec())
}

/// Connection of the device whose context was current to those of the other ranks.
#[derive(Debug)]
pub(super) struct Nccl {
    functions: &'static Functions,
    /// The library's communicator, as an exposed address.
    communicator: usize,
    is_aborted: AtomicBool,
}

impl Nccl {
    /// Connects to the other ranks; waits for all of them.
    ///
    /// # Errors
    /// Returns an error if the library is missing, or the ranks cannot be connected.
    pub(super) fn connect(id: &[u8], rank: usize, ranks: usize) -> Fallible<Self> {
        let functions = functions()?;
        let unusable = |what: &str| Failure {
            call: "ncclCommInitRank",
            code: 20_004,
            text: format!("{what} is not one of NCCL's"),
        };
        let id = UniqueId(id.try_into().map_err(|_| unusable("the id of the world"))?);
        let number = |number: usize| c_int::try_from(number).map_err(|_| unusable("the number of ranks"));
        let (rank, ranks) = (number(rank)?, number(ranks)?);
        let mut communicator = ptr::null_mut();
        // SAFETY: the function writes the communicator of the current device.
        let status = unsafe { (functions.connect)(&raw mut communicator, ranks, id, rank) };
        functions.checked("ncclCommInitRank", status)?;
        let communicator = communicator.expose_provenance();
        Ok(Self { functions, communicator, is_aborted: AtomicBool::new(false) })
    }

    fn communicator(&self) -> Pointer {
        ptr::with_exposed_provenance_mut(self.communicator)
    }
}

/// `ncclSum`.
const SUM: c_int = 0;

/// Returns the `ncclDataType_t` of a dtype.
fn type_of(dtype: DType) -> c_int {
    match dtype {
        DType::F16 => 6,
        DType::BF16 => 9,
        _ => 7,
    }
}

impl Connection for Nccl {
    fn queue(&self, call: &CollectiveCall, stream: Stream) -> Fallible<()> {
        let Self { functions, .. } = self;
        let (communicator, stream) = (self.communicator(), ptr::with_exposed_provenance_mut(stream.0));
        // SAFETY: the functions have no parameters.
        functions.checked("ncclGroupStart", unsafe { (functions.group_start)() })?;
        let mut queued = Ok(());
        let of_operand = call.elements.iter().zip(&call.dtypes);
        for ((&read, &write), (&elements, &dtype)) in call.reads.iter().zip(&call.writes).zip(of_operand) {
            let dtype = type_of(dtype);
            let from = ptr::without_provenance(read as usize);
            let to = ptr::without_provenance_mut(write as usize);
            // SAFETY: the addresses are those of operands and results on the device, of the types and sizes
            // of the op.
            let (name, status) = unsafe {
                match call.op {
                    CollectiveOp::AllReduce | CollectiveOp::CheckedAllReduce => (
                        "ncclAllReduce",
                        (functions.all_reduce)(from, to, elements, dtype, SUM, communicator, stream),
                    ),
                    CollectiveOp::ReduceScatter => (
                        "ncclReduceScatter",
                        (functions.reduce_scatter)(from, to, elements, dtype, SUM, communicator, stream),
                    ),
                    CollectiveOp::AllGather => (
                        "ncclAllGather",
                        (functions.all_gather)(from, to, elements, dtype, communicator, stream),
                    ),
                }
            };
            queued = queued.and(functions.checked(name, status));
        }
        // SAFETY: as above. A group that was started must be ended, even after an error.
        queued.and(functions.checked("ncclGroupEnd", unsafe { (functions.group_end)() }))
    }

    fn check(&self) -> Fallible<()> {
        if self.is_aborted.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut status = 0;
        // SAFETY: the function only writes the status; it may be called by any thread.
        let asked = unsafe { (self.functions.async_error)(self.communicator(), &raw mut status) };
        self.functions.checked("ncclCommGetAsyncError", asked)?;
        // `ncclInProgress` is not an error.
        if status == 7 { Ok(()) } else { self.functions.checked("ncclCommGetAsyncError", status) }
    }

    fn abort(&self) {
        if self.is_aborted.swap(true, Ordering::SeqCst) {
            return;
        }
        let (functions, communicator) = (self.functions, self.communicator);
        let abort = move || {
            // SAFETY: the library created the communicator, and it is not used again.
            unsafe { (functions.abort)(ptr::with_exposed_provenance_mut(communicator)) };
        };
        // The call first ends the waiting ops, but then waits until all graphs with ops of the communicator
        // are destroyed, which the caller does later.
        let _ = std::thread::Builder::new().name("gradloom-abort".to_string()).spawn(abort);
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        if !self.is_aborted.load(Ordering::SeqCst) {
            // SAFETY: the library created the communicator, and it is not used again.
            unsafe { (self.functions.destroy)(self.communicator()) };
        }
    }
}
