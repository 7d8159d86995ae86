//! cuBLASLt, NVIDIA's library of matrix products. It is opened when it is first needed, from the file in
//! `GRADLOOM_CUBLASLT`, the system's library path, or CUDA's folders, in this order.
//!
//! In: a [`LibraryProduct`] with row-major matrices. Out: the equivalent call with column-major matrices: the
//! transposed product, with exchanged operands. Functions, types and constants follow cuBLAS's documentation,
//! "Using the cuBLASLt API". Invariant: an algorithm sums in a fixed order; split-K algorithms store
//! partial sums in scratch and do not use atomics.

use super::driver::{Address, Algorithm, Failure, Fallible, Products, Stream};
use super::library::library;
use gradloom_codegen::cuda::nvrtc::places;
use gradloom_codegen::cuda::{LibraryMatrix, LibraryProduct, ROW_ALIGNMENT};
use gradloom_core::ir::DType;
use gradloom_device::memory::counted;
use std::ffi::{c_int, c_void};
use std::ptr;

/// Environment variable that contains the path of the library.
pub(super) const VARIABLE: &str = "GRADLOOM_CUBLASLT";

type Pointer = *mut c_void;

/// Layout of `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Found {
    algorithm: Algorithm,
    workspace: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

library! {
    version = b"cublasLtGetVersion": fn() -> usize;
    create = b"cublasLtCreate": fn(*mut Pointer) -> c_int;
    destroy = b"cublasLtDestroy": fn(Pointer) -> c_int;
    create_operation = b"cublasLtMatmulDescCreate": fn(*mut Pointer, c_int, c_int) -> c_int;
    destroy_operation = b"cublasLtMatmulDescDestroy": fn(Pointer) -> c_int;
    set_operation = b"cublasLtMatmulDescSetAttribute": fn(Pointer, c_int, *const c_void, usize) -> c_int;
    create_layout = b"cublasLtMatrixLayoutCreate": fn(*mut Pointer, c_int, u64, u64, i64) -> c_int;
    destroy_layout = b"cublasLtMatrixLayoutDestroy": fn(Pointer) -> c_int;
    set_layout = b"cublasLtMatrixLayoutSetAttribute": fn(Pointer, c_int, *const c_void, usize) -> c_int;
    create_preference = b"cublasLtMatmulPreferenceCreate": fn(*mut Pointer) -> c_int;
    destroy_preference = b"cublasLtMatmulPreferenceDestroy": fn(Pointer) -> c_int;
    set_preference = b"cublasLtMatmulPreferenceSetAttribute":
        fn(Pointer, c_int, *const c_void, usize) -> c_int;
    search = b"cublasLtMatmulAlgoGetHeuristic": fn(
        Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, c_int, *mut Found, *mut c_int
    ) -> c_int;
    multiply = b"cublasLtMatmul": fn(
        Pointer, Pointer, *const c_void, *const c_void, Pointer, *const c_void, Pointer, *const c_void,
        *const c_void, Pointer, *mut c_void, Pointer, *const Algorithm, *mut c_void, usize, Pointer
    ) -> c_int;
}

/// The library, opened for the device whose context was current.
#[derive(Debug)]
pub(super) struct Cublas {
    functions: Functions,
    /// The library's handle, as an exposed address.
    handle: usize,
}

impl Cublas {
    /// Opens the library; returns `None` if it is not found or does not support the device.
    pub(super) fn open() -> Option<Self> {
        let functions = Functions::open(places(VARIABLE, "cublasLt", &["13", "12"]))?;
        let mut handle = ptr::null_mut();
        // SAFETY: the function only writes the handle.
        let made = unsafe { (functions.create)(&raw mut handle) };
        (made == 0).then(|| Self { functions, handle: handle.expose_provenance() })
    }

    fn handle(&self) -> Pointer {
        ptr::with_exposed_provenance_mut(self.handle)
    }

