// A zero divisor is a trap that names its element. WGSL defines x / 0 and -2^31 / -1, CUDA C does not, so a function stands between.
// graph {
//   %0: i32[70] = input "x"
//   %1: i32[70] = input "y"
//   %2: i32[70] = div %0, %1
//   output "z" %2
// }

// [1, 1, 1] workgroups
// map [1 x 70]
@group(0) @binding(0) var<storage, read_write> b0: array<i32>;
@group(0) @binding(1) var<storage, read_write> b1: array<i32>;
@group(0) @binding(2) var<storage, read_write> status: array<atomic<u32>, 52>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 256u) + local);
    if ((v4 < 70u)) {
        let v14 = b1[v4];
        if (v14 == 0 && atomicCompareExchangeWeak(&status[1], 0u, 1u).exchanged) {
            atomicStore(&status[2], v4);
        }
        let v18 = b0[v4];
        b0[v4] = (v18 / v14);
    }
}
