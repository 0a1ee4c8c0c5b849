import { spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Clock } from '@oarlock/kernel/clock';
import { RuntimeError } from '@oarlock/spi/runtime';
import type { SupervisorOptions } from './supervisor.ts';
import { systemPath } from './tools.ts';

const startMs = 20_000;

/** The supervisor's program: beside this module, or where the package is when this one has been bundled into another. */
function entryPath(): string {
  const beside = fileURLToPath(new URL(`./supervisor${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url));
  return existsSync(beside) ? beside : createRequire(import.meta.url).resolve('@oarlock/runtime-process/supervisor');
}

/** TypeScript needs the loader that this process may have been started with, or that a test runner does without; built code needs none. */
function nodeFlags(entry: string): string[] {
  if (!entry.endsWith('.ts')) return [];
  const require = createRequire(import.meta.url);
  return ['--conditions=@oarlock/source', '--import', pathToFileURL(join(require.resolve('@oxc-node/core'), '..', 'register.mjs')).href];
}

/**
 * Starts a supervisor that outlives this process. Resolves when one listens in the directory: this one, or another that was faster.
 * @throws RuntimeError `Unavailable` with what it said
 */
export async function launchSupervisor(options: SupervisorOptions, clock: Clock): Promise<void> {
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
  const logPath = join(options.dataDir, 'supervisor.log');
  const log = openSync(logPath, 'w', 0o600);
  const entry = entryPath();
  const child = spawn(process.execPath, [...nodeFlags(entry), entry, JSON.stringify(options)], {
    detached: true,
    cwd: '/',
    env: { PATH: systemPath, HOME: homedir() },
    stdio: ['ignore', 'pipe', log],
  });
  closeSync(log);
  const { stdout } = child;
  if (!stdout) throw new RuntimeError('Internal', 'the supervisor was started without an output');
  try {
    await new Promise<void>((resolve, reject) => {
      const fail = (why: string, cause?: unknown) =>
        reject(new RuntimeError('Unavailable', `the supervisor of process containers ${why}`, cause === undefined ? {} : { cause }));
      const timer = clock.after(startMs, () => {
        child.kill('SIGKILL');
        fail(`did not start within ${startMs} ms`);
      });
      const settled = (then: () => void) => {
        timer.cancel();
        child.removeAllListeners();
        child.on('error', () => {}); // of no interest any more
        then();
      };
      child.once('error', (error) => settled(() => fail(`could not be started: ${error.message}`, error)));
      child.once('exit', (code) => settled(() => fail(`ended with code ${code}: ${readFileSync(logPath, 'utf8').slice(-2000)}`)));
      stdout.on('data', (chunk: Buffer) => {
        if (/^(ready|taken)$/m.test(chunk.toString())) settled(resolve);
      });
    });
  } finally {
    stdout.destroy();
    child.unref();
  }
}
