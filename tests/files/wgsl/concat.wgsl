// Each operand has workgroups of its own.
// graph {
//   %0: f32[3, 5] = input "x"
//   %1: f32[3, 40] = input "y"
//   %2: f32[3, 45] = concat %0, %1 {axis=1}
//   output "z" %2
// }

// [2, 1, 1] workgroups
// concat
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v5 = ((group * 256u) + local);
    if (((group < 1u) && (v5 < 15u))) {
        let v15 = b0[v5];
        b2[((v5 % 5u) + ((v5 / 5u) * 45u))] = v15;
    }
    let v32 = (((group - 1u) * 256u) + local);
    if (((!(group < 1u)) && (v32 < 120u))) {
        let v43 = b1[v32];
        b2[((5u + (v32 % 40u)) + ((v32 / 40u) * 45u))] = v43;
    }
}
