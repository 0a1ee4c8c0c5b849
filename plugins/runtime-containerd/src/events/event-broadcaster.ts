import { BoundedEventBroadcaster } from '@oarlock/primitives/collections/bounded-event-queue';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { RuntimeError, type RuntimeEvent } from '@oarlock/spi/runtime';
import type { RawEvent } from './event-sources.ts';

export type EventSource = (signal: AbortSignal) => AsyncIterable<RawEvent>;
/** The state of a container or sandbox that the CRI service reports. */
export type ObservedState = 'gone' | 'created' | 'running' | 'stopped' | 'outOfMemory';

export interface EventBroadcasterOptions {
  /** The event sources in order of preference. If a source fails with `Unsupported`, the next source is used. */
  readonly sources: readonly EventSource[];
  readonly clock: Clock;
  readonly log: Logger;
  /** Lists all sandboxes and containers, so that the sandboxes of later events are known. */
  refresh(signal: AbortSignal): Promise<void>;
  /** Returns the sandbox id of a container, or the id itself if it is the id of a sandbox; undefined if the id is unknown. */
  sandboxOf(id: string, signal: AbortSignal): Promise<string | undefined>;
  observe(id: string, signal: AbortSignal): Promise<ObservedState>;
  forget(id: string): void;
}

/** The maximum number of unread events of a reader. A reader with more events gets `resync` instead. */
const maxUnreadEvents = 4_096;
const initialRetryDelayMs = 100;
const maxRetryDelayMs = 3_000;
/** How long the CRI service may take to report the state of a containerd event without a warning: it first cleans up and writes the state to disk. */
const observeTimeoutMs = 5_000;
/** The longest pause between two looks at a state, before and after `observeTimeoutMs`. */
const longestPauseMs = { usual: 100, late: 2_000 };
/** How long the exit event of a killed container waits for the container's OOM event, which the kernel reports separately. */
const outOfMemoryWaitMs = 250;

/** A process that an exec session added to a container. */
export interface ExecProcess {
  readonly id: string;
  /** Resolves with the exit code of the process. Never resolves if the runtime does not report the exit. */
  readonly exited: Promise<number>;
}
type StateEvent = Extract<RawEvent, { kind: 'cri' | 'task' | 'outOfMemory' }>;

/** Keeps one subscription to the runtime's events while the driver runs, and distributes the events to all listeners. */
export class EventBroadcaster {
  readonly #options: EventBroadcasterOptions;
  readonly #events = new BoundedEventBroadcaster<RuntimeEvent | 'resync'>({ limit: maxUnreadEvents, overflow: 'resync' });
  readonly #execWaiters = new Map<string, Set<(execId: string | undefined) => void>>();
  readonly #execExitHandlers = new Map<string, (exitCode: number) => void>();
  readonly #handling = new Map<string, Promise<void>>();
  /** The number of driver calls in progress that emit their own events, keyed by container or sandbox id. */
  readonly #callsInProgress = new Map<string, number>();
  /** The ids of containers that ran out of memory. An id is kept until the container is removed. */
  readonly #outOfMemory = new Set<string>();
  /** The functions that end a container's wait for its OOM event, keyed by container id. */
  readonly #outOfMemoryWaits = new Map<string, () => void>();
  #live = false;
  #announcesExec = false;
  #source = 0;

  constructor(options: EventBroadcasterOptions) {
    this.#options = options;
  }

  /** True if the event source announces the processes of exec sessions. */
  get announcesExec(): boolean {
    return this.#live && this.#announcesExec;
  }

