import { BoundedEventBroadcaster } from '@oarlock/primitives/collections/bounded-event-queue';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { RuntimeError, type RuntimeEvent } from '@oarlock/spi/runtime';
import type { EngineClient } from '../engine/engine-client.ts';
import type { EngineEvent } from '../engine/engine-types.ts';
import { sandboxLabel, typeLabel } from '../engine/names-and-labels.ts';

export interface EventBroadcasterOptions {
  readonly engine: EngineClient;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when a container has exited. Resolves when the container's status and log are complete. */
  readonly onExit: (id: string) => Promise<void>;
  readonly onRemoved: (id: string) => Promise<void>;
}

const initialRetryDelayMs = 100;
const maxRetryDelayMs = 5_000;
/** The maximum number of unread events of a reader. A reader with more events gets `resync` instead. */
const maxUnreadEvents = 10_000;
const maxLineLength = 1024 * 1024;
/** How far in the past the first event stream starts, to cover the time until the stream is established. */
const overlapMs = 1_000;

/** Converts the engine's events to CRI events, and reconnects when the event stream is lost. */
export class EventBroadcaster {
  readonly #options: EventBroadcasterOptions;
  readonly #events = new BoundedEventBroadcaster<RuntimeEvent | 'resync'>({ limit: maxUnreadEvents, overflow: 'resync' });
  readonly #handling = new Map<string, Promise<void>>();
  readonly #oomKilled = new Set<string>();
  readonly #exited = new Set<string>();
  readonly #execWaiters = new Map<string, () => void>();
  #live = false;
  #since = 0;

  constructor(options: EventBroadcasterOptions) {
    this.#options = options;
  }

  /** Receives and distributes events until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    for (let retryDelayMs = initialRetryDelayMs; !signal.aborted; ) {
      try {
        for await (const event of this.#stream(signal)) {
          retryDelayMs = initialRetryDelayMs;
          this.#handle(event);
        }
      } catch (error) {
        if (!signal.aborted)
          log.warn({ error: (error as Error).message, retryInMs: retryDelayMs }, "lost the docker engine's event stream, reconnecting");
      }
      this.#live = false;
      for (const wake of this.#execWaiters.values()) wake();
      if (signal.aborted) break;
      await clock.sleep(retryDelayMs, signal).catch(() => undefined); // a stop ends the wait
      retryDelayMs = Math.min(retryDelayMs * 2, maxRetryDelayMs);
    }
    await Promise.all(this.#handling.values());
  }

  listen(signal: AbortSignal): AsyncIterable<RuntimeEvent | 'resync'> {
    return this.#events.read(signal, this.#live ? ['resync'] : []);
  }

  /** Emits the event of a driver call, after earlier events of the same id. */
  publish(type: RuntimeEvent['type'], sandboxId: string, containerId?: string): void {
    const event = { type, sandboxId, at: this.#options.clock.now(), ...(containerId !== undefined && { containerId }) };
    this.#inOrder(containerId ?? sandboxId, () => Promise.resolve(this.#events.push(event)));
  }

  /** Returns true if the engine reported an OOM event for the container. */
  wasOomKilled(id: string): boolean {
    return this.#oomKilled.has(id);
  }

  /** Calls `wake` when the process of an exec session may have ended. Returns a function that removes the callback. */
  onExecEnd(execId: string, wake: () => void): () => void {
    this.#execWaiters.set(execId, wake);
    return () => this.#execWaiters.delete(execId);
  }

  async *#stream(signal: AbortSignal): AsyncGenerator<EngineEvent> {
    const { engine, clock } = this.#options;
    await engine.negotiate(signal);
    const since = this.#since === 0 ? clock.now() - overlapMs : this.#since;
    const response = await engine.open('GET', '/events', {
      query: { since: (since / 1000).toFixed(3), filters: JSON.stringify({ type: ['container'], label: [typeLabel] }) },
      signal,
    });
    this.#live = true;
    this.#events.push('resync');
    let text = '';
    response.setEncoding('utf8');
    for await (const chunk of response) {
      text += chunk as string;
      if (text.length > maxLineLength) throw new RuntimeError('Internal', 'an event of the docker engine is too long');
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      for (const line of lines) if (line !== '') yield JSON.parse(line) as EngineEvent;
    }
  }

  #handle(event: EngineEvent): void {
    const { Action, Actor, timeNano } = event;
    const at = Math.floor(timeNano / 1e6);
    this.#since = at;
    const id = Actor.ID;
    const isSandbox = Actor.Attributes[typeLabel] === 'podsandbox';
    const sandboxId = isSandbox ? id : (Actor.Attributes[sandboxLabel] ?? '');
    const emit = (type: RuntimeEvent['type']) => this.#events.push({ type, sandboxId, at, ...(!isSandbox && { containerId: id }) });
    switch (Action) {
      case 'create':
        this.#inOrder(id, async () => emit('CREATED'));
        break;
      case 'start':
        // a sandbox is ready when it has an address: Sandboxes emits STARTED then
        if (!isSandbox) this.#inOrder(id, async () => emit('STARTED'));
        break;
      case 'die':
        this.#inOrder(id, async () => {
          await this.#options.onExit(id);
          this.#exited.add(id);
          emit('STOPPED');
        });
        break;
      case 'oom':
        this.#oomKilled.add(id);
        // the OOM event is separate from the exit and may come later: then STOPPED is emitted again
        this.#inOrder(id, async () => {
          if (this.#exited.has(id)) emit('STOPPED');
        });
        break;
      case 'destroy':
        this.#inOrder(id, async () => {
          await this.#options.onRemoved(id);
          this.#oomKilled.delete(id);
          this.#exited.delete(id);
          emit('DELETED');
        });
        break;
      case 'exec_die':
        this.#execWaiters.get(Actor.Attributes['execID'] ?? '')?.();
        break;
      default:
    }
  }

  /** Runs the work for one id in order. Work for different ids runs concurrently. */
  #inOrder(id: string, work: () => Promise<void>): void {
    const handled = (this.#handling.get(id) ?? Promise.resolve())
      .then(work)
      .catch((error: unknown) => {
        this.#options.log.warn({ id, error: (error as Error).message }, 'cannot handle an event of the docker engine');
        this.#events.push('resync');
      })
      .finally(() => {
        if (this.#handling.get(id) === handled) this.#handling.delete(id);
      });
    this.#handling.set(id, handled);
  }
}
