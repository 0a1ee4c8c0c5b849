import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configMaps, deployments, namespaces, pods, serviceAccounts } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { loopbackClient, LoopbackTransport } from '@oarlock/client/loopback-client';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import type { Client } from '@oarlock/spi/client';
import { loopbackHandler } from '../../src/pipeline/loopback-handler.ts';
import { admin, configMap, pod, rejectionOf, settlePromises, TestServer } from '../support/pipeline-fixture.ts';

let server: TestServer;
let client: Client;
let informers: SharedInformerFactory;
beforeEach(async () => {
  server = await TestServer.start();
  const switchboard = new LoopbackTransport();
  switchboard.connect(loopbackHandler(server.pipeline, () => Promise.resolve({ gitVersion: 'v1.36.0' })));
  client = loopbackClient(switchboard, admin);
  informers = new SharedInformerFactory({ client, clock: server.clock });
});
afterEach(async () => {
  await informers.stop();
  await server.stop();
});

describe('loopback client', () => {
  it('reads and writes objects', async () => {
    const created = await client.create(configMaps, { metadata: { name: 'a', namespace: 'default' }, data: { x: '1' } });
    expect(await client.get(configMaps, { namespace: 'default', name: 'a' })).toBe(created);
    const changed = await client.update(configMaps, { ...created, data: { x: '2' } });
    expect((await client.patch(configMaps, { namespace: 'default', name: 'a' }, 'merge', { data: { y: '3' } })).data).toEqual({
      x: '2',
      y: '3',
    });
    expect((await client.list(configMaps, { namespace: 'default' })).items.map(({ metadata }) => metadata?.name)).toEqual(['a']);
    expect((await rejectionOf(client.update(configMaps, { ...changed, data: {} }))).reason).toBe('Conflict');
    expect(await client.delete(configMaps, { namespace: 'default', name: 'a' })).toBeUndefined();
    await client.create(namespaces, { metadata: { name: 'team' } });
    expect((await client.delete(namespaces, { name: 'team' }))?.status?.phase).toBe('Terminating');
    expect(await client.raw('GET', '/version')).toEqual({ gitVersion: 'v1.36.0' });
  });

  it('calls subresources', async () => {
    await client.create(pods, pod('a', {}, { namespace: 'default' }) as Pod);
    await client.create(pods, { metadata: { name: 'a', namespace: 'default' }, target: { kind: 'Node', name: 'n' } } as unknown as Pod, {
      subresource: 'binding',
      name: { namespace: 'default', name: 'a' },
    });
    const bound = await client.get(pods, { namespace: 'default', name: 'a' });
    expect(bound.spec?.nodeName).toBe('n');
    const reported = await client.update(pods, { ...bound, status: { ...bound.status, phase: 'Running' } }, { subresource: 'status' });
    expect(reported.status?.phase).toBe('Running');
    await client.create(serviceAccounts, { metadata: { name: 'sa', namespace: 'default' } });
    const token = await client.create(
      serviceAccounts,
      { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: [] } } as object,
      { subresource: 'token', name: { namespace: 'default', name: 'sa' } },
    );
    expect(token).toMatchObject({ status: { token: expect.stringMatching(/^ey/) as string } });
    await client.create(
      pods,
      { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: 'a', namespace: 'default' } },
      { subresource: 'eviction', name: { namespace: 'default', name: 'a' } },
    );
    expect((await client.get(pods, { namespace: 'default', name: 'a' })).metadata?.deletionTimestamp).toBeDefined();
  });

  it("rejects with its caller's reason when the caller aborts", async () => {
    const reason = new Error('enough');
    await expect(
      client.patch(configMaps, { namespace: 'default', name: 'a' }, 'merge', {}, { signal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason);
  });
});

describe('informers', () => {
  it("share the server's objects and follow every change", async () => {
    await server.create('configmaps', configMap('before'));
    const informer = informers.forResource(configMaps);
    const seen: string[] = [];
    informer.addEventHandler({
      onAdd: ({ metadata }) => seen.push(`+${metadata?.name}`),
      onUpdate: ({ metadata }) => seen.push(`~${metadata?.name}`),
      onDelete: ({ metadata }) => seen.push(`-${metadata?.name}`),
    });
    informers.start();
    await informers.whenSynced();
    expect(informer.get('default/before')).toBe(await client.get(configMaps, { namespace: 'default', name: 'before' }));
    await server.create('configmaps', configMap('a'));
    await server.update('configmaps', configMap('a', { x: 'y' }));
    await server.remove('configmaps', 'a');
    await settlePromises();
    expect(seen).toEqual(['+before', '+a', '~a', '-a']);
  });

  it('of one node follow its pods', async () => {
    const informer = informers.forResource(pods, { fieldSelector: 'spec.nodeName=n1' });
    informers.start();
    await informers.whenSynced();
    await server.create('pods', pod('mine', { nodeName: 'n1' }));
    await server.create('pods', pod('other', { nodeName: 'n2' }));
    await settlePromises();
    expect(informer.list().map(({ metadata }) => metadata?.name)).toEqual(['mine']);
    await server.remove('pods', 'mine', { body: { gracePeriodSeconds: 0 } });
    await settlePromises();
    expect(informer.size).toBe(0);
  });

  it('continue after their watches end', async () => {
    const informer = informers.forResource(deployments);
    informers.start();
    await informers.whenSynced();
    await server.clock.advance(3 * 3600_000);
    await server.create('deployments.apps', {
      kind: 'Deployment',
      apiVersion: 'apps/v1',
      metadata: { name: 'd' },
      ...{
        spec: {
          selector: { matchLabels: { a: 'b' } },
          template: { metadata: { labels: { a: 'b' } }, spec: { containers: [{ name: 'main', image: 'i' }] } },
        },
      },
    });
    await server.clock.advance(60_000);
    expect(informer.list().map(({ metadata }) => metadata?.name)).toEqual(['d']);
  });
});
