import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { Backoff } from '@oarlock/client/backoff';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';

export interface DriverProcessOptions {
  readonly run: 'csi-hostpath' | readonly string[];
  readonly socket: string;
  readonly nodeName: string;
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

const stopMs = 10_000;

/** Where our own driver is, with what runs TypeScript where it is not built. */
function ownDriver(): readonly string[] {
  const require = createRequire(import.meta.url);
  const entry = require.resolve('@oarlock/csi-hostpath/main');
  const loader = entry.endsWith('.ts')
    ? ['--conditions=@oarlock/source', '--import', pathToFileURL(join(require.resolve('@oxc-node/core'), '..', 'register.mjs')).href]
    : [];
  return [process.execPath, ...loader, entry];
}

/** A driver as a process of its own: it ends with this one, and is started again when it ends by itself. */
export class DriverProcess {
  readonly #options: DriverProcessOptions;
  #child: ChildProcess | undefined;
  #running: Promise<void> | undefined;

  constructor(options: DriverProcessOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    const child = this.#child;
    // a driver takes the end of its input for a wish to end
    child?.stdin?.end();
    child?.kill('SIGTERM');
    const timer = this.#options.clock.after(stopMs, () => child?.kill('SIGKILL'));
    await this.#running;
    timer.cancel();
  }

  async #run(): Promise<void> {
    const { run, socket, nodeName, dataDir, clock, log, signal } = this.#options;
    const backoff = new Backoff({ firstMs: 200, longestMs: 30_000, jitter: 0.2, random: Math.random });
    const [file = '', ...args] = run === 'csi-hostpath' ? ownDriver() : run;
    while (!signal.aborted) {
      const child = spawn(file, [...args, '--endpoint', `unix://${socket}`, '--node-id', nodeName, '--data-dir', dataDir], {
        stdio: ['pipe', 'pipe', 'pipe'],
        cwd: '/',
        env: { PATH: process.env['PATH'] ?? '/usr/sbin:/usr/bin:/sbin:/bin' },
      });
      this.#child = child;
      child.stdin.on('error', () => {}); // it ended
      createInterface({ input: child.stdout }).on('line', (line) => log.debug({ line: line.slice(0, 1000) }, 'the driver says'));
      createInterface({ input: child.stderr }).on('line', (line) => log.warn({ line: line.slice(0, 1000) }, 'the driver complains'));
      const why = await once(child, 'exit').then(
        ([code, by]: unknown[]) => `it ended with ${code === null ? `signal ${String(by)}` : `code ${String(code)}`}`,
        (error: unknown) => String(error),
      );
      if (signal.aborted) return;
      const waitMs = backoff.next();
      log.error({ why, waitMs }, 'the volume driver is started again');
      await clock.sleep(waitMs, signal).catch(() => undefined);
    }
  }
}

/** The name of a socket has to be shorter than this. */
const longestSocket = 100;

/** Runs a driver that has a directory for itself. Its socket is there, or, where the name would be too long, in the directory for temporary files. */
export async function runDriver(
  run: DriverProcessOptions['run'],
  directory: string,
  options: Pick<DriverProcessOptions, 'nodeName' | 'clock' | 'log' | 'signal'>,
): Promise<{ readonly socket: string; stop(): Promise<void> }> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const beside = join(directory, 'csi.sock');
  const elsewhere = join(tmpdir(), `oarlock-csi-${createHash('sha256').update(directory).digest('hex').slice(0, 12)}`);
  const socket = beside.length < longestSocket ? beside : join(elsewhere, 'csi.sock');
  if (socket !== beside) await mkdir(elsewhere, { recursive: true, mode: 0o700 });
  const process = new DriverProcess({ ...options, run, socket, dataDir: join(directory, 'data') });
  process.start();
  return { socket, stop: () => process.stop() };
}
