// Fifty thousand pods in one API server over the local disk: resident memory on the way there and after a restart, what creates cost as the
// number of objects grows, and how long a start takes. Reference of the same run: the figures at the first thousand.
import { composition } from '../harness/composition.ts';
import { print } from './figures.ts';
import { Load } from './load.ts';
import { residentMiB, Stage } from './stage.ts';

const goals = (process.argv[2] ?? '1000,10000,50000').split(',').map(Number);
const width = 32;
const probe = (path: string, port: number) => ({ httpGet: { path, port }, periodSeconds: 10, timeoutSeconds: 1, failureThreshold: 3 });

const nameOf = (index: number) => `web-${index % 500}-5d4f8c7b9-${String(index).padStart(5, '0')}`;

/** About what a Deployment's pod is on its way: 2 to 3 KB of JSON once it is stored with defaults. */
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

await Stage.with(async (stage) => {
  const spec = { ...composition({ storage: 'embedded', runtime: 'simulated', network: 'host' }), roles: ['apiserver'] };
  const cluster = await stage.cluster({ spec });
  const pids = () => cluster.pid ?? 0;
  const namespace = 'default';
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const empty = await residentMiB(pids());
  const load = new Load(cluster.api);
  // no controller makes it, and none takes away pods whose owner there never was
  const account = JSON.stringify({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } });
  await load.request('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, account);
  await load.rate(200, width, (index) => load.request('POST', path, pod(1_000_000 + index)));
  print([{ what: 'memory with nothing but the cluster itself', value: empty, unit: 'MiB' }]);
  let first: number | undefined;
  for (const [at, goal] of goals.entries()) {
    const from = goals[at - 1] ?? 0;
    await load.rate(goal - from, width, (index) => load.request('POST', path, pod(from + index)));
    const update = await load.rate(2_000, width, (index) => {
      const body = JSON.stringify({ metadata: { labels: { round: `${at}-${index}` } } });
      return load.patch(`${path}/${nameOf((index * 7) % goal)}`, body);
    });
    first ??= update.perSecond;
    const size = await load.request('GET', `${path}/${nameOf(7)}`);
    const label = `${goal.toLocaleString('en')} pods of ${(size / 1000).toFixed(1)} KB`;
    const reference = { what: 'at the first', value: first };
    print([
      { what: `${label}: patches per second`, value: update.perSecond, unit: '/s', reference },
      { what: `${label}: memory`, value: await residentMiB(pids()), unit: 'MiB' },
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