    /// Creates the library's descriptors of a product. `bias` is the address of its bias, if it has one.
    fn described(&self, product: &LibraryProduct, bias: Address) -> Fallible<Described<'_>> {
        let mut described = Described { functions: &self.functions, operation: None, layouts: Vec::new() };
        let functions = &self.functions;
        let compute = if product.rounds { COMPUTE_FAST_TF32 } else { COMPUTE_F32 };
        let operation = made("cublasLtMatmulDescCreate", |to| {
            // SAFETY: the function only writes a pointer.
            unsafe { (functions.create_operation)(to, compute, type_of(DType::F32)) }
        })?;
        described.operation = Some(operation);
        let LibraryProduct { batch, m, n, k, lhs, rhs, result, .. } = *product;
        // A row-major matrix, read as column-major, is already the transpose that is needed, so the library
        // transposes only column-major matrices.
        for (attribute, matrix) in [(TRANSPOSE_A, rhs), (TRANSPOSE_B, lhs)] {
            let transposed = c_int::from(!matrix.by_rows);
            checked("cublasLtMatmulDescSetAttribute", unsafe {
                // SAFETY: the attribute is a 4-byte integer.
                (functions.set_operation)(operation, attribute, ptr::from_ref(&transposed).cast(), 4)
            })?;
        }
        if product.has_bias {
            let with_bias = EPILOGUE_BIAS;
            for (attribute, value, bytes) in [
                (EPILOGUE, ptr::from_ref(&with_bias).cast(), 4),
                (BIAS_POINTER, ptr::from_ref(&bias).cast(), 8),
            ] {
                checked("cublasLtMatmulDescSetAttribute", unsafe {
                    // SAFETY: the value has the type and size of the attribute.
                    (functions.set_operation)(operation, attribute, value, bytes)
                })?;
            }
        }
        for (matrix, rows, columns) in [(rhs, k, n), (lhs, m, k), (result, m, n)] {
            let layout = self.layout(&matrix, rows, columns)?;
            described.layouts.push(layout);
            if batch > 1 {
                let count = c_int::try_from(batch).unwrap_or(c_int::MAX);
                let distance = matrix.batch_stride as i64;
                for (attribute, value, bytes) in [
                    (BATCH_COUNT, ptr::from_ref(&count).cast(), 4),
                    (BATCH_DISTANCE, ptr::from_ref(&distance).cast(), 8),
                ] {
                    checked("cublasLtMatrixLayoutSetAttribute", unsafe {
                        // SAFETY: the value has the type and size of the attribute.
                        (functions.set_layout)(layout, attribute, value, bytes)
                    })?;
                }
            }
        }
        Ok(described)
    }

    /// Creates the layout of a matrix with `rows` rows and `columns` columns; a row-major matrix is described
    /// as its transpose.
    fn layout(&self, matrix: &LibraryMatrix, rows: usize, columns: usize) -> Fallible<Pointer> {
        let [rows, columns] = if matrix.by_rows { [columns, rows] } else { [rows, columns] };
        let (dtype, stride) = (type_of(matrix.dtype), matrix.stride as i64);
        made("cublasLtMatrixLayoutCreate", |to| {
            // SAFETY: the function only writes a pointer.
            unsafe { (self.functions.create_layout)(to, dtype, rows as u64, columns as u64, stride) }
        })
    }
}

impl Products for Cublas {
    fn version(&self) -> usize {
        // SAFETY: the function has no parameters and returns a number.
        unsafe { (self.functions.version)() }
    }

    fn algorithms(&self, product: &LibraryProduct, most: usize) -> Fallible<Vec<Algorithm>> {
        let described = self.described(product, ANY_BIAS)?;
        let functions = &self.functions;
        let preference = made("cublasLtMatmulPreferenceCreate", |to| {
            // SAFETY: the function only writes a pointer.
            unsafe { (functions.create_preference)(to) }
        })?;
        let bytes = product.workspace;
        let schemes = REDUCTION_IN_SCRATCH;
        let set = |attribute, value: *const c_void, bytes| {
            // SAFETY: the callers below pass a value of the attribute's type and size.
            checked("cublasLtMatmulPreferenceSetAttribute", unsafe {
                (functions.set_preference)(preference, attribute, value, bytes)
            })
        };
        let none = Found { algorithm: [0; 8], workspace: 0, state: 0, waves: 0.0, reserved: [0; 4] };
        let mut found = vec![none; most];
        let mut count = 0;
        let searched = set(MOST_WORKSPACE, ptr::from_ref(&bytes).cast(), 8)
            .and_then(|()| set(REDUCTION_SCHEMES, ptr::from_ref(&schemes).cast(), 4))
            .and_then(|()| {
                let alignment = ROW_ALIGNMENT as u32;
                LEAST_ALIGNMENTS.iter().try_for_each(|&which| set(which, ptr::from_ref(&alignment).cast(), 4))
            })
            .and_then(|()| {
                let [a, b, d] = described.layouts();
                let most = c_int::try_from(most).unwrap_or(1);
                let (first, operation) = (found.as_mut_ptr(), described.operation());
                checked("cublasLtMatmulAlgoGetHeuristic", unsafe {
                    // SAFETY: all descriptors are alive, and `found` has room for `most` results.
                    (functions.search)(
                        self.handle(),
                        operation,
                        a,
                        b,
                        d,
                        d,
                        preference,
                        most,
                        first,
                        &raw mut count,
                    )
                })
            });
        // SAFETY: the preference was created above and is not used again.
        unsafe { (functions.destroy_preference)(preference) };
        searched?;
        found.truncate(usize::try_from(count).unwrap_or(0));
        Ok(found.iter().filter(|found| found.state == 0).map(|found| found.algorithm).collect())
    }

