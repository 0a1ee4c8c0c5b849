import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { isGone } from './runtime-errors.ts';
import type { CriChannel } from './cri-channel.ts';
import type { EventHub } from './event-hub.ts';

const killTimeoutMs = 5_000;
const announcementMs = 2_000;
const sigkill = 9;

/**
 * CRI cannot end an exec session's process: closing its connection leaves it running. containerd's task service can, given the id of
 * the process, which CRI does not tell either; containerd announces it when the process is added. So that no session takes another's
 * id, processes are added to one container one after the other.
 */
export class ExecKill {
  readonly #channel: CriChannel;
  readonly #hub: EventHub;
  readonly #clock: Clock;
  readonly #log: Logger;
  /** The last one that waits to add a process, by container. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(channel: CriChannel, hub: EventHub, { clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#channel = channel;
    this.#hub = hub;
    this.#clock = clock;
    this.#log = log;
  }

  /** Runs `work`, which adds one process to the container. When the signal aborts, that process is killed. */
  async around<T>(containerId: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    if (!this.#hub.announcesExec) return work();
    const before = this.#turns.get(containerId);
    let next: () => void = () => {};
    const turn = new Promise<void>((resolve) => { next = resolve; });
    const mine = (before ?? Promise.resolve()).then(() => turn);
    this.#turns.set(containerId, mine);
    void mine.then(() => { if (this.#turns.get(containerId) === mine) this.#turns.delete(containerId); });
    await before;
    if (signal?.aborted) {
      next();
      throw signal.reason;
    }
    const over = new AbortController();
    const added = this.#hub.nextExec(containerId, over.signal);
    void added.then(next);
    try {
      return await work();
    } catch (error) {
      if (signal?.aborted) {
        // it may have been added, and its announcement still be on the way
        const execId = await Promise.race([added, this.#clock.sleep(announcementMs, over.signal).catch(() => undefined)]);
        if (typeof execId === 'string') await this.#kill(containerId, execId);
      }
      throw error;
    } finally {
      over.abort();
    }
  }

  async #kill(containerId: string, execId: string): Promise<void> {
    try {
      await this.#channel.unary('containerd', '/containerd.services.tasks.v1.Tasks/Kill', 'KillRequest', 'Empty', { containerId, execId, signal: sigkill }, {}, killTimeoutMs);
    } catch (error) {
      // it ended by itself meanwhile
      if (!isGone(error)) this.#log.warn({ containerId, execId, error: (error as Error).message }, 'the process of an aborted session could not be killed');
    }
  }
}
