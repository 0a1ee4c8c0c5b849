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
const sourceArguments = built ? [] : ['--conditions=@oarlock/source', '--import', import.meta.resolve('@oxc-node/core/register')];

/** Runs a Node program until it exits. */
export function runNode(args: readonly string[], cwd?: string): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [...args], { ...(cwd !== undefined && { cwd }), maxBuffer: 16 << 20 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : 1, stdout, stderr });
    });
  });
}

export const oarlock = (args: readonly string[], cwd?: string): Promise<Ended> => runNode([...sourceArguments, bin, ...args], cwd);
