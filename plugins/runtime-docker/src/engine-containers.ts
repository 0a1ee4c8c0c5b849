import type { Clock } from '@oarlock/kernel/clock';
import { RuntimeError, type Container, type RuntimeCall } from '@oarlock/spi/runtime';
import { stateOf } from './container-state.ts';
import type { EngineClient } from './engine-client.ts';
import { hasCode } from './engine-errors.ts';
import type { EngineContainer, ListedContainer } from './engine-shapes.ts';
import type { KeyedLock } from '@oarlock/kernel/keyed-lock';
import { sandboxLabel, typeLabel, type Labels } from './names.ts';

export interface ListWanted {
  readonly id?: string | undefined;
  readonly sandboxId?: string | undefined;
  readonly labels?: Labels | undefined;
}

/** The engine's containers, of which some are sandboxes: found by label, looked at, and ended for good. */
export class EngineContainers {
  readonly #engine: EngineClient;
  readonly #locks: KeyedLock;
  readonly #clock: Clock;

  /** `locks`: by id; what is being removed is not started meanwhile. */
  constructor(engine: EngineClient, locks: KeyedLock, clock: Clock) {
    this.#engine = engine;
    this.#locks = locks;
    this.#clock = clock;
  }

  async list(
    type: 'container' | 'podsandbox',
    { id, sandboxId, labels = {} }: ListWanted,
    signal: AbortSignal | undefined,
  ): Promise<readonly ListedContainer[]> {
    const wanted = { [typeLabel]: type, ...(sandboxId !== undefined && { [sandboxLabel]: sandboxId }), ...labels };
    const filters = { label: Object.entries(wanted).map(([key, value]) => `${key}=${value}`), ...(id !== undefined && { id: [id] }) };
    const found = await this.#engine.call<readonly ListedContainer[]>('GET', '/containers/json', {
      query: { all: true, filters: JSON.stringify(filters) },
      signal,
    });
    return id === undefined ? found : found.filter(({ Id }) => Id === id);
  }

  /** The list does not say of one that was never started whether that was tried. */
  async stateOf({ Id, State }: ListedContainer, signal: AbortSignal | undefined): Promise<Container['state']> {
    if (State !== 'created') return stateOf({ Status: State, ExitCode: 0 });
    try {
      return stateOf((await this.inspect(Id, signal)).State);
    } catch (error) {
      if (hasCode(error, 'NotFound')) return 'EXITED'; // removed meanwhile
      throw error;
    }
  }

  /** @throws RuntimeError `NotFound` */
  inspect(id: string, signal: AbortSignal | undefined): Promise<EngineContainer> {
    return this.#engine.call<EngineContainer>('GET', `/containers/${id}/json`, { signal });
  }

  /** @throws RuntimeError `NotFound`, also for what is no sandbox */
  async sandbox(id: string, signal: AbortSignal | undefined): Promise<EngineContainer> {
    const found = await this.inspect(id, signal);
    if (found.Config.Labels?.[typeLabel] !== 'podsandbox') throw new RuntimeError('NotFound', `there is no sandbox ${id}`);
    return found;
  }

  /** Returns when it has ended. */
  async kill(id: string): Promise<void> {
    try {
      await this.#engine.call('POST', `/containers/${id}/kill`);
    } catch (error) {
      // it does not run, or is not there
      if (!hasCode(error, 'NotFound', 'FailedPrecondition')) throw error;
    }
  }

  /** Returns when it is gone. */
  async remove(id: string, { signal }: RuntimeCall): Promise<void> {
    signal?.throwIfAborted();
    await this.#locks.run(id, async () => {
      for (let pause = 20; ; pause = Math.min(pause * 2, 500)) {
        try {
          await this.#engine.call('DELETE', `/containers/${id}`, { query: { force: true, v: true } });
          return;
        } catch (error) {
          if (hasCode(error, 'NotFound')) return;
          // somebody else removes it: it is gone when that is done
          if (!hasCode(error, 'FailedPrecondition') || !/already in progress/.test((error as Error).message)) throw error;
        }
        await this.#clock.sleep(pause, signal);
      }
    });
  }
}
