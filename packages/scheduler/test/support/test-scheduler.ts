import type { KubeObject } from '@oarlock/api/object';
import { nodes, pods } from '@oarlock/api/resources';
import type { Node, Pod, PodSpec } from '@oarlock/api/types/core-v1';
import { silentLogger } from '@oarlock/primitives/logger';
import type { Plugin } from '@oarlock/kernel/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { noTracer } from '@oarlock/kernel/tracing';
import { builtin } from '@oarlock/scheduler/plugins/registry';
import { configuration } from '@oarlock/scheduler/config/configuration';
import type { NodeExplanation } from '@oarlock/scheduler/explain/explainer';
import { Extender } from '@oarlock/scheduler/extender/extender';
import { makeProfiles } from '@oarlock/scheduler/config/profiles';
import { Scheduler } from '@oarlock/scheduler/scheduler';
import { SchedulerMetrics } from '@oarlock/scheduler/metrics/scheduler-metrics';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Scheduling, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence } from '@oarlock/testing/memory-api';
import { Registry } from 'prom-client';
import type { z } from 'zod';

/** A scheduler with all its plugins over in-memory fakes. */
export function testScheduler(options: z.input<typeof configuration> = {}, more: readonly Plugin[] = []) {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  const abort = new AbortController();
  const metrics = new Registry();
  const events: { about: string; type: string; reason: string; message: string }[] = [];
  let scheduler: Scheduler | undefined;
  let chain: readonly SchedulingPlugin[] = [];
  let running: Promise<void> | undefined;
  let host: PluginHost | undefined;
  const recorder = {
    event: (about: KubeObject, type: string, reason: string, message: string) => {
      events.push({ about: about.metadata?.name ?? '', type, reason, message });
    },
  };
  return {
    clock,
    api,
    metrics,
    told: events,
    get scheduler(): Scheduler {
      if (scheduler === undefined) throw new Error('the scheduler has not been started');
      return scheduler;
    },
    /** The result of each node for a pod. */
    explain: (of: Pod): readonly NodeExplanation[] => scheduler?.explain([of])[0]?.nodes ?? [],
    /** The metrics of a scheduling plugin as text. */
    pluginMetrics: (plugin: string): Promise<string> =>
      host?.plugins.find((each) => each.name === plugin)?.metrics.metrics() ?? Promise.resolve(''),
    get chain(): readonly SchedulingPlugin[] {
      return chain;
    },
    async start(): Promise<void> {
      const plugins = new PluginHost({ clock })
        .provide(Client, api.client())
        .provide(Informers, api.informers)
        .provide(Events, { recorder: () => recorder });
      for (const plugin of [...builtin, ...more]) plugins.add({ plugin });
      host = plugins;
      await plugins.start();
      chain = plugins.get(Scheduling);
      const config = configuration.parse(options);
      const started: Scheduler = new Scheduler({
        client: api.client(),
        informers: api.informers,
        profiles: makeProfiles(config, chain),
        extenders: config.extenders.map((each) => new Extender(each)),
        clock,
        log: silentLogger,
        tracer: noTracer,
        random: sequence(7),
        events: { recorder: () => recorder },
        metrics: new SchedulerMetrics({ registry: metrics, clock, pendingPods: () => started.pendingPods }),
        parallelBinds: 10,
        initialBackoffMs: config.podInitialBackoffSeconds * 1000,
        maxBackoffMs: config.podMaxBackoffSeconds * 1000,
      });
      scheduler = started;
      running = started.run(abort.signal);
      await clock.settle();
    },
    /** Resolves when the scheduler has no work left. */
    async end(): Promise<void> {
      abort.abort();
      await running;
    },
    async stop(): Promise<void> {
      abort.abort();
      await api.stop();
    },
    async submit(...some: Pod[]): Promise<void> {
      for (const each of some) await api.client().create(pods, each);
      await clock.settle();
    },
    seedNodes(...some: Node[]): void {
      api.seed(nodes, ...some);
    },
    placeOf: (name: string, namespace = 'd') => api.object(pods, { namespace, name })?.spec?.nodeName,
    podOf: (name: string, namespace = 'd') => api.object(pods, { namespace, name }),
    whyNot: (name: string, namespace = 'd') =>
      api.object(pods, { namespace, name })?.status?.conditions?.find(({ type }) => type === 'PodScheduled')?.message,
  };
}

export const node = (name: string, labels: Record<string, string> = {}, more: { cpu?: string; spec?: Node['spec'] } = {}): Node => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels: { 'kubernetes.io/hostname': name, ...labels } },
  ...(more.spec && { spec: more.spec }),
  status: { allocatable: { cpu: more.cpu ?? '4', memory: '8Gi', pods: '110' } },
});

export const pod = (name: string, spec: Partial<PodSpec> = {}, labels: Record<string, string> = {}, namespace = 'd'): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace, name, labels },
  spec: { containers: [{ name: 'c', image: 'a:1' }], ...spec },
});
