import { deployments } from '@oarlock/api/resources';
import { deployment } from '@oarlock/testing/objects';
import { startCluster } from '@oarlock/testing/start-cluster';
import { testAdmission } from '@oarlock/testing/test-admission';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

it('denies an object without the label', async () => {
  await using test = await testAdmission(plugin, { label: 'owner' });
  expect((await test.create(deployment())).message).toBe('deployments.apps "web" is forbidden: the label owner is missing');
  expect((await test.create(deployment({ labels: { owner: 'ada' } }))).allowed).toBe(true);
});

it('denies an object without the label in a cluster', async () => {
  await using cluster = await startCluster({ plugins: [plugin] });
  await expect(cluster.client.create(deployments, deployment())).rejects.toThrow('the label owner is missing');
});
