import { configMaps } from '@oarlock/api/resources';
import { StatusError } from '@oarlock/api/status';
import { describe, expect, it } from 'vitest';
import { etcdMissing, EtcdServer } from '../support/etcd-server.ts';
import { startTestCluster, type StartClusterOptions } from '@oarlock/testing/test-cluster';

type Storage = NonNullable<StartClusterOptions['spec']>['storage'];
async function expectExpiry(storage: Storage): Promise<void> {
  const settings = { apiserver: { compactionIntervalSeconds: 1 } };
  await using cluster = await startTestCluster({ spec: { storage, settings }, roles: ['apiserver'] });
  const { client } = cluster;
  const page = (token?: string) =>
    client.list(configMaps, { namespace: 'kube-public', limit: 1, ...(token !== undefined && { continue: token }) });
  for (const name of ['a', 'b', 'c']) await client.create(configMaps, { metadata: { name, namespace: 'kube-public' } });
  const first = await page();
  // an unrelated object changes, so that revisions advance and the list stays the same
  let writes = 0;
  await expect
    .poll(
      async () => {
        await client.create(configMaps, { metadata: { name: `other-${writes++}`, namespace: 'kube-node-lease' } });
        return page(first.metadata?.continue).then(
          () => undefined,
          (error: unknown) => (error instanceof StatusError ? error.status.reason : error),
        );
      },
      { interval: 200, timeout: 120_000 },
    )
    .toBe('Expired');
  const gone = await page(first.metadata?.continue).catch((error: unknown) => error as StatusError);
  if (!(gone instanceof StatusError)) throw new Error('the token was accepted again');
  expect(gone.code).toBe(410);
  expect(gone.message).toMatch(/^The provided continue parameter is too old to display a consistent list result\./);
  const second = await page(gone.status.metadata.continue);
  expect(second.items.map(({ metadata }) => metadata?.name)).toEqual(['b']);
  expect(Number(second.metadata?.resourceVersion)).toBeGreaterThan(Number(first.metadata?.resourceVersion));
  expect((await page(second.metadata?.continue)).items.map(({ metadata }) => metadata?.name)).toEqual(['c']);
}

describe('continue token', () => {
  it('expires after compaction of storage-memory', () => expectExpiry('storage-memory'));
  it('expires after compaction of storage-embedded', () => expectExpiry('storage-embedded'));
  const missing = etcdMissing();
  it.skipIf(missing !== undefined)(`expires after compaction of storage-etcd${missing === undefined ? '' : ` (${missing})`}`, async () => {
    const etcd = await EtcdServer.start();
    try {
      await expectExpiry({ use: 'storage-etcd', config: { endpoints: [etcd.endpoint] } });
    } finally {
      await etcd.remove();
    }
  });
});
