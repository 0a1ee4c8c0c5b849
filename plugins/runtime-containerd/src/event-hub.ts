import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { RuntimeError, type RuntimeEvent } from '@oarlock/spi/runtime';
import { EventQueue } from './event-queue.ts';
import type { RawEvent } from './raw-events.ts';

export type EventSource = (signal: AbortSignal) => AsyncIterable<RawEvent>;
/** What the CRI service says of an id now. */
export type Sighting = 'gone' | 'created' | 'running' | 'stopped' | 'outOfMemory';

export interface EventHubOptions {
  /** Tried in this order; one that answers `Unsupported` is left for the next. */
  readonly sources: readonly EventSource[];
  readonly clock: Clock;
  readonly log: Logger;
  /** Learns of everything that is there, so that later events can be told to sandboxes. */
  refresh(signal: AbortSignal): Promise<void>;
  /** The sandbox of a container (or of itself); undefined when nobody knows the id. */
  sandboxOf(id: string, signal: AbortSignal): Promise<string | undefined>;
  look(id: string, signal: AbortSignal): Promise<Sighting>;
  forget(id: string): void;
}

const queueLimit = 4_096;
const firstPause = 100;
const longestPause = 3_000;
/** How long the CRI service may take to show what an event from below it says: it writes its state to disk in between. */
const settleMs = 5_000;
/** How long the end of what was killed is held back for the word that it was for want of memory: the kernel tells that by another way. */
const outOfMemoryMs = 250;

/** A process that was added to a container. */
export interface ExecProcess {
  readonly id: string;
  /** Resolves with its exit code; stays open when the end is not told. */
  readonly exited: Promise<number>;
}
type RuntimeChange = Extract<RawEvent, { kind: 'settled' | 'unsettled' | 'outOfMemory' }>;

/** One subscription for the whole driver, for as long as it runs; any number of listeners. */
export class EventHub {
  readonly #options: EventHubOptions;
  readonly #queues = new Set<EventQueue>();
  readonly #execAdded = new Map<string, Set<(execId: string | undefined) => void>>();
  readonly #execExited = new Map<string, (exitCode: number) => void>();
  readonly #handling = new Map<string, Promise<void>>();
  readonly #busy = new Map<string, number>();
  /** Containers that ran out of memory, until they are removed; and who waits for the word of it. */
  readonly #starved = new Set<string>();
  readonly #starving = new Map<string, () => void>();
  #live = false;
  #announcesExec = false;
  #unsupported: RuntimeError | undefined;
  #source = 0;

  constructor(options: EventHubOptions) {
    this.#options = options;
  }

