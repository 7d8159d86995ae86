//! Tensors that stay on a device.

use gradloom_core::plan::ALIGNMENT;
use gradloom_cpu::CpuDevice as _;
use gradloom_device::Device;
use std::sync::Arc;

#[test]
fn the_memory_goes_with_the_last_handle() {
    let tensor = Device::cpu().upload(&[1.0f32; 6], [2, 3]).unwrap();
    let memory = Arc::downgrade(tensor.memory());
    let other = tensor.reshape([3, 2]).unwrap();
    drop(tensor);
    assert_eq!((memory.strong_count(), memory.upgrade().unwrap().len()), (1, ALIGNMENT as usize));
    drop(other);
    assert_eq!(memory.strong_count(), 0);
}
