import { pods } from '@oarlock/api/resources';
import { configMap, pod } from '@oarlock/testing/objects';
import { startCluster } from '@oarlock/testing/start-cluster';
import { testAdmission } from '@oarlock/testing/test-admission';
import { expect, it } from 'vitest';
import plugin, { registryOf } from '../src/plugin.ts';

const config = { allowed: ['registry.example.com', 'docker.io'] };

it.each([
  ['nginx', 'docker.io'],
  ['library/nginx:1.27', 'docker.io'],
  ['ghcr.io/a/b@sha256:00', 'ghcr.io'],
  ['localhost/a', 'localhost'],
  ['host:5000/a:1', 'host:5000'],
])('finds the registry of %s', (image, registry) => {
  expect(registryOf(image)).toBe(registry);
});

it('rejects a pod with an image from another registry', async () => {
  await using test = await testAdmission(plugin, config);
  expect((await test.create(pod({ image: 'registry.example.com/web:1' }))).warnings).toEqual([]);
  expect((await test.create(pod({ image: 'evil.example.com/web:1' }))).message).toBe(
    'pods "web" is forbidden: image "evil.example.com/web:1" of container "web" is from evil.example.com; allowed are registry.example.com, docker.io',
  );
  const init = { initContainers: [{ name: 'first', image: 'evil.example.com/first' }] };
  expect((await test.create(pod({ spec: init }))).message).toMatch(/container "first"/);
  expect((await test.create(pod({ namespace: 'kube-system', image: 'evil.example.com/a:1' }))).allowed).toBe(true);
  expect((await test.create(configMap())).matched).toBe(false);
});

it('warns of images whose tag may change', async () => {
  await using test = await testAdmission(plugin, config);
  for (const image of ['nginx', 'nginx:latest', 'registry.example.com:5000/nginx'])
    expect((await test.create(pod({ image: image.replace(':5000', '') }))).warnings).toHaveLength(1);
  for (const image of ['nginx:1.27', 'nginx@sha256:0123']) expect((await test.create(pod({ image }))).warnings).toEqual([]);
});

it('works in a cluster', async () => {
  await using cluster = await startCluster({ plugins: [{ plugin, config }], roles: ['apiserver'], spec: { admission: [] } });
  await expect(cluster.client.create(pods, pod({ image: 'evil.example.com/web:1' }))).rejects.toThrow(/is from evil\.example\.com/);
});
