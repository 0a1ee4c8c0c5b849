// A Deployment of 100 replicas (or the first argument) on as many nodes without kubelets: the time from its POST until all pods exist, and until all are
// bound, measured by a watch. API server, controllers and scheduler are one process.
import type { Item, PodItem } from '../harness/api.ts';
import { createReadyNode } from './support/node-object.ts';
import { deploymentOf, deploymentsPath } from './support/deployment-objects.ts';
import { median, print } from './support/statistics.ts';
import { LoadGenerator } from './support/load-generator.ts';
import { cpuSeconds, BenchEnvironment } from './support/bench-environment.ts';

const [replicas = 100, repetitions = 7] = process.argv.slice(2).map(Number);
/** Seconds, with client limits raised: ../shared/bench/reference.md. */
const upstream = { exist: 0.17, bound: 0.26 };
const podsPath = '/api/v1/namespaces/default/pods';
const podSpec = { terminationGracePeriodSeconds: 0, containers: [{ name: 'c', image: 'a:1' }] };
const resources = { cpu: '4', memory: '32Gi', pods: '110' };

await BenchEnvironment.with(async (stage) => {
  const cluster = await stage.cluster({
    spec: {
      roles: ['apiserver', 'controllers', 'scheduler'],
      storage: 'storage-memory',
      // no kubelet reports for these nodes
      settings: { controllers: { disable: ['node-lifecycle'] } },
    },
  });
  const { api } = cluster;
  const load = new LoadGenerator(api);
  const post = (path: string, body: object) => load.request('POST', path, JSON.stringify(body));
  await load.rate(replicas, 16, (index) => createReadyNode(load, `n${index}`, {}, resources));
  await api.until<Item>('the default account', '/api/v1/namespaces/default/serviceaccounts', (all) =>
    all.some(({ metadata }) => metadata.name === 'default'),
  );

  const [exist, bound, used]: [number[], number[], number[]] = [[], [], []];
  for (let round = 0; round < repetitions; round++) {
    const name = `d${round}`;
    const { metadata } = await api.get<{ readonly metadata: { readonly resourceVersion: string } }>(`${podsPath}?limit=1`);
    const stop = new AbortController();
    const seen = { made: new Set<string>(), bound: new Set<string>() };
    const cpuBefore = await cpuSeconds(cluster.pid);
    const began = performance.now();
    const since = () => (performance.now() - began) / 1000;
    const watching = (async () => {
      for await (const { type, object } of api.watch<PodItem>(podsPath, metadata.resourceVersion, stop.signal)) {
        if (!object.metadata.name.startsWith(`${name}-`)) continue;
        if (type === 'ADDED' && seen.made.add(object.metadata.name).size === replicas) exist.push(since());
        if (object.spec.nodeName && seen.bound.add(object.metadata.name).size === replicas) {
          bound.push(since());
          return;
        }
      }
      throw new Error(`the watch ended with ${seen.bound.size} of ${replicas} pods bound`);
    })();
    await Promise.all([post(deploymentsPath, deploymentOf(name, replicas, podSpec)), watching]);
    used.push((await cpuSeconds(cluster.pid)) - cpuBefore);
    stop.abort();
    await load.request('DELETE', `${deploymentsPath}/${name}`);
    // no kubelet reports their termination
    for (const pod of seen.bound) await api.call('DELETE', `${podsPath}/${pod}?gracePeriodSeconds=0`);
    await api.until('its pods are gone', podsPath, (all) => all.length === 0);
  }
  load.close();
  print([
    {
      what: `${replicas} replicas, all pods exist, median of ${repetitions}`,
      value: median(exist),
      unit: 's',
      upstream: `${upstream.exist} s`,
    },
    { what: '  all pods bound', value: median(bound), unit: 's', upstream: `${upstream.bound} s` },
    { what: '  first and best', value: bound[0] ?? Number.NaN, unit: 's', reference: { what: 'the best', value: Math.min(...bound) } },
    { what: '  processor time of API server, loops and scheduler', value: median(used), unit: 's' },
  ]);
});
