import { deployments } from '@oarlock/api/resources';
import { deployment, pod } from '@oarlock/testing/objects';
import { startCluster } from '@oarlock/testing/start-cluster';
import { testAdmission } from '@oarlock/testing/test-admission';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const config = { labels: ['owner', 'cost-center'] };

it('names every label that is missing', async () => {
  await using test = await testAdmission(plugin, config);
  expect((await test.create(deployment({ labels: { owner: 'ada', 'cost-center': '7' } }))).allowed).toBe(true);
  expect((await test.create(deployment())).message).toBe(
    'deployments.apps "web" is forbidden: required labels are missing: owner, cost-center',
  );
  expect((await test.create(pod())).matched).toBe(false);
});

it('works in a cluster', async () => {
  await using cluster = await startCluster({ plugins: [{ plugin, config }], roles: ['apiserver'] });
  await expect(cluster.client.create(deployments, deployment({ labels: { owner: 'ada' } }))).rejects.toThrow(/missing: cost-center$/);
});