  /** Receives and distributes events until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { sources, clock, log } = this.#options;
    for (let retryDelayMs = initialRetryDelayMs; !signal.aborted; ) {
      const source = sources[this.#source];
      if (!source) {
        const message =
          "the runtime has no event stream: neither containerd's nor CRI's (GetContainerEvents, in CRI-O with enable_pod_events)";
        this.#events.end(new RuntimeError('Unsupported', message));
        return;
      }
      try {
        for await (const event of source(signal)) {
          retryDelayMs = initialRetryDelayMs;
          if (event.kind === 'live') await this.#startLive(event.announcesExec, signal);
          else this.#handle(event, signal);
        }
      } catch (error) {
        if (error instanceof RuntimeError && error.code === 'Unsupported') {
          this.#source += 1;
          continue;
        }
        if (!signal.aborted)
          log.warn({ error: (error as Error).message, retryInMs: retryDelayMs }, 'lost the stream of runtime events, reconnecting');
      } finally {
        this.#live = false;
        for (const waiters of [...this.#execWaiters.values()]) for (const added of [...waiters]) added(undefined);
      }
      if (signal.aborted) break;
      await clock.sleep(retryDelayMs, signal).catch(() => undefined);
      retryDelayMs = Math.min(retryDelayMs * 2, maxRetryDelayMs);
    }
    this.#events.end();
  }

  /** Yields the events after this call until the signal aborts. `resync` means that events may have been missed, so the reader has to list again. */
  async *listen(signal: AbortSignal): AsyncGenerator<RuntimeEvent | 'resync'> {
    yield* this.#events.read(signal, this.#live ? ['resync'] : []);
  }

  /** Emits an event that a call of the driver caused. */
  emit(event: RuntimeEvent): void {
    this.#events.push(event);
  }

