// Availability of WebGPU. In: nothing. Out: the adapter's name, or the reason why there is none and a remedy.
// Always holds: no state is kept, and nothing throws.

import { gpuInterface, hasGpuInterface, IS_NODE } from './node.js';

/** The reason why there is no WebGPU: no interface for it, or no adapter with a device. */
export type WebGPUFailureReason = 'no-webgpu' | 'no-adapter';

/** Result of `checkWebGPU`. */
export interface WebGPUSupport {
  /** True if training on the GPU will work. */
  ok: boolean;
  /** Description of the result. */
  message: string;
  /** Reason of a failure. */
  reason?: WebGPUFailureReason;
  /** Remedy for a failure. */
  help?: string;
  /** Name of the adapter, if there is one. */
  adapter?: string;
  /** True if the adapter computes on the CPU. */
  software?: boolean;
}

/**
 * Returns true if the interface exists (in Node.js, the npm package `webgpu`). `checkWebGPU` tests if it
 * works.
 */
export function isWebGPUAvailable(): boolean {
  return hasGpuInterface();
}

/** Returns the name of an adapter; empty if the adapter does not disclose it. */
export function adapterName({ vendor, architecture, device, description }: GPUAdapterInfo): string {
  return [vendor, architecture, device, description].filter(Boolean).join(' ');
}

/** Returns true if an adapter is known to compute on the CPU. */
export function isSoftware({ info }: GPUAdapter): boolean {
  return /swiftshader|llvmpipe|lavapipe|basic render|warp/i.test(adapterName(info)) || (info.isFallbackAdapter ?? false);
}

/** Returns the device for 'auto': WebGPU, if it exists and computes on a GPU. */
export async function bestDevice(): Promise<'webgpu' | 'cpu'> {
  if (!isWebGPUAvailable()) return 'cpu';
  try {
    const adapter = await (await gpuInterface())?.requestAdapter({ powerPreference: 'high-performance' });
    return adapter && isSoftware(adapter) ? 'cpu' : 'webgpu';
  } catch {
    // Requesting the device will report the error.
    return 'webgpu';
  }
}

/** Checks if training on the GPU will work here, and returns the reason if not. */
export async function checkWebGPU(): Promise<WebGPUSupport> {
  if (!isWebGPUAvailable()) {
    if (typeof isSecureContext !== 'undefined' && !isSecureContext) {
      return {
        ok: false, reason: 'no-webgpu', message: 'this page is not a secure context, where browsers have no WebGPU',
        help: 'serve the page over https, or from localhost',
      };
    }
    if (IS_NODE) {
      return {
        ok: false, reason: 'no-webgpu', message: 'Node.js has no WebGPU of its own',
        help: "npm install webgpu, or compile with device: 'cpu'",
      };
    }
    return {
      ok: false, reason: 'no-webgpu', message: 'this browser has no WebGPU',
      help: "use a current Chrome, Edge, Firefox or Safari, or compile with device: 'cpu'",
    };
  }
  let adapter: GPUAdapter | null = null;
  let why = '';
  // Requests may fail shortly after the browser or its GPU process has started.
  for (const delay of [0, 100, 400]) {
    if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
    try {
      adapter = await (await gpuInterface())!.requestAdapter({ powerPreference: 'high-performance' });
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
  const name = adapterName(adapter.info);
  try {
    (await adapter.requestDevice()).destroy();
  } catch (thrown) {
    return {
      ok: false, reason: 'no-adapter', adapter: name, message: `the adapter (${name}) gave no device: ${thrown instanceof Error ? thrown.message : ''}`,
      help: "close other pages that use the GPU, or compile with device: 'cpu'",
    };
  }
  const software = isSoftware(adapter);
  return { ok: true, message: `WebGPU on ${name || 'an adapter without a name'}${software ? ', which is software' : ''}`, adapter: name, software };
}