  /** True when exec processes are announced. */
  get announcesExec(): boolean {
    return this.#live && this.#announcesExec;
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { sources, clock, log } = this.#options;
    for (let pause = firstPause; !signal.aborted; ) {
      const source = sources[this.#source];
      if (!source) {
        this.#unsupported = new RuntimeError(
          'Unsupported',
          "the runtime has no stream of events: neither containerd's nor CRI's (GetContainerEvents, which CRI-O has when enable_pod_events is set)",
        );
        for (const queue of this.#queues) queue.end(this.#unsupported);
        return;
      }
      try {
        for await (const event of source(signal)) {
          pause = firstPause;
          if (event.kind === 'live') await this.#begin(event.announcesExec, signal);
          else this.#handle(event, signal);
        }
      } catch (error) {
        if (error instanceof RuntimeError && error.code === 'Unsupported') {
          this.#source += 1;
          continue;
        }
        if (!signal.aborted) log.warn({ error: (error as Error).message, retryInMs: pause }, 'the stream of runtime events was lost');
      } finally {
        this.#live = false;
        for (const waiters of [...this.#execAdded.values()]) for (const added of [...waiters]) added(undefined);
      }
      if (signal.aborted) break;
      await clock.sleep(pause, signal).catch(() => undefined);
      pause = Math.min(pause * 2, longestPause);
    }
    for (const queue of this.#queues) queue.end();
  }

  async *listen(signal: AbortSignal): AsyncGenerator<RuntimeEvent | 'resync'> {
    if (this.#unsupported) throw this.#unsupported;
    const queue = new EventQueue(queueLimit);
    this.#queues.add(queue);
    const end = () => queue.end();
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    else if (this.#live) queue.push('resync');
    try {
      yield* queue;
    } finally {
      signal.removeEventListener('abort', end);
      this.#queues.delete(queue);
    }
  }

  /** For what the driver itself brought about. */
  emit(event: RuntimeEvent): void {
    for (const queue of this.#queues) queue.push(event);
  }

  /** While it lasts, events from below about this id tell nothing new: the end of the call does. */
  async during<T>(id: string, work: () => Promise<T>): Promise<T> {
    this.#busy.set(id, (this.#busy.get(id) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const left = (this.#busy.get(id) ?? 1) - 1;
      if (left > 0) this.#busy.set(id, left);
      else this.#busy.delete(id);
    }
  }

  /**
   * The next process that is added to a container; undefined when none is told of within `patienceMs`, or the stream is lost meanwhile.
   * Nothing of it is kept after `over`.
   */
  nextExec(containerId: string, patienceMs: number, over: AbortSignal): Promise<ExecProcess | undefined> {
    return new Promise((resolve) => {
      const waiters = this.#execAdded.get(containerId) ?? new Set();
      this.#execAdded.set(containerId, waiters);
      const added = (id: string | undefined) => {
        waiters.delete(added);
        if (waiters.size === 0) this.#execAdded.delete(containerId);
        patience.cancel();
        over.removeEventListener('abort', giveUp);
        if (id === undefined) {
          resolve(undefined);
          return;
        }
        const exited = new Promise<number>((tell) => {
          this.#execExited.set(id, tell);
        });
        over.addEventListener('abort', () => this.#execExited.delete(id), { once: true });
        resolve({ id, exited });
      };
      const giveUp = () => added(undefined);
      const patience = this.#options.clock.after(patienceMs, giveUp);
      waiters.add(added);
      over.addEventListener('abort', giveUp, { once: true });
      if (over.aborted) giveUp();
    });
  }

  async #begin(announcesExec: boolean, signal: AbortSignal): Promise<void> {
    await this.#options.refresh(signal);
    this.#live = true;
    this.#announcesExec = announcesExec;
    for (const queue of this.#queues) queue.push('resync');
  }

  #handle(event: Exclude<RawEvent, { kind: 'live' }>, signal: AbortSignal): void {
    if (event.kind === 'execAdded') {
      for (const added of [...(this.#execAdded.get(event.containerId) ?? [])]) added(event.execId);
      return;
    }
    if (event.kind === 'execExited') {
      this.#execExited.get(event.execId)?.(event.exitCode);
      this.#execExited.delete(event.execId);
      return;
    }
    if (event.kind === 'unsettled' && event.type !== 'STOPPED' && this.#busy.has(event.id)) return;
    if (event.kind === 'outOfMemory') {
      this.#starved.add(event.id);
      this.#starving.get(event.id)?.();
    }
    // events of one id stay in order; those of others do not wait for them
    const before = this.#handling.get(event.id) ?? Promise.resolve();
    const handled = before
      .then(() => this.#tell(event, signal))
      .catch((error: unknown) => {
        if (signal.aborted) return;
        this.#options.log.warn({ id: event.id, error: (error as Error).message }, 'a runtime event could not be followed up');
        for (const queue of this.#queues) queue.push('resync');
      })
      .finally(() => {
        if (this.#handling.get(event.id) === handled) this.#handling.delete(event.id);
      });
    this.#handling.set(event.id, handled);
  }

  async #tell(event: RuntimeChange, signal: AbortSignal): Promise<void> {
    const { id, at } = event;
    const type = event.kind === 'outOfMemory' ? 'STOPPED' : event.type;
    const sandboxId = (event.kind === 'settled' ? event.sandboxId : undefined) ?? (await this.#options.sandboxOf(id, signal));
    // nobody knows it any more, or it is no container of CRI's
    if (sandboxId === undefined) {
      this.#starved.delete(id);
      return;
    }
    if (event.kind === 'unsettled' && event.ofSandboxes && id !== sandboxId) return;
    if (event.kind === 'unsettled') {
      if (event.killed && !this.#busy.has(id) && !this.#starved.has(id)) await this.#starvation(id, signal);
      await this.#settle(id, event.killed && this.#starved.has(id) ? 'outOfMemory' : event.type, signal);
    } else if (event.kind === 'outOfMemory') {
      // its end is told when it comes; one process of it may have been enough
      if ((await this.#options.look(id, signal)) === 'running') return;
      await this.#settle(id, 'outOfMemory', signal);
    }
    if (type === 'DELETED') {
      this.#starved.delete(id);
      this.#options.forget(id);
    }
    this.emit({ type, sandboxId, at, ...(id !== sandboxId && { containerId: id }) });
  }

  async #starvation(id: string, signal: AbortSignal): Promise<void> {
    const enough = new AbortController();
    this.#starving.set(id, () => enough.abort());
    await this.#options.clock.sleep(outOfMemoryMs, AbortSignal.any([signal, enough.signal])).catch(() => undefined);
    this.#starving.delete(id);
  }

  async #settle(id: string, wanted: 'STARTED' | 'STOPPED' | 'DELETED' | 'outOfMemory', signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    const shows: Readonly<Record<typeof wanted, readonly Sighting[]>> = {
      STARTED: ['running', 'stopped', 'outOfMemory', 'gone'],
      STOPPED: ['stopped', 'outOfMemory', 'gone'],
      DELETED: ['gone'],
      outOfMemory: ['outOfMemory', 'gone'],
    };
    const end = clock.monotonic() + settleMs;
    for (let pause = 1; ; pause = Math.min(pause * 2, 100)) {
      const seen = await this.#options.look(id, signal);
      if (shows[wanted].includes(seen)) return;
      if (clock.monotonic() > end) {
        log.warn({ id, wanted, seen }, 'the runtime does not show what it reported');
        return;
      }
      await clock.sleep(pause, signal);
    }
  }
}
