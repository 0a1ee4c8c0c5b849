import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import { Machine } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';
import { mustRun } from '../harness/programs.ts';
import { untilValue } from '../harness/until.ts';

/**
 * A data directory that the build of commit d5f789f has written: a Deployment with its objects, a Secret and a custom resource, of a cluster without nodes
 * that was stopped by SIGKILL.
 */
const fixture = join(root, 'e2e', 'fixtures', 'data-directory-d5f789f.tar.gz');

interface Deployment extends Item {
  readonly status?: { readonly observedGeneration?: number; readonly replicas?: number };
}

/** The revision of the last write in the fixture. */
const lastRevision = '304';

const machine = Machine.use();

it('a data directory of an earlier version starts with the same identity, objects and revisions, and is written on', async () => {
  const cluster = await machine.prepare({ spec: { roles: ['apiserver', 'controllers'], storage: 'storage-embedded' } });
  const former = machine.path('former');
  await mkdir(former);
  await mustRun('tar', ['-xzf', fixture, '-C', former]);
  await cp(join(former, 'data'), cluster.dataDir, { recursive: true });
  const ca = await mustRun('cat', [join(cluster.dataDir, 'pki', 'ca.crt')]);
  await cluster.up();
  expect(await mustRun('cat', [join(cluster.dataDir, 'pki', 'ca.crt')])).toBe(ca);
  const { kubectl, api } = cluster;
  expect(await kubectl.run(['get', 'secret', 'kept', '-o', 'jsonpath={.data.word}'])).toBe('b3Blbg==');
  expect(await kubectl.run(['get', 'widgets.example.com', 'first', '-o', 'jsonpath={.spec.size}'])).toBe('3');
  // the last write of the former process
  const kept = await api.get<Item>('/api/v1/namespaces/default/configmaps/kept');
  expect(kept.metadata.resourceVersion).toBe(lastRevision);
  await kubectl.run(['create', 'configmap', 'new']);
  const created = await api.get<Item>('/api/v1/namespaces/default/configmaps/new');
  expect(Number(created.metadata.resourceVersion)).toBeGreaterThan(Number(lastRevision));
  await kubectl.run(['scale', 'deployment/web', '--replicas=3']);
  await untilValue(
    'the controllers of the new version act on the former Deployment',
    async () => (await api.get<Deployment>('/apis/apps/v1/namespaces/default/deployments/web')).status?.replicas,
    (replicas) => replicas === 3,
  );
});
