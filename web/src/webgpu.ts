// Whether there is WebGPU. In: nothing. Out: yes with the adapter's name, or why not and what can be done.
// What always holds: nothing is kept, and nothing throws.

/** Why there is no WebGPU. */
export type WebGPUProblem = 'insecure-context' | 'no-api' | 'no-adapter' | 'no-device';

/** What `checkWebGPU` found. */
export type WebGPUStatus =
  | { ok: true; adapter: string; software: boolean }
  | { ok: false; reason: WebGPUProblem; message: string; help: string };

/** Whether the browser has the interface at all; `checkWebGPU` says whether it works. */
export function isWebGPUAvailable(): boolean {
  return typeof navigator !== 'undefined' && 'gpu' in navigator && Boolean(navigator.gpu);
}

/** Whether training on the GPU will work here, and if not, why. */
export async function checkWebGPU(): Promise<WebGPUStatus> {
  if (!isWebGPUAvailable()) {
    if (typeof isSecureContext !== 'undefined' && !isSecureContext) {
      return {
        ok: false, reason: 'insecure-context', message: 'this page is not a secure context, where browsers have no WebGPU',
        help: 'serve the page over https, or from localhost',
      };
    }
    return {
      ok: false, reason: 'no-api', message: 'this browser has no WebGPU',
      help: "use a current Chrome, Edge, Firefox or Safari, or compile with device: 'cpu'",
    };
  }
  let adapter: GPUAdapter | null = null;
  let why = '';
  // A browser that has just started, or whose GPU process has, says no at first.
  for (const delay of [0, 100, 400]) {
    if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
    try {
      adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' });
    } catch (thrown) {
      why = thrown instanceof Error ? `: ${thrown.message}` : '';
    }
    if (adapter) break;
  }
  if (!adapter) {
    return {
      ok: false, reason: 'no-adapter', message: `WebGPU is there, but no adapter${why}`,
      help: "the browser does not use this GPU: look at chrome://gpu, update the driver, or compile with device: 'cpu'",
    };
  }
  const { vendor, architecture, device, description } = adapter.info;
  const name = [vendor, architecture, device, description].filter(Boolean).join(' ');
  try {
    (await adapter.requestDevice()).destroy();
  } catch (thrown) {
    return {
      ok: false, reason: 'no-device', message: `the adapter (${name}) gave no device: ${thrown instanceof Error ? thrown.message : ''}`,
      help: "close other pages that use the GPU, or compile with device: 'cpu'",
    };
  }
  return { ok: true, adapter: name, software: /swiftshader|llvmpipe|lavapipe|basic render|warp/i.test(name) };
}
