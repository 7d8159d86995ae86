//! Pieces of chunks, and elements as bytes.
//!
//! In: ranges, elements. Out: parts of them that are sent at once, as little-endian bytes. Invariant: bytes
//! and elements that belong together have matching lengths.

use std::ops::Range;

/// Bytes of an element.
pub(super) const WIDTH: usize = size_of::<f32>();
/// Longest piece, in bytes.
pub(super) const BYTES: usize = 256 << 10;
/// Longest piece, in elements.
pub(super) const ELEMENTS: usize = BYTES / WIDTH;

/// Returns the `lane`-th piece of a range; empty beyond its end.
pub(super) fn piece(range: Range<usize>, lane: usize, length: usize) -> Range<usize> {
    let begin = (range.start + lane * length).min(range.end);
    begin..(begin + length).min(range.end)
}

/// Appends the bytes of elements.
pub(super) fn put(bytes: &mut Vec<u8>, elements: &[f32]) {
    let begin = bytes.len();
    bytes.resize(begin + elements.len() * WIDTH, 0);
    for (bytes, element) in bytes[begin..].as_chunks_mut().0.iter_mut().zip(elements) {
        *bytes = element.to_le_bytes();
    }
}

/// Adds elements to those whose bytes are given.
pub(super) fn add(bytes: &mut [u8], elements: &[f32]) {
    for (bytes, element) in bytes.as_chunks_mut().0.iter_mut().zip(elements) {
        *bytes = (f32::from_le_bytes(*bytes) + element).to_le_bytes();
    }
}

/// Replaces elements by those whose bytes are given.
pub(super) fn take(elements: &mut [f32], bytes: &[u8]) {
    for (element, bytes) in elements.iter_mut().zip(bytes.as_chunks().0) {
        *element = f32::from_le_bytes(*bytes);
    }
}
