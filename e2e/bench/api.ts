// Requests per second at the API server over the local disk, over one HTTP/2 connection from another process of the same machine. Reference
// of the same run: the same requests with the state in etcd.
import { composition } from '../harness/composition.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { print, quantile, type Figure } from './support/statistics.ts';
import { LoadGenerator } from './support/load-generator.ts';
import { cpuSeconds, BenchEnvironment } from './support/bench-environment.ts';

const [creates, gets, lists] = [6000, 15_000, 40];
const pod = (name: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels: { app: 'bench' } },
  spec: {
    schedulerName: 'bench-none',
    containers: [{ name: 'c', image: 'registry.k8s.io/pause:3.10.2', resources: { requests: { cpu: '10m', memory: '10Mi' } } }],
  },
});
const width = 32;
const data = { text: 'x'.repeat(1000) };

async function measure(stage: BenchEnvironment, etcd: string | undefined) {
  const spec = {
    ...composition({
      storage: etcd === undefined ? 'embedded' : 'etcd',
      runtime: 'simulated',
      network: 'host',
      ...(etcd !== undefined && { etcd }),
    }),
    roles: ['apiserver'],
  };
  const cluster = await stage.cluster({ spec });
  const load = new LoadGenerator(cluster.api);
  const path = '/api/v1/namespaces/default/configmaps';
  const body = (index: number) => JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `load-${index}` }, data });
  const pods = '/api/v1/namespaces/default/pods';
  const account = JSON.stringify({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } });
  // no controller creates it
  await load.request('POST', '/api/v1/namespaces/default/serviceaccounts', account);
  /** Includes the processor time of the server's process per request, in microseconds: other load on the machine hardly changes it. */
  const measured = async (count: number, parallel: number, work: (index: number) => Promise<unknown>) => {
    const began = await cpuSeconds(cluster.pid);
    const rate = await load.rate(count, parallel, work);
    return { ...rate, cost: ((await cpuSeconds(cluster.pid)) - began) * (1e6 / count) };
  };
  await load.rate(500, width, (index) => load.request('POST', path, body(1_000_000 + index)));
  await load.rate(500, width, (index) => load.request('POST', pods, JSON.stringify(pod(`warm-${index}`))));
  const create = await measured(creates, width, (index) => load.request('POST', path, body(index)));
  const createPod = await measured(creates, width, (index) => load.request('POST', pods, JSON.stringify(pod(`load-${index}`))));
  const get = await measured(gets, width, (index) => load.request('GET', `${path}/load-${index % creates}`));
  const getPod = await measured(gets, width, (index) => load.request('GET', `${pods}/load-${index % creates}`));
  const update = await measured(creates, width, (index) => load.request('PUT', `${path}/load-${index}`, body(index)));
  const list = await measured(lists, 2, () => load.request('GET', path));
  load.close();
  await cluster.stop();
  return { create, createPod, get, getPod, update, list };
}

await BenchEnvironment.with(async (stage) => {
  const disk = await measure(stage, undefined);
  const reason = componentMissing.etcd();
  const etcd = reason === undefined ? await measure(stage, (await stage.etcd()).endpoint) : undefined;
  const figure = (what: string, key: keyof typeof disk, upstream?: string): Figure[] => [
    {
      what: `${what} per second`,
      value: disk[key].perSecond,
      unit: '/s',
      ...(etcd && { reference: { what: 'with etcd', value: etcd[key].perSecond } }),
      ...(upstream !== undefined && { upstream }),
    },
    {
      what: `${what}, slowest of a hundred`,
      value: quantile(disk[key].times, 0.99),
      unit: 'ms',
      ...(etcd && { reference: { what: 'with etcd', value: quantile(etcd[key].times, 0.99) } }),
    },
    {
      what: `${what}, processor time of the server`,
      value: disk[key].cost,
      unit: 'us',
      ...(etcd && { reference: { what: 'with etcd', value: etcd[key].cost } }),
    },
  ];
  print([
    ...figure('creates of a ConfigMap of 1 KB', 'create', '1,562-1,692/s'),
    ...figure('creates of a Pod', 'createPod', '1,045-1,516/s'),
    ...figure('GETs of a ConfigMap', 'get', '3,000-4,100/s'),
    ...figure('GETs of a Pod', 'getPod', '2,600-4,000/s'),
    ...figure('updates of a ConfigMap', 'update', '1,333-1,401/s'),
    ...figure(`LISTs of ${creates + 500}`, 'list'),
  ]);
});
