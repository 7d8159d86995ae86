// The demo page in a browser: each sample learns, the running program is shown, the controls work. Needs
// dist/ (npm run build). SwiftShader is slow, so parameters of the URL make the models small.
// SCREENSHOTS=FOLDER saves screenshots.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open, serve } from './chromium.mjs';

const WAIT = { timeout: 120_000 };
let server, browser, page;
const errors = [];

before(async () => {
  server = await serve();
  browser = await open(server.url);
  page = browser.page;
  page.on('console', (message) => { if (message.type() === 'error') errors.push(message.text()); });
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('requestfailed', (request) => errors.push(`failed: ${request.url()}`));
  // The page loads nothing from other servers at run time.
  page.on('request', (request) => {
    const { protocol, origin } = new URL(request.url());
    if (origin !== server.url && !['data:', 'blob:'].includes(protocol)) errors.push(`elsewhere: ${request.url()}`);
  });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const visit = async (query) => {
  await page.goto(`${server.url}/demo/index.html?${query}`);
  await page.waitForFunction(() => document.querySelectorAll('#picker input').length === 10);
};
const number = (id) => page.$eval(`#${id}`, (node) => Number(node.textContent.replaceAll(',', '')));
const state = (wanted) => page.waitForFunction((wanted) => document.getElementById('status').dataset.state === wanted, wanted, WAIT);
const stepsFrom = (n) => page.waitForFunction((n) => Number(document.getElementById('step').textContent.replaceAll(',', '')) >= n, n, WAIT);
const picture = async (name, options) => {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/${name}.png`, ...options });
};
const clean = () => assert.deepEqual(errors.splice(0), []);

/** Trains a sample for the number of steps in its URL and returns the loss. */
const trained = async (query) => {
  await visit(query);
  await page.click('#start');
  await state('running');
  await state('paused');
  assert.equal(await page.textContent('#error'), '');
  return number('loss');
};

// The initial losses are known: ln 3 for three arms, ln 10 for ten digits, ln 12, ln 27 and ln 34 for the
// numbers of characters, ln 2 for each of 144 pixels, the variance of the targets. Two competing networks
// stay near 3 ln 2.
const SAMPLES = [
  { name: 'sin', query: 'width=32&steps=150', begins: 0.28, below: 0.06, shown: () => page.isVisible('.plot') },
  { name: 'spirals', query: 'width=16&batch=32&steps=150', begins: 1.1, below: 0.6, shown: async () => /\d+%/.test(await page.textContent('.score')) },
  { name: 'digits', query: 'channels=4&batch=16&steps=150', begins: 2.3, below: 1.2, shown: async () => /\d+%/.test(await page.textContent('.bars .best .percent')) },
  { name: 'addition', query: 'layers=1&width=32&heads=2&batch=32&steps=30', begins: 2.48, below: 2.1, shown: async () => await page.locator('.sums b.right, .sums b.wrong').count() >= 3 * 28 },
  { name: 'names', query: 'hidden=16&batch=8&steps=60', begins: 3.3, below: 3, shown: async () => await page.locator('.names li:not(.known)').count() > 10 },
  { name: 'text', query: 'layers=1&width=32&heads=2&context=16&batch=8&steps=40', begins: 3.5, below: 3.1, shown: async () => (await page.textContent('.sample')).length > 20 },
  { name: 'image', query: 'width=32&batch=256&side=32&features=16&steps=120', begins: 0.05, below: 0.02, shown: async () => parseFloat(await page.textContent('figcaption span + span')) > 15 },
  { name: 'vae', query: 'width=32&batch=10&steps=60', begins: 100, below: 60, shown: async () => (await page.$eval('.dreams canvas', (canvas) => canvas.getContext('2d').getImageData(0, 0, 12, 12).data)).some((v) => v > 0) },
  { name: 'gan', query: 'width=16&batch=32&steps=60', begins: 2.1, below: 2.5, shown: async () => /% in a heap/.test(await page.textContent('.score')) },
  { name: 'flow', query: 'width=32&layers=2&batch=64&steps=100', begins: 2, below: 1.5, shown: async () => /% end on a moon/.test(await page.textContent('.score')) },
];

for (const { name, query, begins, below, shown } of SAMPLES) {
  const falls = below < begins ? `the loss falls from ${begins} below ${below}` : `the loss stays below ${below}`;
  test(`${name}: ${falls}, and what it learnt is shown`, async () => {
    const loss = await trained(`sample=${name}&seed=1&${query}`);
    assert.ok(loss < below, `the loss is ${loss}`);
    assert.equal(await number('step'), Number(new URLSearchParams(query).get('steps')));
    // The display is updated after the last step.
    const until = Date.now() + 30_000;
    while (!await shown() && Date.now() < until) await page.waitForTimeout(100);
    assert.ok(await shown());
    await picture(name);
    clean();
  });
}

test('what is running: counts, kernels with WGSL, memory, graph; by keyboard', async () => {
  await trained('sample=sin&width=32&seed=1&steps=5');
  await page.locator('#inspector').scrollIntoViewIfNeeded();
  await page.waitForSelector('.counts', WAIT);
  const counts = await page.$$eval('.counts > div', (items) => Object.fromEntries(items.map((item) => [item.querySelector('dt').textContent, item.querySelector('dd').textContent])));
  assert.ok(Number(counts.Dispatches) >= Number(counts.Pipelines) / 2 && Number(counts.Launches) > 3, JSON.stringify(counts));
  assert.equal(counts.Parameters, String(32 + 32 + 32 * 32 + 32 + 32 + 1).replace(/(\d)(\d{3})$/, '$1,$2'));

  await page.focus('#tab-counts');
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.$eval('[aria-selected="true"]', (tab) => tab.textContent), 'Kernels');
  assert.ok(await page.locator('.kernel-list label').count() >= 5);
  const first = await page.textContent('.kernel-source pre');
  assert.match(first, /@compute @workgroup_size/);
  await page.locator('.kernel-list label').nth(3).click();
  assert.notEqual(await page.textContent('.kernel-source pre'), first);
  await picture('kernels', { fullPage: true });

  await page.keyboard.press('Escape');
  await page.click('#tab-memory');
  assert.match(await page.textContent('.roles'), /parameters.*optimizer.*temporaries/s);
  await page.click('.memory summary');
  await page.waitForFunction(() => /launches; peak/.test(document.querySelector('.memory details pre').textContent));
  await picture('memory', { fullPage: true });
  await page.click('#tab-graph');
  assert.match(await page.textContent('#inspect-panel pre'), /= dot /);
  clean();
});

test('pause rests, going on goes on, reset begins again, the learning rate acts at once', async () => {
  await visit('sample=sin&width=16&layers=1&seed=1');
  await page.click('#start');
  await stepsFrom(40);
  await page.click('#start');
  await state('paused');
  // Steps already in flight complete.
  await page.waitForTimeout(600);
  const rest = await number('step');
  await page.waitForTimeout(400);
  assert.equal(await number('step'), rest);

  await page.focus('#lr');
  await page.keyboard.press('End');
  const steep = Number(await page.textContent('#lr-value'));
  assert.ok(steep > 0.1);
  await page.click('#start');
  await stepsFrom(rest + 20);
  await page.click('#start');
  await state('paused');

  await page.click('#reset');
  await page.waitForFunction(() => document.getElementById('step').textContent === '0');
  assert.equal(await page.textContent('#loss'), '–');
  assert.equal(await page.textContent('#start'), 'Start training');
  clean();
});

test('another width while it trains replaces the model; another batch goes on with the same', async () => {
  await visit('sample=sin&width=16&layers=1&batch=64&seed=1');
  await page.click('#start');
  await stepsFrom(20);
  await page.selectOption('[name=width]', '64');
  await page.waitForFunction(() => location.search.includes('width=64'), undefined, WAIT);
  const at = await number('step');
  assert.ok(at >= 20);
  await page.selectOption('[name=batch]', '256');
  await page.waitForFunction(() => location.search.includes('batch=256'), undefined, WAIT);
  await state('running');
  await stepsFrom(at + 20);
  assert.equal(await page.textContent('#error'), '');
  clean();
});

test('a model that does not fit is told in place, with its line, and the one before goes on', async () => {
  await visit('sample=addition&width=32&layers=1&heads=2&batch=32&seed=1');
  await page.click('#start');
  await stepsFrom(3);
  await page.selectOption('[name=heads]', '3');
  await page.waitForSelector('.error', WAIT);
  const text = await page.textContent('.error');
  assert.match(text, /trace/);
  assert.match(text, /32 is not a multiple of 3 heads/);
  assert.equal(await page.inputValue('[name=heads]'), '2');
  const at = await number('step');
  await stepsFrom(at + 3);
  await picture('error');
  clean();
});

test('an error is shown with its kind, what helps and the line of the sample', async () => {
  await visit('sample=sin');
  const text = await page.evaluate(async () => {
    const { Linear, Module, matmul, mean, trace } = await import('/dist/index.js');
    const { showError } = await import('/demo/errors.js');
    // A sample with a mistake, as a separate module: errors name lines of files.
    const source = `export const loss = ({ matmul, mean }) => (m, { x }) =>\n  mean(matmul(m.l.fwd(x), x));`;
    const { loss } = await import(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })));
    class M extends Module { l = new Linear(1, 1); }
    const error = await trace({ model: new M(), loss: loss({ matmul, mean }), inputs: { x: [4, 1] }, optimizer: { kind: 'adam', lr: 0.01 } })
      .then(() => null, (thrown) => thrown);
    showError(document.getElementById('error'), error);
    return document.getElementById('error').textContent;
  });
  assert.match(text, /trace/);
  assert.match(text, /`matmul` of \[4, 1\] and \[4, 1\]/);
  assert.match(text, /transposed/);
  assert.match(text, /line 2 of/);
  await page.click('.error button');
  assert.equal(await page.textContent('#error'), '');
  clean();
});

test('a drawn curve is a target; a drawn digit moves the bars and becomes an example', async () => {
  await visit('sample=sin&width=16&layers=1&seed=1');
  const box = await page.locator('.plot').boundingBox();
  await page.mouse.move(box.x + 20, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width - 20, box.y + box.height / 2, { steps: 8 });
  await page.mouse.up();

  await page.click('label:has(input[value=digits])');
  await page.waitForSelector('.pad');
  const pad = await page.locator('.pad').boundingBox();
  await page.mouse.move(pad.x + pad.width / 2, pad.y + 30);
  await page.mouse.down();
  await page.mouse.move(pad.x + pad.width / 2, pad.y + pad.height - 30, { steps: 8 });
  await page.mouse.up();
  await page.click('.keys button:nth-child(2)');
  assert.match(await page.textContent('.stage'), /Added as a 1: 1 drawing of yours/);
  assert.equal(await page.locator('.thumbs .own').count(), 1);
  clean();
});

test('on a phone nothing sticks out, and both themes are there', async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  for (const { name } of SAMPLES) {
    await visit(`sample=${name}`);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360, name);
    await picture(`phone-${name}`, { fullPage: true });
  }
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.click('#theme');
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.reload();
  assert.equal(await ground(), dark);
  await page.click('#theme');
  // The user's choice has precedence over the system's setting, which otherwise applies even when it changes.
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.equal(await ground(), light);
  await page.evaluate(() => localStorage.clear());
  await page.reload();
  assert.equal(await ground(), dark);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.waitForFunction((light) => getComputedStyle(document.body).backgroundColor === light, light);
  await page.setViewportSize({ width: 1280, height: 800 });
  clean();
});

test('without WebGPU the page says so and trains on the CPU', async () => {
  const other = await open(server.url, { gpu: false });
  try {
    await other.page.goto(`${server.url}/demo/index.html?sample=sin&width=16&layers=1&steps=100&seed=1`);
    await other.page.waitForFunction(() => /CPU/.test(document.getElementById('device').textContent), undefined, WAIT);
    await other.page.click('#start');
    await other.page.waitForFunction(() => document.getElementById('step').textContent === '100', undefined, WAIT);
    assert.match(await other.page.textContent('#device'), /CPU.*WebGPU/s);
    assert.ok(Number(await other.page.textContent('#loss')) < 0.2);
  } finally {
    await other.close();
  }
});
