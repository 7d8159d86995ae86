// Updates of three parameters of different sizes in one kernel: a table has where each one's elements are.
// graph {
//   %0: f32[40] = param "a"
//   %1: f32[3, 8] = param "b"
//   %2: f32[300] = param "c"
//   %3: f32[40] = input "da"
//   %4: f32[3, 8] = input "db"
//   %5: f32[300] = input "dc"
//   %6: f32[40] = sub %0, %3
//   %7: f32[3, 8] = sub %1, %4
//   %8: f32[300] = sub %2, %5
//   update %0 <- %6
//   update %1 <- %7
//   update %2 <- %8
// }

// [3, 1, 1] workgroups
// 3 kernels: map
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read> b1: array<f32>;
@group(0) @binding(2) var<storage, read> entries: array<u32>;
@group(0) @binding(3) var<storage, read> status: array<u32, 52>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let committed = status[0] == 0u;
    var x0 = 0u;
    var x1 = 3u;
    for (var i0 = 0u; i0 < 2u; i0 += 1u) {
        let v6 = x0;
        let v7 = x1;
        let v10 = ((v6 + v7) / 2u);
        let v14 = entries[(v10 * 6u)];
        let v15 = (group < v14);
        x0 = select(v10, v6, v15);
        x1 = select(v7, v10, v15);
    }
    let v20 = (x0 * 6u);
    let v23 = entries[(v20 + 3u)];
    let v26 = entries[(v20 + 4u)];
    let v29 = entries[(v20 + 5u)];
    let v32 = entries[(v20 + 1u)];
    let v35 = entries[(v20 + 2u)];
    let v39 = entries[v20];
    let v42 = ((group - v39) * 1024u);
    for (var i1 = (v42 + local); i1 < min((v42 + 1024u), (v32 * v35)); i1 += 256u) {
        if (committed) {
            let v53 = b0[(v23 + i1)];
            let v55 = b1[(v26 + i1)];
            b0[(v29 + i1)] = (v53 - v55);
        }
    }
}
