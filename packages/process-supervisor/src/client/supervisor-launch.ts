import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import { loaderFlags } from '@oarlock/primitives/os/bundled-program';
import { RuntimeError } from '@oarlock/spi/runtime';
import { systemPath } from '../host/host-tools.ts';

const startTimeoutMs = 20_000;

/**
 * A supervisor allocates little and idles: small young generations, an old generation that grows slowly after bursts of pods, and one thread of V8 and one heap
 * of the C library instead of one each per core.
 */
const memoryFlags = ['--max-semi-space-size=1', '--optimize-for-size', '--v8-pool-size=1'];
const memoryEnvironment = { MALLOC_ARENA_MAX: '1' };

/** The program of a supervisor and its options, which are passed as JSON. */
export interface SupervisorProgram {
  /** Path of the module. */
  readonly entry: string;
  readonly options: { readonly dataDir: string };
}

/** Returns the arguments with which Node.js runs a supervisor. */
export function supervisorArguments({ entry, options }: SupervisorProgram): readonly string[] {
  return [...loaderFlags(entry), entry, JSON.stringify(options)];
}

/**
 * Starts a supervisor that outlives this process. Resolves when one listens in the directory: this one, or one that another process started first.
 * @throws RuntimeError `Unavailable` with the supervisor's log
 */
export async function launchSupervisor(program: SupervisorProgram, clock: Clock): Promise<void> {
  const { dataDir } = program.options;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const logPath = join(dataDir, 'supervisor.log');
  const log = openSync(logPath, 'w', 0o600);
  const child = spawn(process.execPath, [...memoryFlags, ...supervisorArguments(program)], {
    detached: true,
    cwd: '/',
    env: { PATH: systemPath, HOME: homedir(), ...memoryEnvironment },
    stdio: ['ignore', 'pipe', log],
  });
  closeSync(log);
  const { stdout } = child;
  if (!stdout) throw new RuntimeError('Internal', 'the supervisor was started without an output');
  try {
    await new Promise<void>((resolve, reject) => {
      const fail = (reason: string, cause?: unknown) =>
        reject(new RuntimeError('Unavailable', `the supervisor of the containers ${reason}`, cause === undefined ? {} : { cause }));
      const timer = clock.after(startTimeoutMs, () => {
        child.kill('SIGKILL');
        fail(`did not start within ${startTimeoutMs} ms`);
      });
      const settle = (then: () => void) => {
        timer.cancel();
        child.removeAllListeners();
        child.on('error', () => {}); // errors after the start are handled by the connection
        then();
      };
      child.once('error', (error) => settle(() => fail(`could not be started: ${error.message}`, error)));
      child.once('exit', (code) => settle(() => fail(`ended with code ${code}: ${readFileSync(logPath, 'utf8').slice(-2000)}`)));
      stdout.on('data', (chunk: Buffer) => {
        if (/^(ready|taken)$/m.test(chunk.toString())) settle(resolve);
      });
    });
  } finally {
    stdout.destroy();
    child.unref();
  }
}
