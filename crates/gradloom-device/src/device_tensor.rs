//! Tensors that stay on a device.
//!
//! In: host data or results of a run. Out: a [`DeviceTensor`], which programs of the device accept as an
//! input and whose elements can be read on demand. Invariant: the elements never change, so handles can be
//! shared and queued steps read the right values; the memory is freed with the last handle, once the device
//! has completed the work that uses it.

use crate::backend::Backend;
use crate::device::Device;
use crate::elements::Elements;
use crate::feed::Data;
use crate::memory::{Memory, counted};
use crate::outputs::{Element, read_as};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DType, Shape, Type};
use gradloom_core::plan::ALIGNMENT;
use std::fmt;
use std::sync::Arc;

/// A tensor on a device: data uploaded once (`Session::upload`), or the result of a run that stays on the
/// device (`Infer::run_on_device`). Programs of the same device accept it as input data, like slices of the
/// host.
///
/// A CPU program reads it in place. On a GPU, the step's submission copies it from buffer to buffer without
/// a transfer through the host. Clones are handles to the same immutable elements.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
/// # use gradloom_cpu::CpuDevice as _;
/// use gradloom::{nn::Linear, optim::Sgd, trace::f32};
/// use gradloom::{Device, Trainer};
///
/// let mut train = Trainer::new(Linear::new(3, 1))
///     .inputs([f32("x", [4, 3]), f32("y", [4, 1])])
///     .loss(|layer, [x, y]| layer.forward(x).mse_loss(y))
///     .optimizer(Sgd::new(0.1))
///     .compile(&Device::cpu())?;
/// let x = train.session().upload(&[1.0f32; 12], [4, 3])?;
/// for step in 0..10 {
///     train.step((&x, &[step as f32; 4]))?.loss()?;
/// }
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[derive(Clone)]
pub struct DeviceTensor {
    backend: Arc<dyn Backend>,
    ty: Type,
    memory: Arc<Memory>,
}

impl fmt::Debug for DeviceTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.ty, self.backend.name())
    }
}

impl Device {
    /// Copies row-major elements to the device.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// let device = gradloom_device::Device::cpu();
    /// let tensor = device.upload(&[1i32, 2, 3, 4, 5, 6], [2, 3])?;
    /// assert_eq!(tensor.get_as::<i32>()?, [1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the number of elements does not match the shape, the device is lost or has too
    /// little memory, or the device is the null device, which stores no data.
    pub fn upload<'a>(&self, data: impl Into<Data<'a>>, shape: impl Into<Shape>) -> Result<DeviceTensor> {
        let data = data.into();
        let ty = Type::new(data.dtype(), shape.into());
        check_size(&ty, data.len())?;
        let tensor = DeviceTensor::new(self.backend(), ty)?;
        tensor.memory.write(0, &data.bytes()?)?;
        Ok(tensor)
    }
}

/// Checks that a number of elements matches a type.
///
/// # Errors
/// Returns an error if the number differs from that of the type.
fn check_size(ty: &Type, elements: usize) -> Result<()> {
    let wanted = ty.elements();
    if wanted == elements {
        return Ok(());
    }
    let message = format!("{ty} has {wanted} elements, got {elements}");
    Err(Error::new(ErrorKind::Feed, message).help("give as many elements as the product of the extents"))
}

impl DeviceTensor {
    /// Allocates a tensor of zeros.
    pub fn new(backend: &Arc<dyn Backend>, ty: Type) -> Result<Self> {
        backend.check()?;
        if !backend.is_resident() {
            let message = "this device plans only: it keeps no tensors";
            return Err(Error::new(ErrorKind::Device, message).help("use `Device::cpu()`, or a GPU"));
        }
        let bytes = ty.bytes();
        // Round up the size, because CPU kernels expect it to be a multiple of the alignment.
        let room = bytes.checked_next_multiple_of(ALIGNMENT);
        let Some(memory) = room.and_then(|room| backend.allocate(room)) else {
            // Report a loss of the device, which also makes an allocation fail.
            backend.check()?;
            let error = Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of {ty}"));
            return Err(match backend.buffer_bytes().filter(|most| bytes > *most) {
                Some(most) => error
                    .note(format!("a buffer of the device has at most {most} bytes"))
                    .help("keep it in several tensors"),
                None => error.help("drop tensors that are no longer used, or keep smaller ones"),
            });
        };
        Ok(Self { backend: Arc::clone(backend), ty, memory: Arc::new(memory) })
    }

    /// Returns the type of the elements.
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom::ir::DType;
    /// let tensor = gradloom_device::Device::cpu().upload(&[1u8, 2], [2])?;
    /// assert_eq!(tensor.dtype(), DType::U8);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// Returns the shape.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// let tensor = gradloom_device::Device::cpu().upload(&[0.0f32; 6], [2, 3])?;
    /// assert_eq!(tensor.shape()[..], [2, 3]);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn shape(&self) -> &Shape {
        &self.ty.shape
    }

    /// Returns the size of the elements in bytes.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// let tensor = gradloom_device::Device::cpu().upload(&[0.0f32; 6], [2, 3])?;
    /// assert_eq!(tensor.bytes(), 24);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn bytes(&self) -> u64 {
        self.ty.bytes()
    }

    /// Returns a tensor with the same elements, row-major, in another shape. Copies nothing.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// let tensor = gradloom_device::Device::cpu().upload(&[0.0f32; 6], [2, 3])?;
    /// assert_eq!(tensor.reshape([6])?.shape()[..], [6]);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the shape has a different number of elements.
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Self> {
        let ty = Type::new(self.ty.dtype, shape.into());
        check_size(&ty, self.ty.elements())?;
        Ok(Self { ty, ..self.clone() })
    }

    /// Waits for the elements to be computed and copies them to the host, row-major, as f32.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// let tensor = gradloom_device::Device::cpu().upload(&[1.0f32, 2.0], [2])?;
    /// assert_eq!(tensor.get()?, [1.0, 2.0]);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if an integer is not exactly representable as f32, or the device is lost.
    pub fn get(&self) -> Result<Vec<f32>> {
        self.to_host()?.take_f32(self.ty.dtype, &self.described())
    }

    /// Like [`DeviceTensor::get`], but in the tensor's own type.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// let tensor = gradloom_device::Device::cpu().upload(&[1i64 << 40], [1])?;
    /// assert_eq!(tensor.get_as::<i64>()?, [1 << 40]);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the tensor has another type, or the device is lost.
    pub fn get_as<T: Element>(&self) -> Result<Vec<T>> {
        read_as(&self.described(), self.ty.dtype, &self.to_host()?)
    }

    /// Copies the bytes of the elements to the host.
    pub fn to_host(&self) -> Result<Elements> {
        Elements::filled(counted(self.bytes()), &self.described(), |bytes| self.memory.read(0, bytes))
    }

    fn described(&self) -> String {
        format!("the device's tensor {}", self.ty)
    }

    /// Returns the type, with the shape.
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// Returns the memory that holds the elements, row-major.
    #[doc(hidden)]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Returns `true` if programs of the device can use the tensor.
    pub fn is_on(&self, backend: &Arc<dyn Backend>) -> bool {
        Arc::ptr_eq(&self.backend, backend)
    }
}
