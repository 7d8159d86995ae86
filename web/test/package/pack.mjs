// The package as npm packs it. In: dist/ (npm run build). Out: a fresh project that has installed it from the
// packed file, with the files of project/. Nothing is downloaded: the package depends on nothing.

import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);
/** The package's sources. */
export const WEB = fileURLToPath(new URL('../..', import.meta.url));

/** Runs a program of the package's tools with Node.js, in a folder. */
export const tool = (cwd, path, ...args) => execute(process.execPath, [resolve(WEB, 'node_modules', path), ...args], { cwd });

/**
 * Packs, and installs what was packed; gives the packed files' names, the project, and a function that takes
 * it away.
 */
export async function install() {
  const folder = mkdtempSync(join(tmpdir(), 'gradloom-package-'));
  const project = join(folder, 'project');
  const close = () => rmSync(folder, { recursive: true, force: true });
  try {
    const { stdout } = await execute('npm', ['pack', '--json', '--pack-destination', folder], { cwd: WEB });
    // An array, or, of newer npms, an object by package name.
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