  /** Runs `work`. Meanwhile, containerd's events of the id are ignored, except its exit, because the driver emits its own event after the call. */
  async suppressDuring<T>(id: string, work: () => Promise<T>): Promise<T> {
    this.#callsInProgress.set(id, (this.#callsInProgress.get(id) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const remaining = (this.#callsInProgress.get(id) ?? 1) - 1;
      if (remaining > 0) this.#callsInProgress.set(id, remaining);
      else this.#callsInProgress.delete(id);
    }
  }

  /**
   * Returns the next process that is added to a container; undefined if none is announced within `timeoutMs` or the event stream is lost.
   * Nothing is recorded after `over` aborts.
   */
  nextExec(containerId: string, timeoutMs: number, over: AbortSignal): Promise<ExecProcess | undefined> {
    return new Promise((resolve) => {
      const waiters = this.#execWaiters.get(containerId) ?? new Set();
      this.#execWaiters.set(containerId, waiters);
      const added = (id: string | undefined) => {
        waiters.delete(added);
        if (waiters.size === 0) this.#execWaiters.delete(containerId);
        timer.cancel();
        over.removeEventListener('abort', giveUp);
        if (id === undefined) {
          resolve(undefined);
          return;
        }
        const exited = new Promise<number>((resolveExit) => {
          this.#execExitHandlers.set(id, resolveExit);
        });
        over.addEventListener('abort', () => this.#execExitHandlers.delete(id), { once: true });
        resolve({ id, exited });
      };
      const giveUp = () => added(undefined);
      const timer = this.#options.clock.after(timeoutMs, giveUp);
      waiters.add(added);
      over.addEventListener('abort', giveUp, { once: true });
      if (over.aborted) giveUp();
    });
  }

  async #startLive(announcesExec: boolean, signal: AbortSignal): Promise<void> {
    await this.#options.refresh(signal);
    this.#live = true;
    this.#announcesExec = announcesExec;
    this.#events.push('resync');
  }

  #handle(event: Exclude<RawEvent, { kind: 'live' }>, signal: AbortSignal): void {
    if (event.kind === 'execAdded') {
      for (const added of [...(this.#execWaiters.get(event.containerId) ?? [])]) added(event.execId);
      return;
    }
    if (event.kind === 'execExited') {
      this.#execExitHandlers.get(event.execId)?.(event.exitCode);
      this.#execExitHandlers.delete(event.execId);
      return;
    }
    if (event.kind === 'task' && event.type !== 'STOPPED' && this.#callsInProgress.has(event.id)) return;
    if (event.kind === 'outOfMemory') {
      this.#outOfMemory.add(event.id);
      this.#outOfMemoryWaits.get(event.id)?.();
    }
    // events of one id stay in order; events of different ids do not wait for each other
    const previous = this.#handling.get(event.id) ?? Promise.resolve();
    const handled = previous
      .then(() => this.#emitWithRetries(event, signal))
      .finally(() => {
        if (this.#handling.get(event.id) === handled) this.#handling.delete(event.id);
      });
    this.#handling.set(event.id, handled);
  }

  /** Emits the event when the CRI service reports its state. A listener that reads the state earlier would keep the former state. */
  async #emitWithRetries(event: StateEvent, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    for (let retryInMs = initialRetryDelayMs; !signal.aborted; retryInMs = Math.min(retryInMs * 2, maxRetryDelayMs)) {
      try {
        await this.#emitWhenObserved(event, signal);
        return;
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ id: event.id, error: (error as Error).message, retryInMs }, 'cannot handle a runtime event, retrying');
        await clock.sleep(retryInMs, signal).catch(() => undefined);
      }
    }
  }

  async #emitWhenObserved(event: StateEvent, signal: AbortSignal): Promise<void> {
    const { id, at } = event;
    const type = event.kind === 'outOfMemory' ? 'STOPPED' : event.type;
    const sandboxId = (event.kind === 'cri' ? event.sandboxId : undefined) ?? (await this.#options.sandboxOf(id, signal));
    // removed in the meantime, or not a container of CRI
    if (sandboxId === undefined) {
      this.#outOfMemory.delete(id);
      return;
    }
    if (event.kind === 'task' && event.sandboxOnly && id !== sandboxId) return;
    if (event.kind === 'task') {
      if (event.killed && !this.#callsInProgress.has(id) && !this.#outOfMemory.has(id)) await this.#waitForOutOfMemory(id, signal);
      await this.#waitForState(id, event.killed && this.#outOfMemory.has(id) ? 'outOfMemory' : event.type, signal);
    } else if (event.kind === 'outOfMemory') {
      // the container may run on after the kernel killed one of its processes; its exit has an event of its own
      if ((await this.#options.observe(id, signal)) === 'running') return;
      await this.#waitForState(id, 'outOfMemory', signal);
    }
    if (type === 'DELETED') {
      this.#outOfMemory.delete(id);
      this.#options.forget(id);
    }
    this.emit({ type, sandboxId, at, ...(id !== sandboxId && { containerId: id }) });
  }

  async #waitForOutOfMemory(id: string, signal: AbortSignal): Promise<void> {
    const reported = new AbortController();
    this.#outOfMemoryWaits.set(id, () => reported.abort());
    await this.#options.clock.sleep(outOfMemoryWaitMs, AbortSignal.any([signal, reported.signal])).catch(() => undefined);
    this.#outOfMemoryWaits.delete(id);
  }

  /**
   * Polls the CRI service until it reports the state: no event follows when it does. That a container was out of memory is awaited for
   * `observeTimeoutMs` only, as the service may never report it.
   */
  async #waitForState(id: string, expected: keyof typeof acceptedStates, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    const lateAt = clock.monotonic() + observeTimeoutMs;
    let isLate = false;
    for (let pause = 1; ; pause = Math.min(pause * 2, isLate ? longestPauseMs.late : longestPauseMs.usual)) {
      const observed = await this.#options.observe(id, signal);
      if (acceptedStates[expected].includes(observed)) return;
      if (!isLate && clock.monotonic() > lateAt) {
        isLate = true;
        log.warn({ id, expected, observed }, 'the CRI service does not report the state of a runtime event yet');
      }
      if (isLate && expected === 'outOfMemory' && observed === 'stopped') return;
      await clock.sleep(pause, signal);
    }
  }
}

/** The states in the CRI service that reflect each event or a later event. */
const acceptedStates: Readonly<Record<'STARTED' | 'STOPPED' | 'DELETED' | 'outOfMemory', readonly ObservedState[]>> = {
  STARTED: ['running', 'stopped', 'outOfMemory', 'gone'],
  STOPPED: ['stopped', 'outOfMemory', 'gone'],
  DELETED: ['gone'],
  outOfMemory: ['outOfMemory', 'gone'],
};
