// Canvases that are sharp on any screen. In: a canvas and a function that draws in CSS pixels. Out: `request()`, which draws in the next
// animation frame, once however often it is asked. A change of size or of the theme asks by itself.

const live = new Set();

export function surface(canvas, draw) {
  const context = canvas.getContext('2d');
  let size = { width: 0, height: 0 };
  let frame = 0;
  const paint = () => {
    frame = 0;
    const { width, height } = size;
    if (width < 1 || height < 1) return;
    const ratio = Math.min(devicePixelRatio || 1, 3);
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    draw(context, width, height);
  };
  const request = () => {
    if (frame === 0) frame = requestAnimationFrame(paint);
  };
  const observer = new ResizeObserver(([entry]) => {
    size = entry.contentRect;
    request();
  });
  observer.observe(canvas);
  live.add(request);
  return {
    request,
    stop() {
      observer.disconnect();
      cancelAnimationFrame(frame);
      live.delete(request);
    },
  };
}

let colours = null;

/** A colour of the page's theme, as `--name` in style.css. */
export function colour(name) {
  colours ??= getComputedStyle(document.documentElement);
  return colours.getPropertyValue(`--${name}`).trim();
}

/** The page's theme changed. */
export function repaint() {
  colours = null;
  for (const request of live) request();
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);

/** Where a pointer is on an element, each coordinate from 0 to 1. */
export function place(event, element) {
  const box = element.getBoundingClientRect();
  const clamp = (v) => Math.min(1, Math.max(0, v));
  return [clamp((event.clientX - box.left) / box.width), clamp((event.clientY - box.top) / box.height)];
}

/** Calls `begin`, `move` and `end` while a pointer (mouse, pen, finger) draws on an element. */
export function strokes(element, { begin, move, end = () => undefined }) {
  let active = null;
  element.addEventListener('pointerdown', (event) => {
    if (active !== null || event.button !== 0) return;
    active = event.pointerId;
    element.setPointerCapture(active);
    event.preventDefault();
    begin(place(event, element));
  });
  element.addEventListener('pointermove', (event) => {
    if (event.pointerId !== active) return;
    // A fast pen moves several times between two events.
    const all = event.getCoalescedEvents?.() ?? [];
    for (const each of all.length > 0 ? all : [event]) move(place(each, element));
  });
  const stop = (event) => {
    if (event.pointerId !== active) return;
    active = null;
    end();
  };
  element.addEventListener('pointerup', stop);
  element.addEventListener('pointercancel', stop);
}
