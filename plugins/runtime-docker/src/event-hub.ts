import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { RuntimeError, type RuntimeEvent } from '@oarlock/spi/runtime';
import type { EngineClient } from './engine-client.ts';
import type { EngineEvent } from './engine-shapes.ts';
import { EventQueues } from './event-queue.ts';
import { sandboxLabel, typeLabel } from './names.ts';

export interface EventHubOptions {
  readonly engine: EngineClient;
  readonly clock: Clock;
  readonly log: Logger;
  /** A container has ended; resolves when its status and its log say all of it. */
  readonly ended: (id: string) => Promise<void>;
  readonly removed: (id: string) => Promise<void>;
}

const firstPauseMs = 100;
const longestPauseMs = 5_000;
const longestLine = 1024 * 1024;
/** Of the engine's own memory of events: what happened while the stream was made. */
const overlapMs = 1_000;

/** The engine's events as CRI's, over reconnects. */
export class EventHub {
  readonly #options: EventHubOptions;
  readonly #queues = new EventQueues();
  readonly #handling = new Map<string, Promise<void>>();
  readonly #starved = new Set<string>();
  readonly #dead = new Set<string>();
  readonly #execs = new Map<string, () => void>();
  #live = false;
  #since = 0;

  constructor(options: EventHubOptions) {
    this.#options = options;
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    for (let pause = firstPauseMs; !signal.aborted; ) {
      try {
        for await (const event of this.#stream(signal)) {
          pause = firstPauseMs;
          this.#take(event);
        }
      } catch (error) {
        if (!signal.aborted)
          log.warn({ error: (error as Error).message, retryInMs: pause }, "the stream of the docker engine's events was lost");
      }
      this.#live = false;
      for (const wake of this.#execs.values()) wake();
      if (signal.aborted) break;
      await clock.sleep(pause, signal).catch(() => undefined); // a stop ends the wait
      pause = Math.min(pause * 2, longestPauseMs);
    }
    await Promise.all(this.#handling.values());
  }

  listen(signal: AbortSignal): AsyncIterable<RuntimeEvent | 'resync'> {
    return this.#queues.read(signal, this.#live ? ['resync'] : []);
  }

  /** For what the driver itself brought about, after what was told of it before. */
  tell(type: RuntimeEvent['type'], sandboxId: string, containerId?: string): void {
    const event = { type, sandboxId, at: this.#options.clock.now(), ...(containerId !== undefined && { containerId }) };
    this.#inOrder(containerId ?? sandboxId, () => Promise.resolve(this.#queues.push(event)));
  }

  /** Whether the kernel was heard to have ended it for want of memory. */
  starved(id: string): boolean {
    return this.#starved.has(id);
  }

  /** Calls `wake` when the command of an exec may have ended. Returns how to stop that. */
  onExecEnd(execId: string, wake: () => void): () => void {
    this.#execs.set(execId, wake);
    return () => this.#execs.delete(execId);
  }

  async *#stream(signal: AbortSignal): AsyncGenerator<EngineEvent> {
    const { engine, clock } = this.#options;
    await engine.negotiate(signal);
    const since = this.#since === 0 ? clock.now() - overlapMs : this.#since;
    const answer = await engine.open('GET', '/events', {
      query: { since: (since / 1000).toFixed(3), filters: JSON.stringify({ type: ['container'], label: [typeLabel] }) },
      signal,
    });
    this.#live = true;
    this.#queues.push('resync');
    let text = '';
    answer.setEncoding('utf8');
    for await (const chunk of answer) {
      text += chunk as string;
      if (text.length > longestLine) throw new RuntimeError('Internal', 'an event of the docker engine is too long');
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      for (const line of lines) if (line !== '') yield JSON.parse(line) as EngineEvent;
    }
  }

  #take(event: EngineEvent): void {
    const { Action, Actor, timeNano } = event;
    const at = Math.floor(timeNano / 1e6);
    this.#since = at;
    const id = Actor.ID;
    const isSandbox = Actor.Attributes[typeLabel] === 'podsandbox';
    const sandboxId = isSandbox ? id : (Actor.Attributes[sandboxLabel] ?? '');
    const emit = (type: RuntimeEvent['type']) => this.#queues.push({ type, sandboxId, at, ...(!isSandbox && { containerId: id }) });
    switch (Action) {
      case 'create':
        this.#inOrder(id, async () => emit('CREATED'));
        break;
      case 'start':
        // a sandbox is ready when it has an address, and that is told by who gave it
        if (!isSandbox) this.#inOrder(id, async () => emit('STARTED'));
        break;
      case 'die':
        this.#inOrder(id, async () => {
          await this.#options.ended(id);
          this.#dead.add(id);
          emit('STOPPED');
        });
        break;
      case 'oom':
        this.#starved.add(id);
        // told apart from the end itself, and perhaps later
        this.#inOrder(id, async () => {
          if (this.#dead.has(id)) emit('STOPPED');
        });
        break;
      case 'destroy':
        this.#inOrder(id, async () => {
          await this.#options.removed(id);
          this.#starved.delete(id);
          this.#dead.delete(id);
          emit('DELETED');
        });
        break;
      case 'exec_die':
        this.#execs.get(Actor.Attributes['execID'] ?? '')?.();
        break;
      default:
    }
  }

  /** Events of one id stay in order; those of others do not wait for them. */
  #inOrder(id: string, work: () => Promise<void>): void {
    const handled = (this.#handling.get(id) ?? Promise.resolve())
      .then(work)
      .catch((error: unknown) => {
        this.#options.log.warn({ id, error: (error as Error).message }, 'an event of the docker engine could not be followed up');
        this.#queues.push('resync');
      })
      .finally(() => {
        if (this.#handling.get(id) === handled) this.#handling.delete(id);
      });
    this.#handling.set(id, handled);
  }
}
