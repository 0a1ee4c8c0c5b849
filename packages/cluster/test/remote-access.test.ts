import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nodes } from '@oarlock/api/resources';
import { expect, it } from 'vitest';
import { remoteAccess } from '../src/remote-access.ts';

it('remoteAccess counts the requests of all its clients in one registry', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'oarlock-access-'));
  const file = join(directory, 'kubeconfig');
  const kubeconfig = {
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'test' },
    clusters: [{ name: 'test', cluster: { server: 'https://127.0.0.1:1' } }],
    users: [{ name: 'test', user: { token: 'token' } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
  };
  await writeFile(file, JSON.stringify(kubeconfig), { mode: 0o600 });
  const access = await remoteAccess(file);
  const component = access.asComponent({ identity: { name: 'system:kube-proxy', groups: [] }, userAgent: 'kube-proxy' } as never, false);
  for (const client of [access.client, component])
    await expect(client.create(nodes, { metadata: { name: 'a' } })).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
  expect(await access.metrics.metrics()).toContain('rest_client_requests_total{code="<error>",method="POST",host="127.0.0.1:1"} 2\n');
  access.close();
  await rm(directory, { recursive: true });
});
