// A hundred thousand pods in one API server over the local disk: resident memory on the way there and after a restart, what writes cost as the
// number of objects grows, and how long a start takes. Reference of the same run: the figures at the first thousand. Costs are the processor
// time of the server's process with all its threads, which other work on the machine changes less than it changes times.
import { composition } from '../harness/composition.ts';
import { print } from './support/statistics.ts';
import { LoadGenerator } from './support/load-generator.ts';
import { cpuSeconds, residentMiB, BenchEnvironment } from './support/bench-environment.ts';

const goals = (process.argv[2] ?? '1000,10000,50000,100000').split(',').map(Number);
/** The number of writes at each size, from which their cost is computed. */
const probes = 2_000;
const width = 32;
const probe = (path: string, port: number) => ({ httpGet: { path, port }, periodSeconds: 10, timeoutSeconds: 1, failureThreshold: 3 });

const nameOf = (index: number) => `web-${index % 500}-5d4f8c7b9-${String(index).padStart(5, '0')}`;

/** About the size of a Deployment's pod: 2 to 3 KB of JSON once it is stored with defaults. */
const pod = (index: number) =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: nameOf(index),
      labels: {
        'app.kubernetes.io/name': `web-${index % 500}`,
        'pod-template-hash': '5d4f8c7b9',
      },
      ownerReferences: [
        {
          apiVersion: 'apps/v1',
          kind: 'ReplicaSet',
          name: `web-${index % 500}-5d4f8c7b9`,
          uid: '7c1c4c2e-9a0b-4a51-8f57-3a5b8a0f9b11',
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: {
      schedulerName: 'bench-none',
      containers: [
        {
          name: 'main',
          image: `registry.example/shop/web-${index % 500}:1.${index % 7}.0`,
          ports: [{ name: 'http', containerPort: 8080 }],
          env: [{ name: 'PORT', value: '8080' }],
          resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { cpu: '1', memory: '256Mi' } },
          readinessProbe: probe('/ready', 8080),
        },
      ],
    },
  });

await BenchEnvironment.with(async (stage) => {
  const spec = { ...composition({ storage: 'embedded', runtime: 'simulated', network: 'host' }), roles: ['apiserver'] };
  const cluster = await stage.cluster({ spec });
  const pids = () => cluster.pid ?? 0;
  const namespace = 'default';
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const empty = await residentMiB(pids());
  const load = new LoadGenerator(cluster.api);
  // no controller creates it, and none deletes pods whose owner never existed
  const account = JSON.stringify({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } });
  await load.request('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, account);
  await load.rate(200, width, (index) => load.request('POST', path, pod(1_000_000 + index)));
  print([{ what: 'memory with nothing but the cluster itself', value: empty, unit: 'MiB' }]);
  /** Returns the server's microseconds for one of `count` requests, and the requests per second. */
  const cost = async (count: number, work: (index: number) => Promise<unknown>) => {
    const began = await cpuSeconds(pids());
    const { perSecond } = await load.rate(count, width, work);
    return { perSecond, each: ((await cpuSeconds(pids())) - began) * (1e6 / count) };
  };
  // warms up the code, so that the first figures are not larger than the others
  await cost(probes, (index) => load.request('POST', path, pod(2_000_000 + index)));
  await cost(probes, (index) => load.request('DELETE', `${path}/${nameOf(2_000_000 + index)}`));
  let first: { readonly patches: number; readonly patch: number; readonly create: number } | undefined;
  for (const [at, goal] of goals.entries()) {
    const from = goals[at - 1] ?? 0;
    // the last of them are created at the full size
    const last = Math.min(probes, goal - from);
    await load.rate(goal - from - last, width, (index) => load.request('POST', path, pod(from + index)));
    const create = await cost(last, (index) => load.request('POST', path, pod(goal - last + index)));
    const patch = await cost(probes, (index) => {
      const body = JSON.stringify({ metadata: { labels: { round: `${at}-${index}` } } });
      return load.patch(`${path}/${nameOf((index * 7) % goal)}`, body);
    });
    first ??= { patches: patch.perSecond, patch: patch.each, create: create.each };
    const memory = await residentMiB(pids());
    const size = await load.request('GET', `${path}/${nameOf(7)}`);
    const label = `${goal.toLocaleString('en')} pods of ${(size / 1000).toFixed(1)} KB`;
    const reference = (value: number) => ({ what: 'at the first', value });
    print([
      { what: `${label}: processor time of a create`, value: create.each, unit: 'us', reference: reference(first.create) },
      { what: `${label}: processor time of a patch`, value: patch.each, unit: 'us', reference: reference(first.patch) },
      { what: `${label}: patches per second`, value: patch.perSecond, unit: '/s', reference: reference(first.patches) },
      { what: `${label}: memory`, value: memory, unit: 'MiB', ...(goal === 50_000 && { upstream: 'a goal of 1 GB in all' }) },
      { what: `${label}: memory of each`, value: ((memory - empty) * 1024) / goal, unit: 'KiB' },
    ]);
  }
  load.close();
  await cluster.kill9();
  const began = performance.now();
  await cluster.up();
  print([
    { what: 'start with them after kill -9', value: performance.now() - began, unit: 'ms' },
    { what: 'memory after that start', value: await residentMiB(pids()), unit: 'MiB' },
  ]);
  await cluster.stop();
});
