import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { CriChannel } from './cri-channel.ts';
import type { EventHub, ExecProcess } from './event-hub.ts';
import { isGone } from './runtime-errors.ts';

const callTimeoutMs = 5_000;
/** How long a process may take from the call to its announcement; after an abort, how much longer it is waited for. */
const announcementMs = 10_000;
const lateAnnouncementMs = 2_000;
/** How long after a process has ended its session may take to say so. */
const statusMs = 1_000;
const sigkill = 9;

/**
 * What CRI does not let one do with the process of an exec, by containerd's task service:
 * - kill it when its session is aborted: closing the connection leaves it running;
 * - end its session when it has ended: containerd goes on trying to write to its stdin, for ever when the pipe is full.
 *
 * It takes the id of the process, which CRI does not tell either; containerd announces it when the process is added. So that no session
 * takes another's id, processes are added to one container one after the other. Other runtimes announce nothing: there, all this is left out.
 */
export class ExecProcesses {
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

  /**
   * Runs `work`, which adds one process to the container. When the signal aborts, that process is killed. `overdue` resolves with its
   * exit code when it has ended a while ago and `work` still goes on.
   */
  async around<T>(containerId: string, signal: AbortSignal | undefined, work: (overdue: Promise<number>) => Promise<T>): Promise<T> {
    if (!this.#hub.announcesExec) return work(new Promise(() => {}));
    const next = await this.#turn(containerId);
    if (signal?.aborted) {
      next();
      throw signal.reason;
    }
    const over = new AbortController();
    const added = this.#hub.nextExec(containerId, announcementMs, over.signal);
    void added.then(next);
    let stuck: ExecProcess | undefined;
    const overdue = added.then(async (process) => {
      const code = await (process?.exited ?? new Promise<never>(() => {}));
      await this.#clock.sleep(statusMs, over.signal);
      stuck = process;
      return code;
    });
    // the session was over in time
    overdue.catch(() => {});
    try {
      return await work(overdue);
    } catch (error) {
      if (signal?.aborted) {
        const process = await Promise.race([added, this.#clock.sleep(lateAnnouncementMs, over.signal).catch(() => undefined)]);
        if (process) await this.#call('Kill', { containerId, execId: process.id, signal: sigkill }, 'Empty');
      }
      throw error;
    } finally {
      over.abort();
      if (stuck) void this.#call('DeleteProcess', { containerId, execId: stuck.id }, 'DeleteResponse');
    }
  }

  /** Waits until those before have added theirs. Returns how to let the next one. */
  async #turn(containerId: string): Promise<() => void> {
    const before = this.#turns.get(containerId) ?? Promise.resolve();
    let next: () => void = () => {};
    const mine = before.then(
      () =>
        new Promise<void>((resolve) => {
          next = resolve;
        }),
    );
    this.#turns.set(containerId, mine);
    void mine.then(() => {
      if (this.#turns.get(containerId) === mine) this.#turns.delete(containerId);
    });
    await before;
    return () => next();
  }

  async #call(
    method: 'Kill' | 'DeleteProcess',
    request: { readonly containerId: string; readonly execId: string; readonly signal?: number },
    response: string,
  ): Promise<void> {
    try {
      await this.#channel.unary(
        'containerd',
        `/containerd.services.tasks.v1.Tasks/${method}`,
        `${method}Request`,
        response,
        request,
        {},
        callTimeoutMs,
      );
    } catch (error) {
      // it has ended, or was cleared away, by itself meanwhile
      if (!isGone(error))
        this.#log.warn({ ...request, method, error: (error as Error).message }, 'the process of an exec session could not be ended');
    }
  }
}
