//! Elements of a tensor on the host. The results of a run are copied into them once, then handed to the
//! caller.
//!
//! In: bytes of a device, row-major, in native byte order. Out: the same bytes, or numbers that reuse their
//! allocation. Invariant: a failed allocation is an error that names its purpose and never aborts the
//! process.

use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::DType;
use std::fmt::{self, Display};
use std::ops::Deref;

/// Bytes in memory that can be converted to numbers without a copy.
#[derive(Default)]
pub struct Elements {
    /// Storage whose first `bytes` bytes are in use; its length is 0.
    memory: Vec<f32>,
    bytes: usize,
}

impl Elements {
    /// Creates `bytes` zeroed bytes and calls `fill` to set them. `what` names the elements in the error
    /// message.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, or `fill` fails.
    pub fn filled(
        bytes: usize,
        what: &dyn Display,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Self> {
        let mut memory = zeroed::<f32>(bytes.div_ceil(4), what)?;
        // SAFETY: the vector has at least `bytes` bytes, and any bit pattern is a valid f32.
        fill(unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), bytes) })?;
        memory.clear();
        Ok(Self { memory, bytes })
    }

    /// Clears the elements and reserves room to push `bytes` bytes. `what` names them in the error message.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn make_room(&mut self, bytes: usize, what: &dyn Display) -> Result<()> {
        self.bytes = 0;
        // The old vector is replaced, because growing it would copy its content.
        if self.memory.capacity() < bytes.div_ceil(4) {
            self.memory = Vec::new();
        }
        self.memory.try_reserve_exact(bytes.div_ceil(4)).map_err(|_| no_memory(bytes, what))
    }

    /// Appends bytes to the reserved room.
    ///
    /// # Panics
    /// Panics if the room is too small.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = size_of_val(self.memory.spare_capacity_mut()) - self.bytes;
        assert!(bytes.len() <= room, "{} bytes in a room of {room}", bytes.len());
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        // SAFETY: as checked above, at least `bytes.len()` bytes of capacity follow the bytes in use.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.add(self.bytes), bytes.len()) };
        self.bytes += bytes.len();
    }

    /// Takes the elements as f32, leaving `self` empty. Four-byte elements keep their allocation. `what`
    /// names the elements in the error message.
    ///
    /// # Errors
    /// Returns an error if an integer is not exactly representable as f32, or there is no memory for the copy
    /// that elements of another size need.
    pub fn take_f32(&mut self, dtype: DType, what: &dyn Display) -> Result<Vec<f32>> {
        if dtype.bytes() != 4 {
            return std::mem::take(self).to_f32(dtype, what);
        }
        let Self { mut memory, bytes } = std::mem::take(self);
        // SAFETY: `bytes` bytes are initialized, and any four of them are a valid f32.
        unsafe { memory.set_len(bytes / 4) };
        if dtype.is_integer() {
            for element in &mut memory {
                *element = number(dtype, element.to_ne_bytes())?;
            }
        }
        Ok(memory)
    }

    /// Returns a copy of the elements as f32. `what` names them in the error message.
    ///
    /// # Errors
    /// Returns an error if an integer is not exactly representable as f32, or there is no memory for the
    /// copy.
    pub fn to_f32(&self, dtype: DType, what: &dyn Display) -> Result<Vec<f32>> {
        let elements = self.len() / dtype.bytes();
        let mut numbers = Vec::new();
        numbers.try_reserve_exact(elements).map_err(|_| no_memory(elements.saturating_mul(4), what))?;
        if dtype.bytes() == 1 {
            numbers.extend(self.iter().map(|&byte| f32::from(byte)));
            return Ok(numbers);
        }
        if dtype == DType::I64 {
            for bytes in self.as_chunks().0 {
                numbers.push(exact(i64::from_ne_bytes(*bytes))?);
            }
            return Ok(numbers);
        }
        if dtype.bytes() == 2 {
            let number = |pair: &[u8]| dtype.of_narrow_bits(u16::from_ne_bytes([pair[0], pair[1]]));
            numbers.extend(self.chunks_exact(2).map(number));
            return Ok(numbers);
        }
        for word in self.chunks_exact(4) {
            numbers.push(number(dtype, [word[0], word[1], word[2], word[3]])?);
        }
        Ok(numbers)
    }
}

impl Deref for Elements {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the first `bytes` bytes are initialized.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.bytes) }
    }
}

impl fmt::Debug for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

/// Converts a 32-bit number to f32; an integer must be exactly representable.
fn number(dtype: DType, bytes: [u8; 4]) -> Result<f32> {
    let integer = match dtype {
        DType::I32 => i64::from(i32::from_ne_bytes(bytes)),
        DType::U32 => i64::from(u32::from_ne_bytes(bytes)),
        _ => return Ok(f32::from_ne_bytes(bytes)),
    };
    exact(integer)
}

