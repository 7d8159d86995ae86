//! Compiled pipelines that outlive the process.
//!
//! In: the file of an adapter in the user's cache, and the pipelines that are made. Out: the driver's own
//! cache with what the file held. Always holds: a damaged file is ignored; a problem with it is never an
//! error, as pipelines are compiled without it. Not all drivers give their cache away.

use super::gpu::validated;
use gradloom_device::user_cache::{self, hash};
use std::path::{Path, PathBuf};
use wgpu::{Device, Features, PipelineCache, PipelineCacheDescriptor};

/// The start of the file: a format, whose number is the last byte.
const MAGIC: [u8; 8] = *b"gradlpc\x01";
/// Bytes before the driver's own: the format and a checksum.
const HEADER: usize = 16;
/// A larger file is neither read nor written: it would have pipelines of programs that are long gone.
const LARGEST: u64 = 256 << 20;

/// The driver's cache, and where it is kept.
#[derive(Debug)]
pub(super) struct SavedPipelines {
    pub(super) cache: PipelineCache,
    file: PathBuf,
    /// Bytes that the file had for the driver.
    pub(super) found: usize,
}

impl SavedPipelines {
    /// Opens the pipelines kept for an adapter in a folder; none if its driver does not give them away.
    pub(super) fn open(device: &Device, info: &wgpu::AdapterInfo, folder: &Path) -> Option<Self> {
        if !device.features().contains(Features::PIPELINE_CACHE) {
            return None;
        }
        let file = folder.join("pipelines").join(wgpu::util::pipeline_cache_key(info)?);
        let kept = read(&file);
        let found = kept.as_ref().map_or(0, Vec::len);
        let descriptor = PipelineCacheDescriptor { label: None, data: kept.as_deref(), fallback: true };
        // SAFETY: the bytes are what `get_data` gave for an adapter with this key: the checksum excludes
        // damage, and writers of the user's cache folder are trusted. The driver, which may be
        // newer, checks its own header.
        let cache = validated(device, || unsafe { device.create_pipeline_cache(&descriptor) }).ok()?;
        Some(Self { cache, file, found })
    }

    /// Writes what the driver has compiled so far.
    pub(super) fn save(&self) {
        if let Some(data) = self.cache.get_data().filter(|data| data.len() as u64 <= LARGEST) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend(hash(&data).to_le_bytes());
            bytes.extend(data);
            // What cannot be kept is compiled again.
            let _ = user_cache::write(&self.file, &bytes);
        }
    }
}

/// Returns the driver's bytes in a file, if it is whole.
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
