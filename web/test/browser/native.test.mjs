// Equality with native steps: equal kernels, equal results. The models of bench/models.js train here with
// WebGPU's minimum limits; the results are written to a folder, and crates/gradloom/tests/browser_run.rs
// trains natively on the same kind of device through Vulkan, and compares. A checkpoint of the page is
// resumed there, and one from there in the page.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { open, serve } from './chromium.mjs';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const DRIVER = '/usr/lib/chromium/vk_swiftshader_icd.json';

/**
 * Trains a model of bench/models.js in the page; returns the contents of files as text and bytes (base64).
 */
async function run(page, name, steps) {
  return page.evaluate(async ({ name, steps }) => {
    const g = await import('/dist/index.js');
    const models = await import('/bench/models.js');
    const { spec, batch } = models[name](g);
    const train = await g.compile({ ...spec, device: 'webgpu', portable: true });
    const file = (tensors, metadata) => {
      let text = '';
      for (const byte of new Uint8Array(g.saveSafetensors(tensors, metadata))) text += String.fromCharCode(byte);
      return btoa(text);
    };
    // The numbers keep the names in the order of the model.
    const numbered = (tensors) => Object.fromEntries(Object.values(tensors).map((data, i) => [String(i).padStart(3, '0'), data]));
    const parameters = async () => {
      const flat = await train.downloadParams();
      return file(numbered(Object.fromEntries(train.paramNames.map((name) => [name, flat[name]]))));
    };
    const { kernels } = await train.inspect();
    const before = await parameters();
    const losses = [];
    for (let i = 0; i < steps; i++) losses.push((await train.step(batch)).loss);
    const after = await parameters();
    const state = await train.downloadState();
    const more = [];
    for (let i = 0; i < 3; i++) more.push((await train.step(batch)).loss);
    await train.destroy();
    return {
      'kernels.txt': kernels.map(({ label, source, workgroups }) => `${label} ${workgroups.join(' ')}\n${source}`).join('\n=====\n'),
      'before.safetensors': before, 'after.safetensors': after,
      'state.safetensors': file(state.tensors, state.metadata), 'more.safetensors': file({ more: Float32Array.from(more) }),
      'losses.safetensors': file({ losses: Float32Array.from(losses) }), 'inputs.safetensors': file(numbered(batch)),
    };
  }, { name, steps });
}

/**
 * Resumes a checkpoint (base64) in a new program; returns the tensors after loading it, and the losses of
 * some steps.
 */
async function goOn(page, name, steps, checkpoint) {
  return page.evaluate(async ({ name, steps, checkpoint }) => {
    const g = await import('/dist/index.js');
    const models = await import('/bench/models.js');
    const { spec, batch } = models[name](g);
    const train = await g.compile({ ...spec, device: 'webgpu', portable: true });
    await train.step(batch);
    await train.uploadState(Uint8Array.from(atob(checkpoint), (character) => character.charCodeAt(0)));
    const { tensors, metadata } = await train.downloadState();
    const losses = [];
    for (let i = 0; i < steps; i++) losses.push((await train.step(batch)).loss);
    await train.destroy();
    const bits = Object.fromEntries(Object.entries(tensors).map(([key, { data }]) => [key, [...new Uint32Array(data.buffer, data.byteOffset, data.length)]]));
    return { bits, metadata, losses };
  }, { name, steps, checkpoint });
}

/** Returns the tensors of 32 bits in a safetensors file, as words. */
function wordsOf(file) {
  const begin = 8 + Number(file.readBigUInt64LE(0));
  const { __metadata__: _, ...entries } = JSON.parse(file.subarray(8, begin).toString());
  const words = ({ data_offsets: [start, end] }) => [...new Uint32Array(new Uint8Array(file.subarray(begin + start, begin + end)).buffer)];
  return Object.fromEntries(Object.entries(entries).map(([name, entry]) => [name, words(entry)]));
}

test('kernels, losses and parameters are those of the native program', { timeout: 900_000, skip: !existsSync(DRIVER) && `there is no ${DRIVER}` }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gradloom-run-'));
  const server = await serve();
  const browser = await open(server.url);
  try {
    for (const [name, steps] of [['sine', 20], ['addition', 3]]) {
      mkdirSync(join(folder, name));
      for (const [file, text] of Object.entries(await run(browser.page, name, steps))) {
        writeFileSync(join(folder, name, file), text, file.endsWith('.txt') ? 'utf8' : 'base64');
      }
    }
    // The features of the whole workspace, with which the Rust tests were built.
    const env = { ...process.env, GRADLOOM_BROWSER_RUN: folder, VK_ICD_FILENAMES: DRIVER, VK_DRIVER_FILES: DRIVER };
    const said = execFileSync('cargo', ['test', '--workspace', '--test', 'browser_run', '--', '--nocapture'], { cwd: ROOT, env, encoding: 'utf8' });
    console.log(said.split('\n').filter((line) => line.startsWith(folder)).map((line) => line.slice(folder.length + 1)).join('\n'));
    assert.match(said, /native_kernels_and_results_are_those_of_the_browser ... ok/);
    assert.doesNotMatch(said, /skipped/);
    const native = readFileSync(join(folder, 'sine', 'native.safetensors'));
    const went = await goOn(browser.page, 'sine', 3, native.toString('base64'));
    assert.deepEqual(went.bits, wordsOf(native), 'the native checkpoint, bit for bit');
    assert.equal(went.metadata['gradloom.attempted_steps'], '23');
    const there = new Float32Array(Uint32Array.from(wordsOf(readFileSync(join(folder, 'sine', 'next.safetensors'))).next).buffer);
    assert.ok(went.losses.every((loss, i) => Math.abs(loss - there[i]) < 1e-6), `${went.losses} here, ${there} natively`);
  } finally {
    await browser.close();
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
