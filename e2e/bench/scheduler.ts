// Pods per second of the scheduler, on 1,000 and 5,000 nodes that are objects only: pods are pending before the scheduler begins, and what a watcher
// sees is counted, from the first binding to the last. API server and scheduler are one process. Arguments: numbers of nodes, names of workloads.
import { setTimeout as delay } from 'node:timers/promises';
import type { Item, PodItem } from '../harness/api.ts';
import { createReadyNode } from './support/node-object.ts';
import { print, type Figure } from './support/statistics.ts';
import { LoadGenerator } from './support/load-generator.ts';
import { cpuSeconds, BenchEnvironment } from './support/bench-environment.ts';

interface Workload {
  readonly pods: number;
  readonly pod: (index: number) => { readonly labels?: object; readonly spec?: object };
  /** Nodes are full of pods of lower priority. */
  readonly full?: boolean;
}
const zone = 'topology.kubernetes.io/zone';
const host = 'kubernetes.io/hostname';
const labels = { app: 'spread' };
const workloads: Readonly<Record<string, Workload>> = {
  plain: { pods: 3000, pod: () => ({}) },
  'topology spread': {
    pods: 3000,
    pod: () => ({
      labels,
      spec: {
        topologySpreadConstraints: [
          { maxSkew: 1, topologyKey: zone, whenUnsatisfiable: 'DoNotSchedule', labelSelector: { matchLabels: labels } },
          { maxSkew: 1, topologyKey: host, whenUnsatisfiable: 'ScheduleAnyway', labelSelector: { matchLabels: labels } },
        ],
      },
    }),
  },
  'inter-pod anti-affinity': {
    pods: 3000,
    pod: (index) => {
      const group = { group: String(index % 30) }; // 100 pods with anti-affinity to each other
      return {
        labels: group,
        spec: {
          affinity: {
            podAntiAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: host, labelSelector: { matchLabels: group } }],
            },
          },
        },
      };
    },
  },
  preemption: {
    pods: 500,
    full: true,
    pod: () => ({
      spec: { priorityClassName: 'high', containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '30' } } }] },
    }),
  },
};
/** The figures of kube-scheduler 1.36 on such a machine, plain pods. */
const upstream: Readonly<Record<number, number>> = { 1000: 496, 5000: 277 };

const resources = { cpu: '32', memory: '256Gi', pods: '110' };
const spec = { containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '10m', memory: '10Mi' } } }] };

interface Drained {
  readonly perSecond: number;
  /** Processor time of the one process that runs API server and scheduler. */
  readonly perProcessorSecond: number;
}

async function drain(stage: BenchEnvironment, nodes: number, { pods, pod, full = false }: Workload): Promise<Drained> {
  const cluster = await stage.cluster({
    spec: {
      roles: ['apiserver', 'scheduler'],
      storage: 'storage-memory',
      settings: { scheduler: { leaderElect: true, leaseName: 'bench' } },
    },
  });
  const { api } = cluster;
  const load = new LoadGenerator(api);
  const post = (path: string, body: object) => load.request('POST', path, JSON.stringify(body));
  const mine = '/api/v1/namespaces/bench/pods';
  try {
    await api.until<Item>('the scheduler', '/apis/coordination.k8s.io/v1/leases', (all) =>
      all.some(({ metadata }) => metadata.name === 'bench'),
    );
    // it stops while another instance leads, and starts when that lease is released
    const held = '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/bench';
    await load.patch(
      held,
      JSON.stringify({ spec: { holderIdentity: 'bench', leaseDurationSeconds: 3600, renewTime: '2100-01-01T00:00:00.000000Z' } }),
    );
    await delay(5000); // until it has noticed
    await post('/api/v1/namespaces', { metadata: { name: 'bench' } });
    await post('/api/v1/namespaces/bench/serviceaccounts', { metadata: { name: 'default' } });
    await post('/apis/scheduling.k8s.io/v1/priorityclasses', { metadata: { name: 'high' }, value: 1000 });
    await load.rate(nodes, 32, async (index) => {
      await createReadyNode(load, `n${index}`, { [zone]: `z${index % 3}` }, resources);
      if (full)
        await post(mine, {
          metadata: { name: `low-${index}` },
          spec: {
            nodeName: `n${index}`,
            terminationGracePeriodSeconds: 0,
            containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '30' } } }],
          },
        });
    });
    await load.rate(pods, 32, (index) => {
      const { labels: own = {}, spec: more = {} } = pod(index);
      return post(mine, { metadata: { name: `p-${index}`, labels: own }, spec: { ...spec, ...more } });
    });
    const { metadata } = await api.get<{ readonly metadata: { readonly resourceVersion: string } }>(`${mine}?limit=1`);
    const stop = new AbortController();
    const bound = new Set<string>();
    let first = 0;
    let last = 0;
    let used = 0;
    const before = await cpuSeconds(cluster.pid);
    const watching = (async () => {
      for await (const { object } of api.watch<PodItem>(mine, metadata.resourceVersion, stop.signal)) {
        if (!object.spec?.nodeName || !object.metadata.name.startsWith('p-') || bound.has(object.metadata.name)) continue;
        bound.add(object.metadata.name);
        last = performance.now();
        first ||= last;
        if (bound.size < pods) continue;
        used = (await cpuSeconds(cluster.pid)) - before;
        return;
      }
    })();
    await load.request('DELETE', held);
    await watching;
    stop.abort();
    return { perSecond: pods / ((last - first) / 1000), perProcessorSecond: pods / used };
  } finally {
    load.close();
    await cluster.dispose();
  }
}

const args = process.argv.slice(2);
const sizes = args.filter((arg) => /^\d+$/.test(arg)).map(Number);
const names = args.filter((arg) => !/^\d+$/.test(arg));
for (const nodes of sizes.length > 0 ? sizes : [1000, 5000])
  await BenchEnvironment.with(async (stage) => {
    const figures: Figure[] = [];
    let plain: number | undefined;
    for (const [name, workload] of Object.entries(workloads)) {
      if (names.length > 0 && !names.includes(name)) continue;
      const { perSecond: value, perProcessorSecond } = await drain(stage, nodes, workload);
      if (name === 'plain') plain = value;
      const known = upstream[nodes];
      figures.push({
        what: `${nodes} nodes, ${name}, ${workload.pods} pods`,
        value,
        unit: 'pods/s',
        ...(plain !== undefined && name !== 'plain' && { reference: { what: 'plain', value: plain } }),
        ...(name === 'plain' && known !== undefined && { upstream: `${known}/s, ${(value / known).toFixed(1)} times` }),
      });
      figures.push({ what: '  per second of processor time', value: perProcessorSecond, unit: 'pods/s' });
    }
    print(figures);
  });
