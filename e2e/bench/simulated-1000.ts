// A Deployment of 10,000 pods on 1,000 simulated nodes: until all are Ready, and what kubectl waits for meanwhile: in all, and from its
// first packet to the answer. Reference: the same kubectl calls on the idle cluster.
import { setTimeout as delay } from 'node:timers/promises';
import { parse } from 'yaml';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Item } from '../harness/api.ts';
import type { ClusterSpec } from '../harness/composition.ts';
import { root } from '../harness/oarlock.ts';
import { median, print, quantile } from './support/statistics.ts';
import { cpuSeconds, residentMiB, BenchEnvironment } from './support/bench-environment.ts';

const replicas = 10_000;
/** Waits for events and backoffs of the start, then for the measured interval. */
const [restAfterMs, restMs] = [30_000, 60_000];
interface Deployment extends Item {
  readonly status: { readonly readyReplicas?: number };
}

await BenchEnvironment.with(async (stage) => {
  const file = parse(await readFile(join(root, 'clusters', 'simulated-1000.yaml'), 'utf8')) as { readonly spec: ClusterSpec };
  const { kubelet } = file.spec.settings ?? {};
  const cluster = await stage.cluster({
    spec: { ...file.spec, settings: { ...file.spec.settings, kubelet: { ...kubelet, port: 0 } } },
    nodeName: 'sim',
  });
  const { api, kubectl } = cluster;
  await api.until('1000 nodes', '/api/v1/nodes', (nodes) => nodes.length === 1000);
  const calls = {
    'get deployment': ['get', 'deployment', 'big'],
    'get node': ['get', 'node', 'sim-7'],
    'get namespaces': ['get', 'namespaces'],
  };
  const look = async (args: readonly string[]) => {
    const { took, stderr } = await kubectl.try([...args, '-v=6']);
    answered.push(...[...stderr.matchAll(/ milliseconds=(\d+)/g)].map(([, waited]) => Number(waited)));
    return took;
  };
  const answered: number[] = [];
  await kubectl.run(['create', 'deployment', 'big', '--image=x', '--replicas=0']);
  for (const args of Object.values(calls)) await look(args);
  const idle = new Map<string, number[]>();
  const busy = new Map<string, number[]>();
  for (let round = 0; round < 7; round++)
    for (const [name, args] of Object.entries(calls)) idle.set(name, [...(idle.get(name) ?? []), await look(args)]);

  answered.length = 0;
  const cpu = await cpuSeconds(cluster.pid);
  const began = performance.now();
  await kubectl.run(['scale', 'deployment', 'big', `--replicas=${replicas}`]);
  let done = false;
  const ready = api
    .until<Deployment>(
      'all pods ready',
      '/apis/apps/v1/namespaces/default/deployments',
      (items) => items[0]?.status.readyReplicas === replicas,
      300_000,
    )
    .then(() => {
      done = true;
      return performance.now() - began;
    });
  while (!done) {
    for (const [name, args] of Object.entries(calls)) if (!done) busy.set(name, [...(busy.get(name) ?? []), await look(args)]);
    await Promise.race([ready, delay(200)]);
  }
  const took = await ready;
  const used = (await cpuSeconds(cluster.pid)) - cpu;
  await delay(restAfterMs);
  const atRest = await cpuSeconds(cluster.pid);
  await delay(restMs);
  const idled = ((await cpuSeconds(cluster.pid)) - atRest) / (restMs / 60_000);
  print([
    { what: `${replicas} pods on 1,000 nodes, all Ready`, value: took / 1000, unit: 's' },
    { what: 'pods per second', value: replicas / (took / 1000), unit: '/s', upstream: 'scheduler alone 496/s at 1,000 nodes' },
    { what: 'processor time', value: used, unit: 's' },
    { what: '  of one pod', value: (used / replicas) * 1000, unit: 'ms' },
    { what: 'processor time at rest afterwards, a minute', value: idled, unit: 's' },
    { what: 'resident memory with 10,000 pods', value: await residentMiB(cluster.pid), unit: 'MiB' },
    { what: `connection to answer meanwhile, median of ${answered.length}`, value: median(answered), unit: 'ms' },
    { what: 'connection to answer meanwhile, worst', value: quantile(answered, 1), unit: 'ms' },
    ...[...busy].flatMap(([name, times]) => [
      {
        what: `kubectl ${name} meanwhile, median of ${times.length}`,
        value: median(times),
        unit: 'ms',
        reference: { what: 'idle', value: median(idle.get(name) ?? []) },
      },
      {
        what: `kubectl ${name} meanwhile, worst`,
        value: quantile(times, 1),
        unit: 'ms',
        reference: { what: 'idle', value: quantile(idle.get(name) ?? [], 1) },
      },
    ]),
  ]);
});
