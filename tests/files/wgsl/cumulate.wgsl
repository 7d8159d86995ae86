// Totals of pieces, what is before each piece, and then the sums from the last element back.
// graph {
//   %0: f32[2, 3000] = input "x"
//   %1: f32[2, 3000] = cumsum %0 {reverse}
//   output "y" %1
// }

// [4, 1, 1] workgroups
// cumulate: pieces
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> w0: array<f32>;
var<workgroup> a0: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v8 = ((((group % 2u) * 256u) + local) * 8u);
    let v12 = (group / 2u);
    var x0 = 0.0f;
    for (var i0 = min(v8, 3000u); i0 < min((v8 + 8u), 3000u); i0 += 1u) {
        let v29 = b0[((v12 * 3000u) + (2999u - i0))];
        x0 = (x0 + v29);
    }
    a0[local] = x0;
    workgroupBarrier();
    for (var i1 = 0u; i1 < 8u; i1 += 1u) {
        let v38 = (1u << (u32(i1) & 31u));
        let v40 = (!(local < v38));
        let v44 = a0[select(0u, (local - v38), v40)];
        let v47 = a0[local];
        workgroupBarrier();
        a0[local] = (select(0.0f, v44, v40) + v47);
        workgroupBarrier();
    }
    if ((local == 0u)) {
        let v53 = a0[255u];
        w0[group] = v53;
    }
}

// [2, 1, 1] workgroups
// cumulate: before
@group(0) @binding(0) var<storage, read_write> w0: array<f32>;
var<workgroup> a0: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v2 = (group * 2u);
    let v7 = min(local, 2u);
    let v13 = min((local + 1u), 2u);
    var x0 = 0.0f;
    for (var i0 = v7; i0 < v13; i0 += 1u) {
        let v19 = w0[(v2 + i0)];
        x0 = (x0 + v19);
    }
    a0[local] = x0;
    workgroupBarrier();
    for (var i1 = 0u; i1 < 8u; i1 += 1u) {
        let v28 = (1u << (u32(i1) & 31u));
        let v30 = (!(local < v28));
        let v34 = a0[select(0u, (local - v28), v30)];
        let v37 = a0[local];
        workgroupBarrier();
        a0[local] = (select(0.0f, v34, v30) + v37);
        workgroupBarrier();
    }
    let v41 = (0u < local);
    let v47 = a0[select(0u, (local - 1u), v41)];
    var x1 = select(0.0f, v47, v41);
    for (var i2 = v7; i2 < v13; i2 += 1u) {
        let v53 = w0[(v2 + i2)];
        w0[(v2 + i2)] = x1;
        x1 = (x1 + v53);
    }
}

// [4, 1, 1] workgroups
// cumulate
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(2) var<storage, read_write> w0: array<f32>;
var<workgroup> a0: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v8 = ((((group % 2u) * 256u) + local) * 8u);
    let v12 = (group / 2u);
    let v13 = min(v8, 3000u);
    let v16 = min((v8 + 8u), 3000u);
    var x0 = 0.0f;
    for (var i0 = v13; i0 < v16; i0 += 1u) {
        let v29 = b0[((v12 * 3000u) + (2999u - i0))];
        x0 = (x0 + v29);
    }
    a0[local] = x0;
    workgroupBarrier();
    for (var i1 = 0u; i1 < 8u; i1 += 1u) {
        let v38 = (1u << (u32(i1) & 31u));
        let v40 = (!(local < v38));
        let v44 = a0[select(0u, (local - v38), v40)];
        let v47 = a0[local];
        workgroupBarrier();
        a0[local] = (select(0.0f, v44, v40) + v47);
        workgroupBarrier();
    }
    let v51 = (0u < local);
    let v57 = a0[select(0u, (local - 1u), v51)];
    let v61 = w0[group];
    var x1 = (v61 + select(0.0f, v57, v51));
    for (var i2 = v13; i2 < v16; i2 += 1u) {
        let v74 = b0[((v12 * 3000u) + (2999u - i2))];
        x1 = (x1 + v74);
        b1[((v12 * 3000u) + (2999u - i2))] = x1;
    }
}
