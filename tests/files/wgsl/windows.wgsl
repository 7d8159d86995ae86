// Where a window starts comes from data, so it is checked: one out of range is a trap.
// graph {
//   %0: f32[7, 9] = input "x"
//   %1: i32[] = input "i"
//   %2: f32[2, 3] = dynamic_slice %0, %1, %1
//   %3: f32[4, 8] = pad %2 {low=[1, 0], high=[1, 1], interior=[0, 2], value=-1.5}
//   output "y" %3
// }

// [1, 1, 1] workgroups
// dynamic_slice
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<i32>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(3) var<storage, read_write> status: array<atomic<u32>, 52>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 256u) + local);
    if ((v4 < 6u)) {
        let v9 = b1[0u];
        if (v9 < 0 || v9 >= 6) {
            if (atomicCompareExchangeWeak(&status[1], 0u, 1u).exchanged) {
                atomicStore(&status[2], 0u);
                atomicStore(&status[3], bitcast<u32>(v9));
                atomicStore(&status[4], 6u);
            }
        }
        let v18 = b1[0u];
        if (v18 < 0 || v18 >= 7) {
            if (atomicCompareExchangeWeak(&status[1], 0u, 1u).exchanged) {
                atomicStore(&status[2], 1u);
                atomicStore(&status[3], bitcast<u32>(v18));
                atomicStore(&status[4], 7u);
            }
        }
        let v38 = b0[((((v4 / 3u) + bitcast<u32>(min(max(v9, 0i), 5i))) * 9u) + ((v4 % 3u) + bitcast<u32>(min(max(v18, 0i), 6i))))];
        b2[v4] = v38;
    }
}

// [1, 1, 1] workgroups
// pad
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 256u) + local);
    if ((v4 < 32u)) {
        var x0 = (-1.5f);
        let v12 = (v4 % 8u);
        let v16 = ((v4 / 8u) - 1u);
        if ((((true && (v16 < 2u)) && (v12 < 7u)) && ((v12 % 3u) == 0u))) {
            let v37 = b0[((v16 * 3u) + (v12 / 3u))];
            x0 = v37;
        }
        b1[v4] = x0;
    }
}
