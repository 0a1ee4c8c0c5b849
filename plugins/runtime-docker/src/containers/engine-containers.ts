import type { Clock } from '@oarlock/primitives/clock';
import { RuntimeError, type Container, type RuntimeCallOptions } from '@oarlock/spi/runtime';
import { stateOf } from './internal/status-mapping.ts';
import type { EngineClient } from '../engine/engine-client.ts';
import { hasCode } from '../engine/engine-errors.ts';
import type { EngineContainer, ListedContainer } from '../engine/engine-types.ts';
import type { KeyedLock } from '@oarlock/primitives/concurrency/keyed-lock';
import { sandboxLabel, typeLabel, type Labels } from '../engine/names-and-labels.ts';

export interface ListSelector {
  readonly id?: string | undefined;
  readonly sandboxId?: string | undefined;
  readonly labels?: Labels | undefined;
}

/** Lists, inspects, kills and removes the Docker engine's containers. Containers of type `podsandbox` are sandboxes. */
export class EngineContainers {
  readonly #engine: EngineClient;
  readonly #locks: KeyedLock;
  readonly #clock: Clock;

  /** @param locks locks by container id, so that a container is not started while it is removed */
  constructor(engine: EngineClient, locks: KeyedLock, clock: Clock) {
    this.#engine = engine;
    this.#locks = locks;
    this.#clock = clock;
  }

  async list(
    type: 'container' | 'podsandbox',
    { id, sandboxId, labels = {} }: ListSelector,
    signal: AbortSignal | undefined,
  ): Promise<readonly ListedContainer[]> {
    const selected = { [typeLabel]: type, ...(sandboxId !== undefined && { [sandboxLabel]: sandboxId }), ...labels };
    const filters = { label: Object.entries(selected).map(([key, value]) => `${key}=${value}`), ...(id !== undefined && { id: [id] }) };
    const found = await this.#engine.call<readonly ListedContainer[]>('GET', '/containers/json', {
      query: { all: true, filters: JSON.stringify(filters) },
      signal,
    });
    return id === undefined ? found : found.filter(({ Id }) => Id === id);
  }

  /** Returns the CRI state of a listed container. For state `created`, an inspection shows whether a start failed. */
  async stateOf({ Id, State }: ListedContainer, signal: AbortSignal | undefined): Promise<Container['state']> {
    if (State !== 'created') return stateOf({ Status: State, ExitCode: 0 });
    try {
      return stateOf((await this.inspect(Id, signal)).State);
    } catch (error) {
      if (hasCode(error, 'NotFound')) return 'EXITED'; // removed in the meantime
      throw error;
    }
  }

  /** Inspects a container. @throws RuntimeError `NotFound` if the container does not exist */
  inspect(id: string, signal: AbortSignal | undefined): Promise<EngineContainer> {
    return this.#engine.call<EngineContainer>('GET', `/containers/${id}/json`, { signal });
  }

  /** Inspects a sandbox. @throws RuntimeError `NotFound` if the container does not exist or is not a sandbox */
  async sandbox(id: string, signal: AbortSignal | undefined): Promise<EngineContainer> {
    const found = await this.inspect(id, signal);
    if (found.Config.Labels?.[typeLabel] !== 'podsandbox') throw new RuntimeError('NotFound', `there is no sandbox ${id}`);
    return found;
  }

  /** Kills a container. Resolves when the container has exited. Succeeds if the container does not exist or does not run. */
  async kill(id: string): Promise<void> {
    try {
      await this.#engine.call('POST', `/containers/${id}/kill`);
    } catch (error) {
      // NotFound: it does not exist; FailedPrecondition: it is not running
      if (!hasCode(error, 'NotFound', 'FailedPrecondition')) throw error;
    }
  }

  /** Removes a container. Resolves when the container no longer exists. */
  async remove(id: string, { signal }: RuntimeCallOptions): Promise<void> {
    signal?.throwIfAborted();
    await this.#locks.run(id, async () => {
      for (let pause = 20; ; pause = Math.min(pause * 2, 500)) {
        try {
          await this.#engine.call('DELETE', `/containers/${id}`, { query: { force: true, v: true } });
          return;
        } catch (error) {
          if (hasCode(error, 'NotFound')) return;
          // another call removes it: retry until that is done
          if (!hasCode(error, 'FailedPrecondition') || !/already in progress/.test((error as Error).message)) throw error;
        }
        await this.#clock.sleep(pause, signal);
      }
    });
  }
}
