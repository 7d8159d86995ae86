// A bitonic sort of a row in the workgroup's memory; the smaller index wins among equals.
// graph {
//   %0: f32[3, 400] = input "x"
//   %1: f32[3, 9], %2: i32[3, 9] = sort %0 {count=9, descending}
//   output "y" %1
//   output "i" %2
// }

// [3, 1, 1] workgroups
// sort: parts
@group(0) @binding(0) var<storage, read_write> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(2) var<storage, read_write> b2: array<i32>;
var<workgroup> a0: array<u32, 1024>;
var<workgroup> a1: array<u32, 1024>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    for (var i0 = local; i0 < 1024u; i0 += 256u) {
        var x0 = 4294967295u;
        var x1 = 4294967295u;
        if ((i0 < 400u)) {
            x1 = i0;
            if ((x1 < 4294967295u)) {
                let v25 = b0[((group * 400u) + x1)];
                let v26 = bitcast<u32>(v25);
                x0 = (~select(select(select((v26 | 2147483648u), (~v26), (v26 >= 2147483648u)), 2147483648u, ((v26 & 2147483647u) == 0u)), 4294967295u, ((bitcast<u32>(v25) & 2147483647u) > 2139095040u)));
            }
        }
        a0[i0] = x0;
        a1[i0] = x1;
    }
    workgroupBarrier();
    for (var i1 = 1u; i1 < 11u; i1 += 1u) {
        let v54 = (1u << (u32(i1) & 31u));
        for (var i2 = 0u; i2 < i1; i2 += 1u) {
            let v60 = ((v54 >> (u32(1u) & 31u)) >> (u32(i2) & 31u));
            for (var i3 = local; i3 < 512u; i3 += 256u) {
                let v67 = (i3 & (v60 - 1u));
                let v71 = (((i3 - v67) * 2u) + v67);
                let v72 = (v71 + v60);
                let v73 = a0[v71];
                let v74 = a1[v71];
                let v75 = a0[v72];
                let v76 = a1[v72];
                if ((u32(((v75 < v73) || ((v75 == v73) && (v76 < v74)))) == u32(((v71 & v54) == 0u)))) {
                    a0[v71] = v75;
                    a1[v71] = v76;
                    a0[v72] = v73;
                    a1[v72] = v74;
                }
            }
            workgroupBarrier();
        }
    }
    for (var i4 = local; i4 < 9u; i4 += 256u) {
        let v89 = a1[i4];
        let v92 = ((group * 9u) + i4);
        let v99 = b0[((group * 400u) + v89)];
        b1[v92] = v99;
        b2[v92] = bitcast<i32>(v89);
    }
}
