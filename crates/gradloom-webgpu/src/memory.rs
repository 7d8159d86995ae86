//! Memory of a web page's device, in a buffer.

use super::host::{WebHost, WebRange};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_device::memory::DeviceMemory;
use std::sync::Arc;

/// Memory on the device.
#[derive(Debug)]
pub struct WebMemory {
    host: Arc<dyn WebHost>,
    buffer: u32,
    bytes: usize,
}

impl WebMemory {
    pub(super) fn new(host: &Arc<dyn WebHost>, bytes: usize) -> Self {
        let buffer = host.buffer(bytes.max(4).next_multiple_of(4));
        Self { host: Arc::clone(host), buffer, bytes }
    }

    /// Returns a byte range, which must consist of whole 4-byte words.
    pub(super) fn range(&self, start: usize, bytes: usize) -> WebRange {
        WebRange { buffer: self.buffer, start, bytes }
    }

    /// Returns the id of the buffer.
    pub fn buffer(&self) -> u32 {
        self.buffer
    }
}

impl DeviceMemory for WebMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn read(&self, _: usize, _: &mut [u8]) -> Result<()> {
        let error =
            Error::new(ErrorKind::Device, "a page's GPU hands bytes over later: they cannot be read at once");
        Err(error.help("copy them in the script, from where the store says that they are"))
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        if bytes.len().is_multiple_of(4) {
            self.host.write(self.buffer, offset, bytes);
            return Ok(());
        }
        // Write whole words. The bytes after an entry, up to its alignment, are padding and can be
        // overwritten.
        let mut words = bytes.to_vec();
        words.resize(bytes.len().next_multiple_of(4), 0);
        self.host.write(self.buffer, offset, &words);
        Ok(())
    }
}

impl Drop for WebMemory {
    fn drop(&mut self) {
        self.host.drop_buffer(self.buffer);
    }
}
