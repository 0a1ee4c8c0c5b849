import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { CriClient } from '../cri/cri-client.ts';
import type { EventBroadcaster, ExecProcess } from '../events/event-broadcaster.ts';
import { isNotFound } from '../cri/runtime-errors.ts';

const callTimeoutMs = 5_000;
/** How long to wait for the announcement of an exec process after the call. */
const announcementMs = 10_000;
/** How long to continue to wait for the announcement after an abort. */
const lateAnnouncementMs = 2_000;
/** How long a session may take to report the status of its process after the process has exited. */
const statusMs = 1_000;
const sigkill = 9;

/**
 * Manages the processes of exec sessions with containerd's task service, where CRI has no call:
 * - kills the process when its session is aborted: closing the connection leaves it running;
 * - ends the session when its process has exited: containerd otherwise keeps writing to its stdin, forever if the pipe is full.
 *
 * Both need the id of the process. CRI does not return it; containerd announces it when the process is added. Processes are added to
 * a container one at a time, so that each session gets its own id. Other runtimes announce no processes: then this class does nothing.
 */
export class ExecProcesses {
  readonly #client: CriClient;
  readonly #events: EventBroadcaster;
  readonly #clock: Clock;
  readonly #log: Logger;
  /** The last session of each container that waits to add a process. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(client: CriClient, events: EventBroadcaster, { clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#client = client;
    this.#events = events;
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Runs `session`, which adds one process to the container. When the signal aborts, the process is killed. `overdue` resolves with the exit code of
   * the process if the session has not ended `statusMs` after the process has exited.
   */
  async runSession<T>(containerId: string, signal: AbortSignal | undefined, session: (overdue: Promise<number>) => Promise<T>): Promise<T> {
    if (!this.#events.announcesExec) return session(new Promise(() => {}));
    const next = await this.#waitForTurn(containerId);
    if (signal?.aborted) {
      next();
      throw signal.reason;
    }
    const over = new AbortController();
    const added = this.#events.nextExec(containerId, announcementMs, over.signal);
    void added.then(next);
    let stuck: ExecProcess | undefined;
    const overdue = added.then(async (process) => {
      const code = await (process?.exited ?? new Promise<never>(() => {}));
      await this.#clock.sleep(statusMs, over.signal);
      stuck = process;
      return code;
    });
    // rejects if the session ended in time
    overdue.catch(() => {});
    try {
      return await session(overdue);
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

  /** Waits until earlier sessions of the container have added their processes. Returns the function that lets the next session continue. */
  async #waitForTurn(containerId: string): Promise<() => void> {
    const previous = this.#turns.get(containerId) ?? Promise.resolve();
    let next: () => void = () => {};
    const turn = previous.then(
      () =>
        new Promise<void>((resolve) => {
          next = resolve;
        }),
    );
    this.#turns.set(containerId, turn);
    void turn.then(() => {
      if (this.#turns.get(containerId) === turn) this.#turns.delete(containerId);
    });
    await previous;
    return () => next();
  }

  async #call(
    method: 'Kill' | 'DeleteProcess',
    request: { readonly containerId: string; readonly execId: string; readonly signal?: number },
    response: string,
  ): Promise<void> {
    try {
      await this.#client.unary(
        'containerd',
        `/containerd.services.tasks.v1.Tasks/${method}`,
        `${method}Request`,
        response,
        request,
        {},
        callTimeoutMs,
      );
    } catch (error) {
      // NotFound: the process has exited, or was deleted, in the meantime
      if (!isNotFound(error))
        this.#log.warn({ ...request, method, error: (error as Error).message }, 'cannot end the process of an exec session');
    }
  }
}
