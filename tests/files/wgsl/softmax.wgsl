// 32 invocations for each row find its largest element, then the sum of the exponentials: through shared memory in WGSL, which is for adapters without subgroups here, by shuffles in CUDA C.
// graph {
//   %0: f32[5, 70] = input "x"
//   %1: f32[5] = reduce_max %0 {axes=[1]}
//   %2: f32[5, 1] = reshape %1
//   %3: f32[5, 70] = broadcast %2
//   %4: f32[5, 70] = sub %0, %3
//   %5: f32[5, 70] = exp %4
//   %6: f32[5] = sum %5 {axes=[1]}
//   %7: f32[5, 1] = reshape %6
//   %8: f32[5, 70] = broadcast %7
//   %9: f32[5, 70] = div %5, %8
//   output "y" %9
// }

// [1, 1, 1] workgroups
// row [5 x 70]
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
var<workgroup> a0: array<f32, 256>;
var<workgroup> a1: array<f32, 256>;
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn from_bits(bits: u32) -> f32 {
    var hidden = bits;
    return bitcast<f32>(hidden);
}
fn max_or_nan(a: f32, b: f32) -> f32 {
    return select(select(max(a, b), b, is_nan(b)), a, is_nan(a));
}
fn exp_or_nan(x: f32) -> f32 {
    return select(exp(x), x, is_nan(x));
}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v2 = (local % 32u);
    let v5 = (local / 32u);
    let v9 = (v2 + 32u);
    let v11 = (v2 + 64u);
    let v13 = min(v11, 69u);
    let v15 = (v11 < 70u);
    let v25 = ((group * 8u) + v5);
    let v27 = min(v25, 4u);
    let v29 = (v25 < 5u);
    var x0 = from_bits(0xff800000u);
    let v39 = b0[((v27 * 70u) + v2)];
    x0 = max_or_nan(x0, v39);
    let v47 = b0[((v27 * 70u) + v9)];
    x0 = max_or_nan(x0, v47);
    let v56 = b0[((v27 * 70u) + v13)];
    x0 = max_or_nan(x0, select(from_bits(0xff800000u), v56, v15));
    a0[local] = x0;
    workgroupBarrier();
    for (var i0 = 0u; i0 < 5u; i0 += 1u) {
        let v68 = (16u >> (u32(i0) & 31u));
        if ((v2 < v68)) {
            let v72 = a0[(local + v68)];
            let v75 = a0[local];
            a0[local] = max_or_nan(v75, v72);
        }
        workgroupBarrier();
    }
    let v79 = a0[(v5 * 32u)];
    var x1 = 0.0f;
    let v85 = exp_or_nan((v39 - v79));
    x1 = (x1 + v85);
    let v89 = exp_or_nan((v47 - v79));
    x1 = (x1 + v89);
    let v94 = exp_or_nan((v56 - v79));
    x1 = (x1 + select(0.0f, v94, v15));
    a1[local] = x1;
    workgroupBarrier();
    for (var i1 = 0u; i1 < 5u; i1 += 1u) {
        let v106 = (16u >> (u32(i1) & 31u));
        if ((v2 < v106)) {
            let v110 = a1[(local + v106)];
            let v113 = a1[local];
            a1[local] = (v113 + v110);
        }
        workgroupBarrier();
    }
    let v117 = a1[(v5 * 32u)];
    if (v29) {
        b0[((v27 * 70u) + v2)] = (v85 / v117);
    }
    if (v29) {
        b0[((v27 * 70u) + v9)] = (v89 / v117);
    }
    if ((v15 && v29)) {
        b0[((v27 * 70u) + v13)] = (v94 / v117);
    }
}
