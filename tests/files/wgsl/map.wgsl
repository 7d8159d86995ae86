// One element for each invocation; the bias is read by its column, the comparison becomes a selection.
// graph {
//   %0: f32[6, 50] = input "x"
//   %1: f32[50] = param "b"
//   %2: f32[1, 50] = reshape %1
//   %3: f32[6, 50] = broadcast %2
//   %4: f32[6, 50] = add %0, %3
//   %5: f32[6, 50] = constant 0.0
//   %6: bool[6, 50] = gt %4, %5
//   %7: f32[6, 50] = exp %4
//   %8: f32[6, 50] = select %6, %4, %7
//   output "y" %8
// }

// [2, 1, 1] workgroups
// map [6 x 50]
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read> b1: array<f32>;
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}
fn exp_or_nan(x: f32) -> f32 {
    return select(exp(x), x, is_nan(x));
}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 256u) + local);
    if ((v4 < 300u)) {
        let v14 = b0[v4];
        let v20 = b1[(v4 % 50u)];
        let v21 = (v14 + v20);
        b0[v4] = select(exp_or_nan(v21), v21, ((v21 > 0.0f) & !is_nan(v21)));
    }
}