    fn multiply(
        &self,
        product: &LibraryProduct,
        algorithm: &Algorithm,
        [lhs, rhs, result, workspace, bias]: [Address; 5],
        stream: Stream,
    ) -> Fallible<()> {
        let described = self.described(product, bias)?;
        let [a, b, d] = described.layouts();
        let (one, zero) = (1.0_f32, 0.0_f32);
        let [lhs, rhs, result, workspace] =
            [lhs, rhs, result, workspace].map(|address| ptr::without_provenance_mut(address as usize));
        checked("cublasLtMatmul", unsafe {
            // SAFETY: the addresses are those of matrices on the device with the described layouts; the
            // factors are read before the call returns.
            (self.functions.multiply)(
                self.handle(),
                described.operation(),
                ptr::from_ref(&one).cast(),
                rhs,
                a,
                lhs,
                b,
                ptr::from_ref(&zero).cast(),
                result,
                d,
                result,
                d,
                algorithm,
                workspace,
                counted(product.workspace),
                ptr::with_exposed_provenance_mut(stream.0),
            )
        })
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: the library created the handle, and it is not used again.
        unsafe { (self.functions.destroy)(self.handle()) };
    }
}

/// The library's descriptors of a product, destroyed on drop.
struct Described<'c> {
    functions: &'c Functions,
    operation: Option<Pointer>,
    /// Layouts of the library's two operands and of the result.
    layouts: Vec<Pointer>,
}

impl Described<'_> {
    fn operation(&self) -> Pointer {
        self.operation.expect("it was described")
    }

    fn layouts(&self) -> [Pointer; 3] {
        [self.layouts[0], self.layouts[1], self.layouts[2]]
    }
}

impl Drop for Described<'_> {
    fn drop(&mut self) {
        // SAFETY: the library created them, and they are not used again.
        unsafe {
            for &layout in &self.layouts {
                (self.functions.destroy_layout)(layout);
            }
            if let Some(operation) = self.operation {
                (self.functions.destroy_operation)(operation);
            }
        }
    }
}

// Values of `cublasComputeType_t`.
const COMPUTE_F32: c_int = 68;
const COMPUTE_FAST_TF32: c_int = 77;
// Values of `cublasLtMatmulDescAttributes_t`.
const TRANSPOSE_A: c_int = 3;
const TRANSPOSE_B: c_int = 4;
const EPILOGUE: c_int = 7;
const BIAS_POINTER: c_int = 8;
/// Value of `cublasLtEpilogue_t`.
const EPILOGUE_BIAS: c_int = 4;
/// Aligned address of a bias, for the choice of an algorithm, which does not read it.
const ANY_BIAS: Address = 256;
// Values of `cublasLtMatrixLayoutAttribute_t`.
const BATCH_COUNT: c_int = 5;
const BATCH_DISTANCE: c_int = 6;
// Values of `cublasLtMatmulPreferenceAttributes_t`.
const MOST_WORKSPACE: c_int = 1;
const REDUCTION_SCHEMES: c_int = 3;
/// Attributes for the minimum alignments in bytes of the operands and the results.
const LEAST_ALIGNMENTS: [c_int; 4] = [5, 6, 7, 8];
/// `CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE`: split-K keeps partial sums in scratch, in f32.
const REDUCTION_IN_SCRATCH: u32 = 2;

/// Returns the `cudaDataType_t` of a dtype.
fn type_of(dtype: DType) -> c_int {
    match dtype {
        DType::F16 => 2,
        DType::BF16 => 14,
        _ => 0,
    }
}

fn made(call: &'static str, make: impl FnOnce(*mut Pointer) -> c_int) -> Fallible<Pointer> {
    let mut pointer = ptr::null_mut();
    checked(call, make(&raw mut pointer))?;
    Ok(pointer)
}

fn checked(call: &'static str, status: c_int) -> Fallible<()> {
    let text = match status {
        0 => return Ok(()),
        1 => "the library was not initialised",
        3 => "the library has no memory",
        7 => "a value is not valid",
        8 => "the device is too old for it",
        13 => "the product failed on the device",
        14 => "the library failed",
        15 => "the library does not support it",
        _ => "the library says no more",
    };
    // Offset the codes, so that they do not collide with the driver's.
    Err(Failure { call, code: 10_000 + status.unsigned_abs(), text: text.to_string() })
}
