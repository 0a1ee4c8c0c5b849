// Prints the pods scheduled per second with in-memory fakes. Arguments: [nodes] [pods] [spread|zones]. Run: npm run bench -- scheduler
// `spread`: the pods belong to one Service, so default constraints spread them over hosts and zones. `zones`: the pods have a DoNotSchedule constraint over zones.
import { silentLogger } from '@oarlock/primitives/logger';
import { systemClock } from '@oarlock/primitives/clock';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { noTracer } from '@oarlock/kernel/tracing';
import { nodes, pods, services } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Scheduling } from '@oarlock/spi/scheduling';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { Registry } from 'prom-client';
import { builtin } from '../src/plugins/registry.ts';
import { configuration } from '../src/config/configuration.ts';
import { makeProfiles } from '../src/config/profiles.ts';
import { Scheduler } from '../src/scheduler.ts';
import { SchedulerMetrics } from '../src/metrics/scheduler-metrics.ts';

const [nodeCount = 1000, podCount = 3000] = process.argv.slice(2, 4).map(Number);
const mode = process.argv[4];
const api = memoryApi({ clock: new FakeClock() });
const spec = { containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '10m', memory: '10Mi' } } }] };
for (let i = 0; i < nodeCount; i++)
  api.seed(nodes, {
    metadata: { name: `n${i}`, labels: { 'kubernetes.io/hostname': `n${i}`, 'topology.kubernetes.io/zone': `z${i % 3}` } },
    status: { allocatable: { cpu: '8', memory: '32Gi', pods: '110' } },
  });
const labels = { app: 'a' };
const constraint = { maxSkew: 1, labelSelector: { matchLabels: labels } };
const constraints = [
  { ...constraint, topologyKey: 'topology.kubernetes.io/zone', whenUnsatisfiable: 'DoNotSchedule' },
  { ...constraint, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'ScheduleAnyway' },
];
if (mode === 'spread') api.seed(services, { metadata: { namespace: 'b', name: 's' }, spec: { selector: labels } });
for (let i = 0; i < podCount; i++)
  api.seed(pods, {
    metadata: { namespace: 'b', name: `p${i}`, labels },
    spec: mode === 'zones' ? { ...spec, topologySpreadConstraints: constraints } : spec,
  });
const host = new PluginHost()
  .provide(Client, api.client())
  .provide(Informers, api.informers)
  .provide(Events, { recorder: () => ({ event() {} }) });
for (const plugin of builtin) host.add({ plugin });
await host.start();
const abort = new AbortController();
let bound = 0;
let first = 0;
const done = new Promise<void>((resolve) => {
  api.informers.forResource(pods).addEventHandler({
    onUpdate(pod: Pod) {
      if (!pod.spec?.nodeName) return;
      first ||= performance.now();
      if (++bound === podCount) resolve();
    },
  });
});
const scheduler: Scheduler = new Scheduler({
  client: api.client(),
  informers: api.informers,
  profiles: makeProfiles(configuration.parse({}), host.get(Scheduling)),
  clock: systemClock,
  log: silentLogger,
  tracer: noTracer,
  random: Math.random,
  events: { recorder: () => ({ event() {} }) },
  metrics: new SchedulerMetrics({ registry: new Registry(), clock: systemClock, pendingPods: () => scheduler.pendingPods }),
  parallelBinds: 200,
  initialBackoffMs: 1000,
  maxBackoffMs: 10_000,
});
const cpu = process.cpuUsage(); // modules are loaded and objects made
void scheduler.run(abort.signal);
await done;
const { user, system } = process.cpuUsage(cpu);
const seconds = (performance.now() - first) / 1000;
console.log(
  JSON.stringify({
    nodes: nodeCount,
    pods: podCount,
    seconds: Number(seconds.toFixed(2)),
    podsPerSecond: Math.round(podCount / seconds),
    cpuMicrosPerPod: Math.round((user + system) / podCount),
  }),
);
process.exit(0);
