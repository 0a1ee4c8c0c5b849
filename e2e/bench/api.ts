// Requests per second at the API server over the local disk, over one HTTP/2 connection from another process of the same machine. Reference
// of the same run: the same requests with the state in etcd.
import { composition } from '../harness/composition.ts';
import { missing } from '../harness/machine-parts.ts';
import { print, quantile, type Figure } from './figures.ts';
import { Load } from './load.ts';
import { Stage } from './stage.ts';

const [creates, gets, lists] = [6000, 15_000, 40];
const width = 32;
const data = { text: 'x'.repeat(1000) };

async function measure(stage: Stage, etcd: string | undefined) {
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
  const load = new Load(cluster.api);
  const path = '/api/v1/namespaces/default/configmaps';
  const body = (index: number) => JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `load-${index}` }, data });
  await load.rate(500, width, (index) => load.request('POST', path, body(1_000_000 + index)));
  const create = await load.rate(creates, width, (index) => load.request('POST', path, body(index)));
  const get = await load.rate(gets, width, (index) => load.request('GET', `${path}/load-${index % creates}`));
  const update = await load.rate(creates, width, (index) => load.request('PUT', `${path}/load-${index}`, body(index)));
  const list = await load.rate(lists, 2, () => load.request('GET', path));
  load.close();
  await cluster.stop();
  return { create, get, update, list };
}

await Stage.with(async (stage) => {
  const disk = await measure(stage, undefined);
  const reason = missing.etcd();
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
  ];
  print([
    ...figure('creates of a ConfigMap of 1 KB', 'create', '1,562-1,692/s'),
    ...figure('GETs of one', 'get', '3,000-4,100/s'),
    ...figure('updates of one', 'update'),
    ...figure(`LISTs of ${creates + 500}`, 'list'),
  ]);
});