fn exact(integer: i64) -> Result<f32> {
    let float = integer as f32;
    // Exclude 2^63, which is not an i64 but would be converted to `i64::MAX` by saturation.
    if float < 9_223_372_036_854_775_808.0 && float as i64 == integer {
        return Ok(float);
    }
    Err(Error::new(ErrorKind::Feed, format!("the integer {integer} is not an f32"))
        .help("read it as it is, with `typed::<i32>(..)` or `get_as`, or convert it with `.cast(..)`"))
}

fn no_memory(bytes: usize, what: &dyn Display) -> Error {
    Error::new(ErrorKind::Device, format!("no memory for {bytes} bytes of {what}"))
        .help("give out less: a sum or a slice of it, or a smaller batch")
}

/// Name of an output in an error message. The name is formatted only as part of the message, because a step
/// must not allocate.
#[derive(Debug)]
pub struct OutputName<'a>(&'a str);

impl Display for OutputName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the output `{}`", self.0)
    }
}

/// Returns the display form of an output's name for error messages.
pub fn output(name: &str) -> OutputName<'_> {
    OutputName(name)
}

/// Allocates a vector of zeros. `what` names it in the error message.
///
/// # Errors
/// Returns an error if there is not enough memory.
pub fn zeroed<T: Copy + Default>(length: usize, what: &dyn Display) -> Result<Vec<T>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(length).map_err(|_| no_memory(length.saturating_mul(size_of::<T>()), what))?;
    zeros.resize(length, T::default());
    Ok(zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(words: &[u32]) -> Elements {
        let mut elements = Elements::default();
        elements.make_room(4 * words.len(), &"a test").unwrap();
        words.iter().for_each(|word| elements.push(&word.to_ne_bytes()));
        elements
    }

    #[test]
    fn numbers_come_in_the_memory_of_their_bytes() {
        let mut floats = elements(&[1.5_f32.to_bits(), f32::NAN.to_bits()]);
        let address = floats.as_ptr();
        let numbers = floats.take_f32(DType::F32, &"a test").unwrap();
        assert_eq!(numbers.as_ptr().cast::<u8>(), address);
        assert!(numbers[0] == 1.5 && numbers[1].is_nan() && floats.is_empty());
        let mut integers = elements(&[3, u32::MAX]);
        let address = integers.as_ptr();
        let numbers = integers.take_f32(DType::I32, &"a test").unwrap();
        assert_eq!((numbers.as_ptr().cast(), &numbers[..]), (address, &[3.0, -1.0][..]));
        let error = elements(&[3, u32::MAX]).take_f32(DType::U32, &"a test").unwrap_err();
        assert_eq!(error.message(), "the integer 4294967295 is not an f32");
    }

    #[test]
    fn other_integers_are_numbers_where_they_are_exact() {
        let of = |bytes: &[u8]| {
            let mut elements = Elements::default();
            elements.make_room(bytes.len(), &"a test").unwrap();
            elements.push(bytes);
            elements
        };
        assert_eq!(of(&[0, 255, 7]).take_f32(DType::U8, &"a test").unwrap(), [0.0, 255.0, 7.0]);
        let wide = [i64::MIN, -1, 1 << 40].map(i64::to_ne_bytes).concat();
        let numbers = of(&wide).take_f32(DType::I64, &"a test").unwrap();
        assert_eq!(numbers, [-(2.0_f32.powi(63)), -1.0, 2.0_f32.powi(40)]);
        for inexact in [i64::MAX, (1 << 24) + 1] {
            let error = of(&inexact.to_ne_bytes()).to_f32(DType::I64, &"a test").unwrap_err();
            assert_eq!(error.message(), format!("the integer {inexact} is not an f32"));
        }
    }

    #[test]
    fn bools_and_copies() {
        let mut bools = Elements::default();
        bools.make_room(3, &"a test").unwrap();
        bools.push(&[1, 0, 1]);
        assert_eq!(bools.to_f32(DType::Bool, &"a test").unwrap(), [1.0, 0.0, 1.0]);
        assert_eq!(bools.take_f32(DType::Bool, &"a test").unwrap(), [1.0, 0.0, 1.0]);
        assert_eq!(elements(&[7, 8]).to_f32(DType::U32, &"a test").unwrap(), [7.0, 8.0]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends where the system would refuse memory")]
    fn memory_is_used_again_and_what_is_not_there_is_an_error() {
        let mut slot = elements(&[1, 2, 3]);
        let address = slot.as_ptr();
        slot.make_room(8, &"a test").unwrap();
        assert_eq!((slot.as_ptr(), slot.len()), (address, 0));
        for bytes in [usize::MAX, isize::MAX as usize + 1, 1 << 62] {
            let error = slot.make_room(bytes, &output("y")).unwrap_err();
            assert_eq!(error.message(), format!("no memory for {bytes} bytes of the output `y`"));
        }
        assert!(zeroed::<u8>(usize::MAX, &"a test").is_err() && zeroed::<f32>(1 << 62, &"a test").is_err());
    }

    #[test]
    #[should_panic(expected = "8 bytes in a room of")]
    fn more_than_there_is_room_for() {
        let mut slot = elements(&[]);
        slot.push(&[0; 8]);
    }
}
