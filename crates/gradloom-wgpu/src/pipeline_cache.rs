//! Cache of compiled pipelines on disk.
//!
//! In: an adapter's file in the user's cache, and new pipelines. Out: the driver's own cache, initialized
//! from the file. Invariant: a damaged file is ignored, and a problem with the file is never an error,
//! since pipelines can be compiled without it. Some drivers do not support it.

use super::gpu::validated;
use gradloom_device::user_cache::{self, hash};
use std::path::{Path, PathBuf};
use wgpu::{Device, Features, PipelineCache, PipelineCacheDescriptor};

/// Start of the file: the format, with its version as the last byte.
const MAGIC: [u8; 8] = *b"gradlpc\x01";
/// Size in bytes of the format and the checksum, which precede the driver's data.
const HEADER: usize = 16;
/// Maximum size in bytes of a file that is read or written. A larger one would contain mostly pipelines of
/// programs that no longer exist.
const LARGEST: u64 = 256 << 20;

/// The driver's cache and the path of its file.
#[derive(Debug)]
pub(super) struct SavedPipelines {
    pub(super) cache: PipelineCache,
    file: PathBuf,
    /// Number of bytes of driver data that the file contained.
    pub(super) found: usize,
}

impl SavedPipelines {
    /// Opens the cache of an adapter in a folder; returns `None` if the driver does not support it.
    pub(super) fn open(device: &Device, info: &wgpu::AdapterInfo, folder: &Path) -> Option<Self> {
        if !device.features().contains(Features::PIPELINE_CACHE) {
            return None;
        }
        let file = folder.join("pipelines").join(wgpu::util::pipeline_cache_key(info)?);
        let kept = read(&file);
        let found = kept.as_ref().map_or(0, Vec::len);
        let descriptor = PipelineCacheDescriptor { label: None, data: kept.as_deref(), fallback: true };
        // SAFETY: `get_data` returned the bytes for an adapter with this key: the checksum detects damage,
        // and programs that write to the user's cache folder are trusted. The driver, which may be newer,
        // checks its own header.
        let cache = validated(device, || unsafe { device.create_pipeline_cache(&descriptor) }).ok()?;
        Some(Self { cache, file, found })
    }

    /// Writes all pipelines compiled so far to the file.
    pub(super) fn save(&self) {
        if let Some(data) = self.cache.get_data().filter(|data| data.len() as u64 <= LARGEST) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend(hash(&data).to_le_bytes());
            bytes.extend(data);
            // Ignore a failure, after which the next process compiles the pipelines again.
            let _ = user_cache::write(&self.file, &bytes);
        }
    }
}

/// Returns the driver's data in a file, if the file is intact.
fn read(file: &Path) -> Option<Vec<u8>> {
    let mut bytes = gradloom_device::regular_file::read(file, LARGEST + HEADER as u64).ok()?;
    let header = bytes.get(..HEADER)?;
    let sum = u64::from_le_bytes(header[8..].try_into().ok()?);
    if header[..8] != MAGIC || hash(&bytes[HEADER..]) != sum {
        return None;
    }
    bytes.drain(..HEADER);
    Some(bytes)
}
