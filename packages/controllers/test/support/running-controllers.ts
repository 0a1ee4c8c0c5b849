import type { KubeObject } from '@oarlock/api/object';
import type { Plugin } from '@oarlock/kernel/plugin';
import { controllerOfPlugin, type ControllerOptions, type RecordedEvent } from '@oarlock/testing/controller-contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { simulateKubelet } from '@oarlock/testing/simulated-pods';
import { onTestFinished } from 'vitest';
import { runController } from './run-controller.ts';

export interface RunningControllers {
  readonly clock: FakeClock;
  readonly api: MemoryApi;
  readonly events: RecordedEvent[];
  readonly reasons: () => readonly string[];
  readonly messages: (reason: string) => readonly string[];
  /** Resolves when neither the controllers nor the kubelets have work left. */
  readonly whenIdle: () => Promise<void>;
}

/** Runs controllers on an in-memory API with a stopped clock until the test ends, as the controllers role does. */
export async function runControllers(
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
): Promise<RunningControllers> {
  const clock = new FakeClock();
  const api = memoryApi({ clock, defaults, served });
  const abort = new AbortController();
  const recordedEvents: RecordedEvent[] = [];
  seed?.(api, clock);
  const done = plugins.map((plugin) =>
    runController(
      controllerOfPlugin(plugin, { client: api.client(), informers: api.informers, clock }, { ...options, recordedEvents: recordedEvents }),
      {
        api,
        clock,
        signal: abort.signal,
      },
    ),
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
    events: recordedEvents,
    reasons: () => recordedEvents.map(({ reason }) => reason),
    messages: (reason) => recordedEvents.filter((each) => each.reason === reason).map(({ message }) => message),
    async whenIdle() {
      await clock.settle();
      while (await kubelet(api)) await clock.settle();
    },
  };
}

export const at = (name: string) => ({ namespace: 'd', name });
export const named = (objects: readonly KubeObject[]): readonly string[] => objects.map(({ metadata }) => metadata?.name ?? '').sort();
