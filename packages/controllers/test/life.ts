import type { KubeObject } from '@oarlock/api/object';
import type { Plugin } from '@oarlock/kernel/plugin';
import { controllerOfPlugin, type ControllerOptions, type Told } from '@oarlock/testing/controller-cuts';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { simulateKubelet } from '@oarlock/testing/simulated-pods';
import { onTestFinished } from 'vitest';
import { runController } from './one-loop.ts';

export interface Life {
  readonly clock: FakeClock;
  readonly api: MemoryApi;
  readonly told: Told[];
  readonly reasons: () => readonly string[];
  readonly messages: (reason: string) => readonly string[];
  /** Until neither the loops nor kubelets have anything left to do. */
  readonly rest: () => Promise<void>;
}

/** Some loops, as the controllers role runs them, over an API in memory and a clock that stands still; they end with the test. */
export async function live(
  plugins: readonly Plugin[],
  {
    seed,
    options,
    defaults = true,
    served = [],
  }: {
    seed?: (api: MemoryApi, clock: FakeClock) => void;
    options?: ControllerOptions;
    defaults?: boolean;
    served?: readonly string[];
  } = {},
): Promise<Life> {
  const clock = new FakeClock();
  const api = memoryApi({ clock, defaults, served });
  const abort = new AbortController();
  const told: Told[] = [];
  seed?.(api, clock);
  const done = plugins.map((plugin) =>
    runController(controllerOfPlugin(plugin, { client: api.client(), informers: api.informers, clock }, { ...options, told }), {
      api,
      clock,
      signal: abort.signal,
    }),
  );
  onTestFinished(async () => {
    abort.abort();
    await Promise.all(done);
    await api.stop();
  });
  await clock.settle();
  const kubelet = simulateKubelet(clock);
  return {
    clock,
    api,
    told,
    reasons: () => told.map(({ reason }) => reason),
    messages: (reason) => told.filter((each) => each.reason === reason).map(({ message }) => message),
    async rest() {
      await clock.settle();
      while (await kubelet(api)) await clock.settle();
    },
  };
}

export const at = (name: string) => ({ namespace: 'd', name });
export const named = (objects: readonly KubeObject[]): readonly string[] => objects.map(({ metadata }) => metadata?.name ?? '').sort();
