import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
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
