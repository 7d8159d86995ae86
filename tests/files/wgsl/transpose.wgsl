// The flat result of a permuted operand cannot be a view: a copy reads through the strides.
// graph {
//   %0: f32[6, 50] = param "x"
//   %1: f32[50, 6] = permute %0 {perm=[1, 0]}
//   %2: f32[300] = reshape %1
//   output "y" %2
// }

// [2, 1, 1] workgroups
// map [1 x 300]
@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 256u) + local);
    if ((v4 < 300u)) {
        let v13 = (((v4 / 300u) * 300u) + (v4 % 300u));
        let v24 = b0[(((v13 % 6u) * 50u) + (v13 / 6u))];
        b1[v4] = v24;
    }
}
