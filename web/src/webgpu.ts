// Whether there is WebGPU. In: nothing. Out: yes with the adapter's name, or why not and what can be done.
// What always holds: nothing is kept, and nothing throws.

import { gpuInterface, hasGpuInterface, IS_NODE } from './node.js';

/** Why there is no WebGPU: there is no interface for it, or no adapter that gives a device. */
export type WebGPUFailureReason = 'no-webgpu' | 'no-adapter';

/** What `checkWebGPU` found. */
export interface WebGPUSupport {
  /** Whether training on the GPU will work. */
  ok: boolean;
  /** What was found, in words. */
  message: string;
  /** Why not. */
  reason?: WebGPUFailureReason;
  /** What can be done. */
  help?: string;
  /** The adapter in words, if there is one. */
  adapter?: string;
  /** Whether the adapter computes on the CPU. */
  software?: boolean;
}

/** Whether there is the interface at all (in Node.js, the npm package `webgpu`); `checkWebGPU` says whether it works. */
export function isWebGPUAvailable(): boolean {
  return hasGpuInterface();
}

/** An adapter in words; empty if it does not say what it is. */
export function adapterName({ vendor, architecture, device, description }: GPUAdapterInfo): string {
  return [vendor, architecture, device, description].filter(Boolean).join(' ');
}

/** Whether an adapter is known to compute on the CPU. */
export function isSoftware({ info }: GPUAdapter): boolean {
  return /swiftshader|llvmpipe|lavapipe|basic render|warp/i.test(adapterName(info)) || (info.isFallbackAdapter ?? false);
}

/** Which device 'auto' is: WebGPU, if it is there and computes on a GPU. */
export async function bestDevice(): Promise<'webgpu' | 'cpu'> {
  if (!isWebGPUAvailable()) return 'cpu';
  try {
    const adapter = await (await gpuInterface())?.requestAdapter({ powerPreference: 'high-performance' });
    return adapter && isSoftware(adapter) ? 'cpu' : 'webgpu';
  } catch {
    // What is wrong is said where the device is asked for.
    return 'webgpu';
  }
}

/** Whether training on the GPU will work here, and if not, why. */
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
  // A browser that has just started, or whose GPU process has, says no at first.
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
