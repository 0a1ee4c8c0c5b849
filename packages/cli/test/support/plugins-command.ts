import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const bin = fileURLToPath(new URL('../../bin/oarlock.js', import.meta.url));
/** True if the tests themselves use the built packages: see `vitest.built.config.ts`. */
export const built = import.meta.resolve('@oarlock/kernel/plugin').endsWith('.js');
/** Arguments of Node for a process that uses the packages in the same form as the tests. */
export const loaderArguments: readonly string[] = built
  ? []
  : ['--conditions=@oarlock/source', '--import', import.meta.resolve('@oxc-node/core/register')];

/** Returns the URL of a module of this package, such as `backup/backup`, which a process with `loaderArguments` can import. */
export const moduleUrl = (path: string): string => new URL(built ? `../../dist/${path}.js` : `../../src/${path}.ts`, import.meta.url).href;

/** Runs a Node program until it exits. */
export function runNode(args: readonly string[], cwd?: string): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [...args], { ...(cwd !== undefined && { cwd }), maxBuffer: 16 << 20 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : 1, stdout, stderr });
    });
  });
}

export const oarlock = (args: readonly string[], cwd?: string): Promise<Ended> => runNode([...loaderArguments, bin, ...args], cwd);
