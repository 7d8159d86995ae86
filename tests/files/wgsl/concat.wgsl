// One kernel for each operand.
// graph {
//   %0: f32[3, 5] = input "x"
//   %1: f32[3, 40] = input "y"
//   %2: f32[3, 45] = concat %0, %1 {axis=1}
//   output "z" %2
// }

// [1, 1, 1] workgroups
// concat: operand 0
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b2: array<f32>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 256u) + local);
    if ((v4 < 15u)) {
        let v10 = b0[v4];
        b2[((v4 % 5u) + ((v4 / 5u) * 45u))] = v10;
    }
}

// [1, 1, 1] workgroups
// concat: operand 1
@group(0) @binding(0) var<storage, read_write> b1: array<f32>;
@group(0) @binding(1) var<storage, read_write> b2: array<f32>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v4 = ((group * 256u) + local);
    if ((v4 < 120u)) {
        let v10 = b1[v4];
        b2[((5u + (v4 % 40u)) + ((v4 / 40u) * 45u))] = v10;
    }
}
