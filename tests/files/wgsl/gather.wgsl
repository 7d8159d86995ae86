// Each index is checked by one invocation, and clamped by all.
// graph {
//   %0: f32[7, 40] = param "x"
//   %1: i32[3, 4] = input "i"
//   %2: f32[3, 4, 40] = gather %0, %1 {batch=0}
//   output "y" %2
// }

// [2, 1, 1] workgroups
// gather
@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<i32>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> status: array<atomic<u32>, 52>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 256u) + local);
    if ((v4 < 480u)) {
        let v8 = (v4 / 40u);
        let v14 = b1[v8];
        if (v14 < 0 || v14 >= 7) {
            if (atomicCompareExchangeWeak(&status[1], 0u, 1u).exchanged) {
                atomicStore(&status[2], v8);
                atomicStore(&status[3], bitcast<u32>(v14));
                atomicStore(&status[4], 7u);
            }
        }
        let v30 = b0[((bitcast<u32>(min(max(v14, 0i), 6i)) * 40u) + (v4 % 40u))];
        b2[v4] = v30;
    }
}
