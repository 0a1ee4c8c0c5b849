import { nodes, pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { noTracer } from '@oarlock/kernel/tracing';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { configuration } from '@oarlock/scheduler/config/configuration';
import { makeProfiles } from '@oarlock/scheduler/config/profiles';
import { SchedulerMetrics } from '@oarlock/scheduler/metrics/scheduler-metrics';
import { builtin } from '@oarlock/scheduler/plugins/registry';
import { Scheduler } from '@oarlock/scheduler/scheduler';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Scheduling } from '@oarlock/spi/scheduling';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { Registry } from 'prom-client';
import type { Operation } from './cost.ts';

const nodeCount = 100;
const events = { recorder: () => ({ event() {} }) };

/** Returns the operation that creates a pod and waits until the scheduler has bound it to one of 100 nodes, and a function that stops the scheduler. */
export async function schedulingOperation(): Promise<{ readonly operation: Operation; stop(): void }> {
  const api = memoryApi({ clock: new FakeClock() });
  for (let i = 0; i < nodeCount; i++)
    api.seed(nodes, {
      metadata: { name: `n${i}`, labels: { 'kubernetes.io/hostname': `n${i}`, 'topology.kubernetes.io/zone': `z${i % 3}` } },
      status: { allocatable: { cpu: '800', memory: '3200Gi', pods: '11000' } },
    });
  const host = new PluginHost().provide(Client, api.client()).provide(Informers, api.informers).provide(Events, events);
  for (const plugin of builtin) host.add({ plugin });
  await host.start();
  const waiting = new Map<string, () => void>();
  api.informers.forResource(pods).addEventHandler({
    onUpdate({ metadata, spec }: Pod) {
      if (spec?.nodeName) waiting.get(metadata?.name ?? '')?.();
    },
  });
  const scheduler: Scheduler = new Scheduler({
    client: api.client(),
    informers: api.informers,
    profiles: makeProfiles(configuration.parse({}), host.get(Scheduling)),
    clock: systemClock,
    log: silentLogger,
    tracer: noTracer,
    random: () => 0.5,
    events,
    metrics: new SchedulerMetrics({ registry: new Registry(), clock: systemClock, pendingPods: () => scheduler.pendingPods }),
    parallelBinds: 200,
    initialBackoffMs: 1000,
    maxBackoffMs: 10_000,
  });
  const abort = new AbortController();
  void scheduler.run(abort.signal);
  const spec = { containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '10m', memory: '10Mi' } } }] };
  const run = (call: number) =>
    new Promise<void>((resolve) => {
      const name = `p${call}`;
      waiting.set(name, () => {
        waiting.delete(name);
        resolve();
      });
      api.seed(pods, { metadata: { namespace: 'default', name }, spec });
    });
  return { operation: { name: 'schedule a Pod', calls: 40, run }, stop: () => abort.abort() };
}
