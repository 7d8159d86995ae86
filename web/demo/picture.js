// Pictures for the image sample. In: a number, or a file of the visitor. Out: a square of RGB from 0 to 1. Pictures by code: no download.

/** Evening over hills. */
function hills(x, y) {
  const sky = mix([0.98, 0.62, 0.38], [0.16, 0.2, 0.42], Math.pow(1 - Math.min(1, y / 0.72), 0.9));
  let at = sky;
  const sun = Math.hypot(x - 0.66, y - 0.4);
  if (sun < 0.13) at = [1, 0.9, 0.66];
  else at = mix(at, [1, 0.82, 0.5], 0.55 * Math.exp(-9 * (sun - 0.13)));
  const ridges = [
    [0.56, 0.07, 5.1, 0.4, [0.53, 0.33, 0.47]], [0.66, 0.06, 7.7, 2.1, [0.33, 0.24, 0.43]],
    [0.77, 0.05, 6.3, 4.4, [0.17, 0.19, 0.33]], [0.88, 0.035, 11.3, 1.2, [0.07, 0.11, 0.2]],
  ];
  for (const [level, height, often, phase, tone] of ridges) {
    const ridge = level + height * (Math.sin(often * x + phase) + 0.4 * Math.sin(2.7 * often * x + 2 * phase));
    if (y > ridge) at = mix(tone, [0.95, 0.6, 0.45], 0.16 * Math.exp(-30 * (y - ridge)));
  }
  return at;
}

/** Cloth: bands over and under. */
function cloth(x, y) {
  const n = 7;
  const [u, v] = [x * n, y * n];
  const [i, j] = [Math.floor(u), Math.floor(v)];
  const over = (i + j) % 2 === 0;
  const along = over ? v - j : u - i;
  const across = over ? u - i : v - j;
  const round = Math.sqrt(Math.max(0, 1 - (1.9 * (across - 0.5)) ** 2));
  const lift = 0.55 + 0.45 * Math.sin(Math.PI * along);
  const warp = [[0.06, 0.46, 0.56], [0.1, 0.3, 0.42], [0.55, 0.75, 0.76]][i % 3];
  const weft = [[0.78, 0.27, 0.08], [0.93, 0.6, 0.27], [0.96, 0.88, 0.74]][(2 * j) % 3];
  return mix([0.08, 0.07, 0.09], over ? warp : weft, round * lift);
}

/** Rings of light in water. */
function rings(x, y) {
  const wave = (cx, cy, often) => Math.cos(often * Math.hypot(x - cx, y - cy));
  const all = (wave(0.3, 0.35, 42) + wave(0.75, 0.6, 36) + 0.6 * wave(0.4, 0.95, 28)) / 2.6;
  return mix([0.05, 0.16, 0.29], [0.83, 0.95, 0.89], 0.5 + 0.5 * Math.tanh(2.2 * all));
}

function mix(a, b, t) {
  return a.map((v, i) => v + (b[i] - v) * Math.min(1, Math.max(0, t)));
}

export const PICTURES = { Hills: hills, Cloth: cloth, Rings: rings };

/** A picture by code, each pixel the mean of 3 x 3 points, so that edges are smooth. */
export function made(picture, side) {
  const rgb = new Float32Array(3 * side * side);
  for (let row = 0; row < side; row++) {
    for (let column = 0; column < side; column++) {
      for (let k = 0; k < 9; k++) {
        const point = picture((column + (k % 3 + 0.5) / 3) / side, (row + (Math.floor(k / 3) + 0.5) / 3) / side);
        for (let c = 0; c < 3; c++) rgb[3 * (row * side + column) + c] += point[c] / 9;
      }
    }
  }
  return rgb;
}

/** The middle square of a file that the visitor chose. */
export async function fromFile(file, side) {
  const bitmap = await createImageBitmap(file);
  const cut = Math.min(bitmap.width, bitmap.height);
  const canvas = Object.assign(document.createElement('canvas'), { width: side, height: side });
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.imageSmoothingQuality = 'high';
  context.drawImage(bitmap, (bitmap.width - cut) / 2, (bitmap.height - cut) / 2, cut, cut, 0, 0, side, side);
  bitmap.close();
  const { data } = context.getImageData(0, 0, side, side);
  return Float32Array.from({ length: 3 * side * side }, (_, i) => data[4 * Math.floor(i / 3) + (i % 3)] / 255);
}
