import { configMaps, secrets } from '@oarlock/api/resources';
import { Client } from '@oarlock/spi/client';
import { Controllers } from '@oarlock/spi/controller';
import { startCluster } from '@oarlock/testing/start-cluster';
import { expect, it } from 'vitest';
import { z } from 'zod';

it('a controller of another package may do what it declares, and nothing else', async () => {
  let client: Client | undefined;
  const plugin = Controllers.plugin({
    id: 'controller-foreign',
    declares: { rules: 'create | core | configmaps; get | core | configmaps | named' },
    config: z.strictObject({}),
    needs: { client: Client },
    create: (dependencies) => {
      ({ client } = dependencies);
      return { name: 'foreign', watches: [], reconcile: () => Promise.resolve() };
    },
  });
  await using cluster = await startCluster({ plugins: [plugin] });
  if (client === undefined) throw new Error('the plugin was not created');
  const foreign = client as Client;
  const named = { namespace: 'default', name: 'named' };
  await foreign.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata: named });
  expect(await foreign.get(configMaps, named)).toMatchObject({ metadata: { name: 'named' } });
  const user = 'User "system:serviceaccount:kube-system:controller-foreign"';
  await expect(foreign.get(configMaps, { namespace: 'default', name: 'other' })).rejects.toThrow(
    `configmaps "other" is forbidden: ${user} cannot get resource "configmaps" in API group "" in the namespace "default"`,
  );
  await expect(foreign.list(secrets, {})).rejects.toThrow(
    `secrets is forbidden: ${user} cannot list resource "secrets" in API group "" at the cluster scope`,
  );
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { namespace: 'default', name: 's' } };
  await expect(foreign.create(secrets, secret)).rejects.toThrow(/cannot create resource "secrets"/);
  await expect(cluster.client.get(secrets, { namespace: 'default', name: 's' })).rejects.toThrow(/not found/);
});

it('a rule that cannot be read is a fault of the composition', async () => {
  const plugin = Controllers.plugin({
    id: 'controller-foreign',
    declares: { rules: 'create configmaps' },
    config: z.strictObject({}),
    create: () => ({ name: 'foreign', watches: [], reconcile: () => Promise.resolve() }),
  });
  await expect(startCluster({ plugins: [plugin] })).rejects.toThrow('a rule is `verbs | groups | resources | names`');
});
