import { pods } from '@oarlock/api/resources';
import { pod } from '@oarlock/testing/objects';
import { startCluster } from '@oarlock/testing/start-cluster';
import { testAdmission } from '@oarlock/testing/test-admission';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const config = { image: 'proxy:1', env: { LEVEL: 'info' } };
const asking = { annotations: { 'sidecar.example.com/inject': 'true' } };

it('adds the sidecar as the first container, once', async () => {
  await using test = await testAdmission(plugin, config);
  const first = await test.create(pod({ ...asking, spec: { initContainers: [{ name: 'migrate', image: 'migrate:1' }] } }));
  expect(first.object.spec?.initContainers).toEqual([
    { name: 'proxy', image: 'proxy:1', restartPolicy: 'Always', env: [{ name: 'LEVEL', value: 'info' }] },
    { name: 'migrate', image: 'migrate:1' },
  ]);
  expect((await test.create(first.object)).changes).toEqual([]);
});

it('leaves other pods unchanged', async () => {
  await using test = await testAdmission(plugin, config);
  expect((await test.create(pod())).changes).toEqual([]);
  expect((await test.update(pod(), pod(asking))).matched).toBe(false);
});

it('works in a cluster', async () => {
  await using cluster = await startCluster({ plugins: [{ plugin, config }], roles: ['apiserver'], spec: { admission: [] } });
  const made = await cluster.client.create(pods, pod(asking));
  expect(made.spec?.initContainers?.[0]).toMatchObject({ name: 'proxy', restartPolicy: 'Always' });
});
