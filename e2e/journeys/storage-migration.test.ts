import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Api, type Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { patienceMs, untilValue } from '../harness/until.ts';

interface Migration extends Item {
  readonly status?: {
    readonly resourceVersion?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly reason?: string }[];
  };
}
const secretsPath = '/api/v1/namespaces/default/secrets';
const limitsPath = '/api/v1/namespaces/default/limitranges';
const migrationsPath = '/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations';
const names = ['a', 'b', 'c'];

const machine = Machine.use();
/** The directories of a cluster and of its keys. */
async function place(): Promise<string> {
  const dir = machine.path('rotated');
  await mkdir(join(dir, 'keys'), { recursive: true });
  for (const name of ['old', 'new']) await writeFile(join(dir, 'keys', name), randomBytes(32).toString('base64'), { mode: 0o600 });
  return dir;
}

/** Starts the cluster over the same data with these keys: the first encrypts, all decrypt. */
const optionsWith = (dir: string, keys: readonly string[]) => ({
  dir,
  spec: {
    ...composition({ storage: 'embedded', runtime: 'simulated', network: 'host' }),
    roles: ['apiserver', 'controllers'],
    settings: { apiserver: { runtimeConfig: { 'storagemigration.k8s.io/v1beta1': true } } },
    ...{ encryption: { resources: ['secrets', 'limitranges'], keys: keys.map((name) => ({ name, file: `./keys/${name}` })) } },
  },
});
const withKeys = (dir: string, ...keys: readonly string[]): Promise<Cluster> => machine.cluster(optionsWith(dir, keys));

it('rewrites every object with the new key, so that the old one can be removed', async () => {
  const dir = await place();
  const before = await withKeys(dir, 'old');
  for (const name of names) await before.api.renew(secretsPath, { metadata: { name }, stringData: { is: name } });
  await before.api.renew(limitsPath, { metadata: { name: 'left' }, spec: { limits: [] } });
  await before.stop();

  const both = await withKeys(dir, 'new', 'old');
  await both.api.renew(migrationsPath, { metadata: { name: 'secrets' }, spec: { resource: { group: '', resource: 'secrets' } } });
  const [migration] = await both.api.until<Migration>('the end of the migration', migrationsPath, ([one]) =>
    (one?.status?.conditions ?? []).some(({ type, status }) => (type === 'Succeeded' || type === 'Failed') && status === 'True'),
  );
  expect(migration?.status?.conditions).toMatchObject([{ type: 'Succeeded', status: 'True', reason: 'StorageVersionMigrationSucceeded' }]);
  expect(migration?.status?.resourceVersion).toMatch(/^\d+$/);
  await both.stop();

  // an object that was not migrated cannot be decrypted any more: the server serves the others and is not ready
  const after = await machine.prepare(optionsWith(dir, ['new']));
  const daemon = after.launch();
  const api = await untilValue(
    'the server answers',
    async () => {
      const candidate = await Api.of(after.kubeconfig); // written again at the start, because the port has changed
      const { status } = await candidate.call('GET', '/livez').catch(() => ({ status: 0 }));
      if (status === 200) return candidate;
      candidate.close();
      return undefined;
    },
    (candidate) => candidate !== undefined,
  );
  if (api === undefined) throw new Error('unreachable');
  machine.undo('connection', () => api.close());
  for (const name of names) {
    const { data } = await api.get<{ readonly data: { readonly is: string } }>(`${secretsPath}/${name}`);
    expect(Buffer.from(data.is, 'base64').toString()).toBe(name);
  }
  expect((await api.call('GET', `${limitsPath}/left`)).status).toBe(500);
  expect((await api.call('GET', limitsPath)).status).toBe(500);
  expect((await api.call('GET', '/readyz')).status).toBe(500);
  expect(
    (await api.call('DELETE', `${limitsPath}/left`, { body: { ignoreStoreReadErrorWithClusterBreakingPotential: true } })).status,
  ).toBe(200);
  await daemon.line(/^Oarlock is ready at /, patienceMs);
  await after.stop();
});

it('removes the stored versions of a CustomResourceDefinition whose objects it has rewritten', async () => {
  const cluster = await machine.cluster(optionsWith(await place(), ['new']));
  const { api } = cluster;
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  const version = (name: string, storage: boolean) => ({
    ...{ name, storage, served: true },
    schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
  });
  const definition = (stored: string) => ({
    metadata: { name: 'widgets.example.com' },
    spec: {
      ...{ group: 'example.com', scope: 'Cluster', names: { plural: 'widgets', kind: 'Widget' } },
      versions: [version('v1', stored === 'v1'), version('v2', stored === 'v2')],
    },
  });
  await api.renew(definitions, definition('v1'));
  await api.until<Item>('the new resource', '/apis/example.com/v1/widgets', () => true);
  await api.renew('/apis/example.com/v1/widgets', { ...{ apiVersion: 'example.com/v1', kind: 'Widget' }, metadata: { name: 'a' } });
  const patch = { headers: { 'content-type': 'application/merge-patch+json' }, body: { spec: definition('v2').spec } };
  expect((await api.call('PATCH', `${definitions}/widgets.example.com`, patch)).status).toBe(200);
  await api.renew(migrationsPath, { metadata: { name: 'widgets' }, spec: { resource: { group: 'example.com', resource: 'widgets' } } });
  await api.until<Migration>('the end of the migration', migrationsPath, ([one]) =>
    (one?.status?.conditions ?? []).some(({ type }) => type === 'Succeeded'),
  );
  const { status } = await api.get<{
    readonly status: { readonly storedVersions: readonly string[]; readonly conditions: readonly object[] };
  }>(`${definitions}/widgets.example.com`);
  expect(status.storedVersions).toEqual(['v2']);
  expect(status.conditions).toContainEqual(
    expect.objectContaining({ type: 'StorageMigrating', status: 'False', reason: 'MigrationSucceeded' }),
  );
  await cluster.stop();
});
