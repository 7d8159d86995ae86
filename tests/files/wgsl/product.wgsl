// f32: each invocation has a tile of sums in registers.
// graph {
//   %0: f32[10, 24] = input "x"
//   %1: f32[24, 20] = param "w"
//   %2: f32[10, 20] = dot %0, %1 {lhs_contract=[1], rhs_contract=[0]}
//   output "y" %2
// }

// [1, 1, 1] workgroups
// dot
@group(0) @binding(0) var<storage, read_write> b0: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b1: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
var<workgroup> a0: array<vec4<f32>, 288>;
var<workgroup> a1: array<vec4<f32>, 256>;
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let group = workgroup.x;
    let v7 = (group * 32u);
    let v14 = (local / 8u);
    let v16 = (local % 8u);
    let v19 = (local % 8u);
    let v21 = (local / 8u);
    let v23 = (v19 * 4u);
    let v33 = (v7 + v21);
    let v36 = (((((v21 % 2u) * 16u) + (v21 / 2u)) * 9u) + v19);
    var x0 = vec4<f32>(0.0f);
    let v38 = (local + 128u);
    let v40 = (v38 % 8u);
    let v42 = (v38 / 8u);
    let v44 = (v40 * 4u);
    let v54 = (v7 + v42);
    let v57 = (((((v42 % 2u) * 16u) + (v42 / 2u)) * 9u) + v40);
    var x1 = vec4<f32>(0.0f);
    let v60 = (local % 8u);
    let v62 = (local / 8u);
    let v64 = (v60 * 4u);
    let v69 = ((v62 * 8u) + v60);
    var x2 = vec4<f32>(0.0f);
    let v71 = (local + 128u);
    let v73 = (v71 % 8u);
    let v75 = (v71 / 8u);
    let v77 = (v73 * 4u);
    let v82 = ((v75 * 8u) + v73);
    var x3 = vec4<f32>(0.0f);
    var x4 = vec4<f32>(0.0f);
    var x5 = vec4<f32>(0.0f);
    let v103 = b0[(((min(v33, 9u) * 24u) + min(v23, 20u)) / 4u)];
    x0 = select(vec4<f32>(0.0f), v103, (v23 < 24u));
    let v122 = b0[(((min(v54, 9u) * 24u) + min(v44, 20u)) / 4u)];
    x1 = select(vec4<f32>(0.0f), v122, (v44 < 24u));
    let v141 = b1[((min(v64, 16u) + (min(v62, 23u) * 20u)) / 4u)];
    x2 = select(vec4<f32>(0.0f), v141, (v62 < 24u));
    let v160 = b1[((min(v77, 16u) + (min(v75, 23u) * 20u)) / 4u)];
    x3 = select(vec4<f32>(0.0f), v160, (v75 < 24u));
    for (var i0 = 0u; i0 < 24u; i0 += 32u) {
        a0[v36] = x0;
        a0[v57] = x1;
        a1[v69] = x2;
        a1[v82] = x3;
        workgroupBarrier();
        let v174 = (i0 + 32u);
        if ((v174 < 24u)) {
            let v191 = b0[(((min(v33, 9u) * 24u) + min((v174 + v23), 20u)) / 4u)];
            x0 = select(vec4<f32>(0.0f), v191, ((v174 + v23) < 24u));
            let v212 = b0[(((min(v54, 9u) * 24u) + min((v174 + v44), 20u)) / 4u)];
            x1 = select(vec4<f32>(0.0f), v212, ((v174 + v44) < 24u));
            let v233 = b1[((min(v64, 16u) + (min((v174 + v62), 23u) * 20u)) / 4u)];
            x2 = select(vec4<f32>(0.0f), v233, ((v174 + v62) < 24u));
            let v254 = b1[((min(v77, 16u) + (min((v174 + v75), 23u) * 20u)) / 4u)];
            x3 = select(vec4<f32>(0.0f), v254, ((v174 + v75) < 24u));
        }
        let v267 = a0[(v14 * 9u)];
        let v273 = a0[((v14 + 16u) * 9u)];
        let v282 = a1[v16];
        let v292 = a1[(8u + v16)];
        let v302 = a1[(16u + v16)];
        let v312 = a1[(24u + v16)];
        x4 = fma(vec4<f32>(v267.x), v282, x4);
        x5 = fma(vec4<f32>(v273.x), v282, x5);
        x4 = fma(vec4<f32>(v267.y), v292, x4);
        x5 = fma(vec4<f32>(v273.y), v292, x5);
        x4 = fma(vec4<f32>(v267.z), v302, x4);
        x5 = fma(vec4<f32>(v273.z), v302, x5);
        x4 = fma(vec4<f32>(v267.w), v312, x4);
        x5 = fma(vec4<f32>(v273.w), v312, x5);
        let v351 = a0[((v14 * 9u) + 1u)];
        let v358 = a0[(((v14 + 16u) * 9u) + 1u)];
        let v368 = a1[(32u + v16)];
        let v378 = a1[(40u + v16)];
        let v388 = a1[(48u + v16)];
        let v398 = a1[(56u + v16)];
        x4 = fma(vec4<f32>(v351.x), v368, x4);
        x5 = fma(vec4<f32>(v358.x), v368, x5);
        x4 = fma(vec4<f32>(v351.y), v378, x4);
        x5 = fma(vec4<f32>(v358.y), v378, x5);
        x4 = fma(vec4<f32>(v351.z), v388, x4);
        x5 = fma(vec4<f32>(v358.z), v388, x5);
        x4 = fma(vec4<f32>(v351.w), v398, x4);
        x5 = fma(vec4<f32>(v358.w), v398, x5);
        let v437 = a0[((v14 * 9u) + 2u)];
        let v444 = a0[(((v14 + 16u) * 9u) + 2u)];
        let v454 = a1[(64u + v16)];
        let v464 = a1[(72u + v16)];
        let v474 = a1[(80u + v16)];
        let v484 = a1[(88u + v16)];
        x4 = fma(vec4<f32>(v437.x), v454, x4);
        x5 = fma(vec4<f32>(v444.x), v454, x5);
        x4 = fma(vec4<f32>(v437.y), v464, x4);
        x5 = fma(vec4<f32>(v444.y), v464, x5);
        x4 = fma(vec4<f32>(v437.z), v474, x4);
        x5 = fma(vec4<f32>(v444.z), v474, x5);
        x4 = fma(vec4<f32>(v437.w), v484, x4);
        x5 = fma(vec4<f32>(v444.w), v484, x5);
        let v523 = a0[((v14 * 9u) + 3u)];
        let v530 = a0[(((v14 + 16u) * 9u) + 3u)];
        let v540 = a1[(96u + v16)];
        let v550 = a1[(104u + v16)];
        let v560 = a1[(112u + v16)];
        let v570 = a1[(120u + v16)];
        x4 = fma(vec4<f32>(v523.x), v540, x4);
        x5 = fma(vec4<f32>(v530.x), v540, x5);
        x4 = fma(vec4<f32>(v523.y), v550, x4);
        x5 = fma(vec4<f32>(v530.y), v550, x5);
        x4 = fma(vec4<f32>(v523.z), v560, x4);
        x5 = fma(vec4<f32>(v530.z), v560, x5);
        x4 = fma(vec4<f32>(v523.w), v570, x4);
        x5 = fma(vec4<f32>(v530.w), v570, x5);
        let v609 = a0[((v14 * 9u) + 4u)];
        let v616 = a0[(((v14 + 16u) * 9u) + 4u)];
        let v626 = a1[(128u + v16)];
        let v636 = a1[(136u + v16)];
        let v646 = a1[(144u + v16)];
        let v656 = a1[(152u + v16)];
        x4 = fma(vec4<f32>(v609.x), v626, x4);
        x5 = fma(vec4<f32>(v616.x), v626, x5);
        x4 = fma(vec4<f32>(v609.y), v636, x4);
        x5 = fma(vec4<f32>(v616.y), v636, x5);
        x4 = fma(vec4<f32>(v609.z), v646, x4);
        x5 = fma(vec4<f32>(v616.z), v646, x5);
        x4 = fma(vec4<f32>(v609.w), v656, x4);
        x5 = fma(vec4<f32>(v616.w), v656, x5);
        let v695 = a0[((v14 * 9u) + 5u)];
        let v702 = a0[(((v14 + 16u) * 9u) + 5u)];
        let v712 = a1[(160u + v16)];
        let v722 = a1[(168u + v16)];
        let v732 = a1[(176u + v16)];
        let v742 = a1[(184u + v16)];
        x4 = fma(vec4<f32>(v695.x), v712, x4);
        x5 = fma(vec4<f32>(v702.x), v712, x5);
        x4 = fma(vec4<f32>(v695.y), v722, x4);
        x5 = fma(vec4<f32>(v702.y), v722, x5);
        x4 = fma(vec4<f32>(v695.z), v732, x4);
        x5 = fma(vec4<f32>(v702.z), v732, x5);
        x4 = fma(vec4<f32>(v695.w), v742, x4);
        x5 = fma(vec4<f32>(v702.w), v742, x5);
        let v781 = a0[((v14 * 9u) + 6u)];
        let v788 = a0[(((v14 + 16u) * 9u) + 6u)];
        let v798 = a1[(192u + v16)];
        let v808 = a1[(200u + v16)];
        let v818 = a1[(208u + v16)];
        let v828 = a1[(216u + v16)];
        x4 = fma(vec4<f32>(v781.x), v798, x4);
        x5 = fma(vec4<f32>(v788.x), v798, x5);
        x4 = fma(vec4<f32>(v781.y), v808, x4);
        x5 = fma(vec4<f32>(v788.y), v808, x5);
        x4 = fma(vec4<f32>(v781.z), v818, x4);
        x5 = fma(vec4<f32>(v788.z), v818, x5);
        x4 = fma(vec4<f32>(v781.w), v828, x4);
        x5 = fma(vec4<f32>(v788.w), v828, x5);
        let v867 = a0[((v14 * 9u) + 7u)];
        let v874 = a0[(((v14 + 16u) * 9u) + 7u)];
        let v884 = a1[(224u + v16)];
        let v894 = a1[(232u + v16)];
        let v904 = a1[(240u + v16)];
        let v914 = a1[(248u + v16)];
        x4 = fma(vec4<f32>(v867.x), v884, x4);
        x5 = fma(vec4<f32>(v874.x), v884, x5);
        x4 = fma(vec4<f32>(v867.y), v894, x4);
        x5 = fma(vec4<f32>(v874.y), v894, x5);
        x4 = fma(vec4<f32>(v867.z), v904, x4);
        x5 = fma(vec4<f32>(v874.z), v904, x5);
        x4 = fma(vec4<f32>(v867.w), v914, x4);
        x5 = fma(vec4<f32>(v874.w), v914, x5);
        workgroupBarrier();
    }
    let v950 = (v7 + (v14 * 2u));
    if ((v950 < 10u)) {
        let v954 = x4;
        let v957 = (v16 * 4u);
        if ((v957 < 20u)) {
            b2[((v950 * 20u) + v957)] = v954.x;
        }
        let v974 = ((v16 * 4u) + 1u);
        if ((v974 < 20u)) {
            b2[((v950 * 20u) + v974)] = v954.y;
        }
        let v990 = ((v16 * 4u) + 2u);
        if ((v990 < 20u)) {
            b2[((v950 * 20u) + v990)] = v954.z;
        }
        let v1006 = ((v16 * 4u) + 3u);
        if ((v1006 < 20u)) {
            b2[((v950 * 20u) + v1006)] = v954.w;
        }
    }
    let v1023 = ((v7 + (v14 * 2u)) + 1u);
    if ((v1023 < 10u)) {
        let v1026 = x5;
        let v1029 = (v16 * 4u);
        if ((v1029 < 20u)) {
            b2[((v1023 * 20u) + v1029)] = v1026.x;
        }
        let v1046 = ((v16 * 4u) + 1u);
        if ((v1046 < 20u)) {
            b2[((v1023 * 20u) + v1046)] = v1026.y;
        }
        let v1062 = ((v16 * 4u) + 2u);
        if ((v1062 < 20u)) {
            b2[((v1023 * 20u) + v1062)] = v1026.z;
        }
        let v1078 = ((v16 * 4u) + 3u);
        if ((v1078 < 20u)) {
            b2[((v1023 * 20u) + v1078)] = v1026.w;
        }
    }
}
