import { ControllerRunner } from '@oarlock/controllers/manager/controller-runner';
import { silentLogger } from '@oarlock/primitives/logger';
import type { Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { noTracer } from '@oarlock/kernel/tracing';
import { Client, Events, Informers, type EventRecorder } from '@oarlock/spi/client';
import { Cluster, Keys, type ClusterFacts, type ClusterKeys } from '@oarlock/spi/cluster';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { Registry } from 'prom-client';

export const facts: ClusterFacts = {
  name: 't',
  domain: 'cluster.local',
  podCIDRs: ['10.244.0.0/16'],
  serviceCIDRs: ['10.96.0.0/16'],
  kubernetesServiceIP: '10.96.0.1',
  dnsServiceIP: '10.96.0.10',
  serverUrl: 'https://127.0.0.1:6443',
  nodePortRange: { from: 30_000, to: 32_767 },
  version: 'v1.36.0',
};
const noKeys: ClusterKeys = {
  caBundle: 'CA',
  issue: () => Promise.reject(new Error('none')),
  sign: () => Promise.reject(new Error('none')),
  serviceAccount: { issuer: '', signingKey: '', verifyingKeys: [] },
};

export interface RunningController {
  readonly clock: FakeClock;
  readonly api: MemoryApi;
  stop(): Promise<void>;
}

/** Runs one controller until the signal aborts. */
export function runController(
  controller: Controller,
  { api, clock, signal }: { readonly api: MemoryApi; readonly clock: FakeClock; readonly signal: AbortSignal },
): Promise<void> {
  const silent = { log: silentLogger, tracer: noTracer, metrics: new Registry() };
  return new ControllerRunner({ controller, client: api.client(), clock, ...silent }).run(signal);
}

/** Starts controllers on an in-memory API with a fake clock. `seed` creates objects before they start; Events go to `recorder`. */
export async function startControllers(
  plugins: readonly { readonly plugin: Plugin; readonly config?: unknown }[],
  {
    seed,
    keys = noKeys,
    clock = new FakeClock(),
    recorder = { event: () => {} },
    api: createApi,
  }: {
    readonly seed?: (api: MemoryApi) => void;
    readonly keys?: ClusterKeys;
    readonly clock?: FakeClock;
    readonly recorder?: EventRecorder;
    readonly api?: (clock: FakeClock) => MemoryApi;
  } = {},
): Promise<RunningController> {
  const api = createApi?.(clock) ?? memoryApi({ clock });
  seed?.(api);
  const host = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .provide(Events, { recorder: () => recorder })
    .provide(Cluster, facts)
    .provide(Keys, keys);
  for (const placement of plugins) host.add(placement);
  await host.start();
  const abort = new AbortController();
  const runs = host.get(Controllers).map((controller) => runController(controller, { api, clock, signal: abort.signal }));
  await clock.settle();
  return {
    clock,
    api,
    async stop() {
      abort.abort();
      await Promise.allSettled(runs);
      await host.stop();
      await api.stop();
    },
  };
}
