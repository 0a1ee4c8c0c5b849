import { join } from 'node:path';
import { runProgram, type Finished, type RunOptions } from './programs.ts';
import { until } from './until.ts';

export const root = join(import.meta.dirname, '..', '..');
const bin = join(root, 'packages', 'cli', 'bin', 'oarlock.js');
/** `OARLOCK_FROM_SOURCE=1` runs the sources instead of the build. */
const fromSource = process.env['OARLOCK_FROM_SOURCE'] === '1';

/** The file and leading arguments that start the command. */
export interface OarlockProgram {
  readonly file: string;
  readonly args: readonly string[];
}
export const oarlock: OarlockProgram = {
  file: process.execPath,
  args: [...(fromSource ? ['--conditions=@oarlock/source', '--import', import.meta.resolve('@oxc-node/core/register')] : []), bin],
};

/** Returns the command of another built checkout. */
export const oarlockOf = (checkout: string): OarlockProgram => ({
  file: process.execPath,
  args: [join(checkout, 'packages', 'cli', 'bin', 'oarlock.js')],
});

/** Runs a CLI command until it exits. The lines of its progress, which depend on the speed of the machine, are not in the result. */
export async function runOarlock(args: readonly string[], options: RunOptions = {}, program = oarlock): Promise<Finished> {
  const finished = await runProgram(program.file, [...program.args, ...args], options);
  return { ...finished, stderr: finished.stderr.replaceAll(/^.* \.\.\.\n/gm, '') };
}

export interface ListedPlugin {
  readonly id: string;
  readonly slot: string;
  readonly declares: Readonly<Record<string, string | boolean>>;
  readonly available: boolean;
  readonly because?: string;
}

/** Returns the output of `oarlock plugins list -o json` after every probe has answered; probes may exceed their deadline on a busy machine. @throws Error if the command fails */
export async function listPlugins(): Promise<readonly ListedPlugin[]> {
  return until('every plugin reports whether it can run here', async () => {
    const { code, stdout, stderr } = await runOarlock(['plugins', 'list', '-o', 'json']);
    if (code !== 0) throw new Error(`oarlock plugins list -o json ended with ${code}: ${stderr}`);
    const listed = JSON.parse(stdout) as ListedPlugin[];
    return listed.every(({ because }) => because?.includes('did not answer') !== true) && listed;
  });
}
