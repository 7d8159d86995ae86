// The plane from -reach to reach, on a square canvas. In: a function that draws. Out: the canvas' surface.

import { colour, surface } from './canvas.js';
import { line } from './chart.js';

/** `draw` gets the context, `at(x, y)` in its pixels, and `dots(points, style, radius)`, which draws `[count, 2]` numbers. */
export function plane(canvas, reach, draw) {
  return surface(canvas, (context, width, height) => {
    const at = (x, y) => [(1 + x / reach) / 2 * width, (1 - y / reach) / 2 * height];
    line(context, [at(-reach, 0), at(reach, 0)], colour('line'), 1);
    line(context, [at(0, -reach), at(0, reach)], colour('line'), 1);
    const dots = (points, style, radius) => {
      context.fillStyle = style;
      for (let i = 0; i < points.length; i += 2) {
        context.beginPath();
        context.arc(...at(points[i], points[i + 1]), radius, 0, 7);
        context.fill();
      }
    };
    draw({ context, at, dots });
  });
}

/** A colour of the theme as red, green and blue. */
export const rgb = (name) => [1, 3, 5].map((i) => parseInt(colour(name).slice(i, i + 2), 16));
