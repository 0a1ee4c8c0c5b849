import type { Clock } from '@oarlock/kernel/clock';
import { marker } from './environment.ts';
import { processesByEnvironment } from './process-table.ts';

/** At most so often, when nobody waits for it: reading every process's environment is not free. */
const pauseMs = 1000;

/**
 * Ends what left a container's session (daemons do), known by the setting every container starts with. One look at the process
 * table serves all that ask meanwhile. Linux; elsewhere it finds nothing.
 */
export class StraySweeper {
  readonly #clock: Clock;
  #asked = new Set<string>();
  #sweeping: Promise<void> | undefined;
  #soon: Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the strays of this container have been sent SIGKILL. */
  async sweep(containerId: string): Promise<void> {
    this.#asked.add(containerId);
    while (this.#asked.has(containerId)) {
      this.#sweeping ??= this.#look().finally(() => {
        this.#sweeping = undefined;
      });
      await this.#sweeping;
    }
  }

  /** The same, a moment later, together with others. */
  sweepSoon(containerId: string): Promise<void> {
    this.#asked.add(containerId);
    this.#soon ??= this.#clock.sleep(pauseMs).then(() => {
      this.#soon = undefined;
      return this.sweep([...this.#asked][0] ?? containerId);
    });
    return this.#soon;
  }

  async #look(): Promise<void> {
    const asked = this.#asked;
    this.#asked = new Set();
    const found = await processesByEnvironment(new Set([...asked].map(marker)));
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
