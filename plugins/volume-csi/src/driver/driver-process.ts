import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Backoff } from '@oarlock/primitives/backoff';
import { loaderFlags, programPath } from '@oarlock/primitives/os/bundled-program';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { driverSocket } from './socket-directory.ts';

export interface DriverProcessOptions {
  readonly run: 'csi-hostpath' | readonly string[];
  readonly socket: string;
  readonly nodeName: string;
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** How long the driver process may take to exit after SIGTERM. */
const stopTimeoutMs = 10_000;

function hostpathCommand(): readonly string[] {
  const entry = programPath('@oarlock/csi-hostpath/main', import.meta.url);
  return [process.execPath, ...loaderFlags(entry), entry];
}

/** Runs a CSI driver as a child process, which ends with this process and is restarted when it exits. */
export class DriverProcess {
  readonly #options: DriverProcessOptions;
  #child: ChildProcess | undefined;
  #runTask: Promise<void> | undefined;

  constructor(options: DriverProcessOptions) {
    this.#options = options;
  }

  start(): void {
    this.#runTask = this.#run();
  }

  async stop(): Promise<void> {
    const child = this.#child;
    // csi-hostpath exits at the end of its input
    child?.stdin?.end();
    child?.kill('SIGTERM');
    const timer = this.#options.clock.after(stopTimeoutMs, () => child?.kill('SIGKILL'));
    await this.#runTask;
    timer.cancel();
  }

  async #run(): Promise<void> {
    const { run, socket, nodeName, dataDir, clock, log, signal } = this.#options;
    const backoff = new Backoff({ firstMs: 200, longestMs: 30_000, jitter: 0.2, random: Math.random });
    const [file = '', ...args] = run === 'csi-hostpath' ? hostpathCommand() : run;
    while (!signal.aborted) {
      const child = spawn(file, [...args, '--endpoint', `unix://${socket}`, '--node-id', nodeName, '--data-dir', dataDir], {
        stdio: ['pipe', 'pipe', 'pipe'],
        cwd: '/',
        env: { PATH: process.env['PATH'] ?? '/usr/sbin:/usr/bin:/sbin:/bin' },
      });
      this.#child = child;
      child.stdin.on('error', () => {}); // EPIPE: the process has exited
      createInterface({ input: child.stdout }).on('line', (line) => log.debug({ line: line.slice(0, 1000) }, 'output of the CSI driver'));
      createInterface({ input: child.stderr }).on('line', (line) =>
        log.warn({ line: line.slice(0, 1000) }, 'error output of the CSI driver'),
      );
      const reason = await once(child, 'exit').then(
        ([code, signalName]: unknown[]) => `it exited with ${code === null ? `signal ${String(signalName)}` : `code ${String(code)}`}`,
        (error: unknown) => String(error),
      );
      if (signal.aborted) return;
      const retryDelayMs = backoff.next();
      log.error({ why: reason, waitMs: retryDelayMs }, 'restarting the CSI driver');
      await clock.sleep(retryDelayMs, signal).catch(() => undefined);
    }
  }
}

/**
 * Runs a CSI driver with its own directory, which contains the socket. If the socket path would be too long, the socket is in the directory for
 * temporary files.
 */
export async function runDriver(
  run: DriverProcessOptions['run'],
  directory: string,
  options: Pick<DriverProcessOptions, 'nodeName' | 'clock' | 'log' | 'signal'>,
): Promise<{ readonly socket: string; stop(): Promise<void> }> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const socket = await driverSocket(directory);
  const process = new DriverProcess({ ...options, run, socket, dataDir: join(directory, 'data') });
  process.start();
  return { socket, stop: () => process.stop() };
}
