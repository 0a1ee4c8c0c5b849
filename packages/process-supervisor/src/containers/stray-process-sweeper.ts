import type { Clock } from '@oarlock/primitives/clock';
import { processesByEnvironment } from '../host/process-table.ts';

/** Returns the environment variable that identifies the processes of a container, even after a process has left the container's session. */
export const marker = (containerId: string) => `OARLOCK_CONTAINER=${containerId}`;

/** The delay of `sweepSoon`: reading the environment of every process is expensive. */
const sweepDelayMs = 1000;

/**
 * Kills processes that have left a container's session (daemons do), found by the environment variable that every container starts with.
 * One scan of the process table serves all requests that came before it. Linux only; elsewhere it finds nothing.
 */
export class StrayProcessSweeper {
  readonly #clock: Clock;
  #requested = new Set<string>();
  #sweeping: Promise<void> | undefined;
  #soon: Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the stray processes of this container have been sent SIGKILL. */
  async sweep(containerId: string): Promise<void> {
    this.#requested.add(containerId);
    while (this.#requested.has(containerId)) {
      this.#sweeping ??= this.#scan().finally(() => {
        this.#sweeping = undefined;
      });
      await this.#sweeping;
    }
  }

  /** Kills the stray processes of a container after a short delay, together with other requests. */
  sweepSoon(containerId: string): Promise<void> {
    this.#requested.add(containerId);
    this.#soon ??= this.#clock.sleep(sweepDelayMs).then(() => {
      this.#soon = undefined;
      return this.sweep([...this.#requested][0] ?? containerId);
    });
    return this.#soon;
  }

  async #scan(): Promise<void> {
    const requested = this.#requested;
    this.#requested = new Set();
    const found = await processesByEnvironment(new Set([...requested].map(marker)));
    for (const pids of found.values()) {
      for (const pid of pids) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch (error) {
          if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
        }
      }
    }
  }
}
