// Small pictures on canvases, a pixel for a pixel.

/** RGB from 0 to 1, row by row. */
export function show(canvas, rgb, side) {
  if (canvas.width !== side || canvas.height !== side) Object.assign(canvas, { width: side, height: side });
  const data = new ImageData(side, side);
  for (let i = 0; i < side * side; i++) {
    for (let c = 0; c < 3; c++) data.data[4 * i + c] = 255 * rgb[3 * i + c];
    data.data[4 * i + 3] = 255;
  }
  canvas.getContext('2d').putImageData(data, 0, 0);
}

/** Strokes from 0 to 1 in a grey of their own: transparency does the rest, in both themes. */
export function strokesOf(canvas, image, side) {
  if (canvas.width !== side || canvas.height !== side) Object.assign(canvas, { width: side, height: side });
  const data = new ImageData(side, side);
  image.forEach((v, i) => data.data.set([120, 120, 120, 255 * v], 4 * i));
  canvas.getContext('2d').putImageData(data, 0, 0);
}
