// Many rows: parts of them are added up by workgroups, and the parts by another kernel.
// graph {
//   %0: f32[1024, 40] = input "x"
//   %1: f32[40] = sum %0 {axes=[0]}
//   output "y" %1
// }

// [128, 1, 1] workgroups
// reduce [1024 x 40]
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
var<workgroup> a0: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v2 = (local % 64u);
    let v5 = (local / 64u);
    let v9 = min(v2, 39u);
    let v11 = (v2 < 40u);
    var x0 = 0.0f;
    for (var i0 = 0u; i0 < 2u; i0 += 2u) {
        let v44 = b0[((((((group * 2u) + i0) * 4u) + v5) * 40u) + v9)];
        let v52 = b0[((((((group * 2u) + (i0 + 1u)) * 4u) + v5) * 40u) + v9)];
        x0 = (x0 + select(0.0f, v44, v11));
        x0 = (x0 + select(0.0f, v52, v11));
    }
    let v81 = x0;
    a0[local] = v81;
    workgroupBarrier();
    if (((v5 == 0u) && v11)) {
        var x1 = v81;
        for (var i1 = 1u; i1 < 4u; i1 += 1u) {
            let v93 = a0[((i1 * 64u) + v2)];
            x1 = (x1 + v93);
        }
        b1[((group * 40u) + v9)] = x1;
    }
    workgroupBarrier();
}

// [2, 1, 1] workgroups
// 1 kernels: sums of columns
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(2) var<storage, read> entries: array<u32>;
var<workgroup> a0: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v7 = entries[1u];
    let v10 = entries[2u];
    let v13 = (local / 32u);
    let v17 = entries[0u];
    let v24 = (((group - v17) * 32u) + (local % 32u));
    var x0 = 0.0f;
    let v26 = (v24 < v10);
    if (v26) {
        for (var i0 = v13; i0 < v7; i0 += 64u) {
            var x1 = 0.0f;
            for (var i1 = i0; i1 < min((i0 + 64u), v7); i1 += 8u) {
                let v38 = b0[((i1 * v10) + v24)];
                x1 = (x1 + v38);
            }
            x0 = (x0 + x1);
        }
    }
    a0[local] = x0;
    workgroupBarrier();
    if ((v13 < 4u)) {
        let v52 = a0[(local + 128u)];
        let v55 = a0[local];
        a0[local] = (v55 + v52);
    }
    workgroupBarrier();
    if ((v13 < 2u)) {
        let v62 = a0[(local + 64u)];
        let v65 = a0[local];
        a0[local] = (v65 + v62);
    }
    workgroupBarrier();
    if ((v13 < 1u)) {
        let v72 = a0[(local + 32u)];
        let v75 = a0[local];
        a0[local] = (v75 + v72);
    }
    workgroupBarrier();
    if ((v13 == 0u)) {
        let v80 = a0[local];
        x0 = v80;
    }
    if (((v13 == 0u) && v26)) {
        b1[v24] = x0;
    }
}
