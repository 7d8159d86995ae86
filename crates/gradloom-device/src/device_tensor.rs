//! Elements that stay on a device.
//!
//! In: data of the host, or results of a run. Out: a [`DeviceTensor`], which programs of the device take as
//! an input, and whose elements are read on demand. Always holds: the elements never change, so that handles
//! can be shared, and a step that was queued sees them as they were; the memory goes with the last handle,
//! once the device has done what was queued with it.

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

/// A tensor on a device: data that was uploaded once (`Session::upload`), or the
/// result of a run that stayed there (`Infer::run_on_device`). Programs of the
/// same device take it as data, beside slices of the host.
///
/// A program on the CPU reads it where it lies. On a GPU its bytes are copied from buffer to buffer, in the
/// submission of the step; nothing goes through the host. Clones are handles to the same elements, which
/// never change.
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
    /// Copies elements to the device, row-major.
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
    /// When there are not as many elements as the shape says; when the device is lost, or has not that much
    /// memory; on the null device, which keeps no bytes.
    pub fn upload<'a>(&self, data: impl Into<Data<'a>>, shape: impl Into<Shape>) -> Result<DeviceTensor> {
        let data = data.into();
        let ty = Type::new(data.dtype(), shape.into());
        check_size(&ty, data.len())?;
        let tensor = DeviceTensor::new(self.backend(), ty)?;
        tensor.memory.write(0, &data.bytes()?)?;
        Ok(tensor)
    }
}

/// # Errors
/// When a number of elements is not that of a shape.
fn check_size(ty: &Type, elements: usize) -> Result<()> {
    let wanted = ty.elements();
    if wanted == elements {
        return Ok(());
    }
    let message = format!("{ty} has {wanted} elements, got {elements}");
    Err(Error::new(ErrorKind::Feed, message).help("give as many elements as the product of the extents"))
}

impl DeviceTensor {
    /// Allocates memory for a tensor whose elements are 0.
    pub fn new(backend: &Arc<dyn Backend>, ty: Type) -> Result<Self> {
        backend.check()?;
        if !backend.is_resident() {
            let message = "this device plans only: it keeps no tensors";
            return Err(Error::new(ErrorKind::Device, message).help("use `Device::cpu()`, or a GPU"));
        }
        let bytes = ty.bytes();
        // Whole, as kernels of the CPU expect of a buffer.
        let room = bytes.checked_next_multiple_of(ALIGNMENT);
        let Some(memory) = room.and_then(|room| backend.allocate(room)) else {
            // A device that was lost meanwhile looks as if it had no memory.
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

    /// Returns the type of its elements.
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

    /// Returns its extents.
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

    /// Returns the bytes of its elements.
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

    /// Returns the same elements, row-major, in another shape. Nothing is copied.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// let tensor = gradloom_device::Device::cpu().upload(&[0.0f32; 6], [2, 3])?;
    /// assert_eq!(tensor.reshape([6])?.shape()[..], [6]);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the shape has another number of elements.
    pub fn reshape(&self, shape: impl Into<Shape>) -> Result<Self> {
        let ty = Type::new(self.ty.dtype, shape.into());
        check_size(&ty, self.ty.elements())?;
        Ok(Self { ty, ..self.clone() })
    }

    /// Copies the elements to the host, row-major, as f32. Waits for what makes them.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// let tensor = gradloom_device::Device::cpu().upload(&[1.0f32, 2.0], [2])?;
    /// assert_eq!(tensor.get()?, [1.0, 2.0]);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// When an integer is not an f32; when the device is lost.
    pub fn get(&self) -> Result<Vec<f32>> {
        self.to_host()?.take_f32(self.ty.dtype, &self.described())
    }

    /// Like [`DeviceTensor::get`], in the tensor's own type.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// let tensor = gradloom_device::Device::cpu().upload(&[1i64 << 40], [1])?;
    /// assert_eq!(tensor.get_as::<i64>()?, [1 << 40]);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it is of another type; when the device is lost.
    pub fn get_as<T: Element>(&self) -> Result<Vec<T>> {
        read_as(&self.described(), self.ty.dtype, &self.to_host()?)
    }

    /// Returns the elements as bytes of the host.
    pub fn to_host(&self) -> Result<Elements> {
        Elements::filled(counted(self.bytes()), &self.described(), |bytes| self.memory.read(0, bytes))
    }

    fn described(&self) -> String {
        format!("the device's tensor {}", self.ty)
    }

    /// Returns the type.
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// Returns the memory, in which the elements are row-major.
    #[doc(hidden)]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Returns whether programs of a device can take the tensor.
    pub fn is_on(&self, backend: &Arc<dyn Backend>) -> bool {
        Arc::ptr_eq(&self.backend, backend)
    }
}
