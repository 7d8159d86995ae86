// The package as npm packs it. In: dist/ (npm run build). Out: a new project that has installed the packed
// file, with the files of project/. Nothing is downloaded, since the package has no dependencies.

import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);
/** The folder of the package's sources. */
export const WEB = fileURLToPath(new URL('../..', import.meta.url));

/** Runs a development tool of the package with Node.js, in a folder. */
export const tool = (cwd, path, ...args) => execute(process.execPath, [resolve(WEB, 'node_modules', path), ...args], { cwd });

/**
 * Packs and installs the package; returns the packed files' names, the project, and a function that removes
 * it.
 */
export async function install() {
  const folder = mkdtempSync(join(tmpdir(), 'gradloom-package-'));
  const project = join(folder, 'project');
  const close = () => rmSync(folder, { recursive: true, force: true });
  try {
    const { stdout } = await execute('npm', ['pack', '--json', '--pack-destination', folder], { cwd: WEB });
    // The output is an array or, with newer npm versions, an object by package name.
    const [{ filename, files }] = Object.values(JSON.parse(stdout));
    cpSync(fileURLToPath(new URL('project', import.meta.url)), project, { recursive: true });
    writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'fresh', private: true, type: 'module' }));
    await execute('npm', ['install', '--offline', '--no-audit', '--no-fund', join(folder, filename)], { cwd: project });
    return { files: files.map(({ path }) => path), project, package: join(project, 'node_modules/gradloom'), close };
  } catch (thrown) {
    close();
    throw thrown;
  }
}
