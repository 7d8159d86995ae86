// Many rows: parts of them are added up by workgroups, and the parts by another kernel.
// graph {
//   %0: f32[1024, 40] = input "x"
//   %1: f32[40] = sum %0 {axes=[0]}
//   output "y" %1
// }

// [64, 1, 1] workgroups
// reduce [1024 x 40]
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
var<workgroup> a0: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v2 = (local % 16u);
    let v5 = (local / 16u);
    let v8 = (v2 + 16u);
    let v10 = (v2 + 32u);
    let v12 = min(v10, 39u);
    let v14 = (v10 < 40u);
    var x0 = 0.0f;
    var x1 = 0.0f;
    var x2 = 0.0f;
    let v28 = ((group * 16u) + v5);
    let v36 = b0[((v28 * 40u) + v2)];
    let v42 = b0[((v28 * 40u) + v8)];
    let v48 = b0[((v28 * 40u) + v12)];
    x0 = (x0 + v36);
    x1 = (x1 + v42);
    x2 = (x2 + select(0.0f, v48, v14));
    let v65 = x0;
    a0[local] = v65;
    workgroupBarrier();
    if ((v5 == 0u)) {
        var x3 = v65;
        for (var i0 = 1u; i0 < 16u; i0 += 1u) {
            let v76 = a0[((i0 * 16u) + v2)];
            x3 = (x3 + v76);
        }
        b1[((group * 40u) + v2)] = x3;
    }
    workgroupBarrier();
    let v84 = x1;
    a0[local] = v84;
    workgroupBarrier();
    if ((v5 == 0u)) {
        var x4 = v84;
        for (var i1 = 1u; i1 < 16u; i1 += 1u) {
            let v95 = a0[((i1 * 16u) + v2)];
            x4 = (x4 + v95);
        }
        b1[((group * 40u) + v8)] = x4;
    }
    workgroupBarrier();
    let v103 = x2;
    a0[local] = v103;
    workgroupBarrier();
    if (((v5 == 0u) && v14)) {
        var x5 = v103;
        for (var i2 = 1u; i2 < 16u; i2 += 1u) {
            let v115 = a0[((i2 * 16u) + v2)];
            x5 = (x5 + v115);
        }
        b1[((group * 40u) + v12)] = x5;
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
        for (var i0 = v13; i0 < v7; i0 += 8u) {
            let v32 = b0[((i0 * v10) + v24)];
            x0 = (x0 + v32);
        }
    }
    a0[local] = x0;
    workgroupBarrier();
    if ((v13 == 0u)) {
        for (var i1 = 1u; i1 < 8u; i1 += 1u) {
            let v48 = a0[((i1 * 32u) + local)];
            x0 = (x0 + v48);
        }
    }
    if (((v13 == 0u) && v26)) {
        b1[v24] = x0;
    }
}
