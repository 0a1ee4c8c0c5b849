import { X509Certificate } from 'node:crypto';
import type { ConfigMap } from '@oarlock/api/types/core-v1';
import { silentLogger } from '@oarlock/primitives/logger';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ClusterAuthenticationTrustController } from '../../src/aggregation/cluster-authentication-trust-controller.ts';
import { testKeys, type TestKeys } from '../support/keys.ts';
import { TestServer } from '../support/pipeline-fixture.ts';

const name = 'extension-apiserver-authentication';
const inSystem = { namespace: 'kube-system' };
const pem = (text: string) => new X509Certificate(text).toString();

let server: TestServer;
let keys: TestKeys;
let controllers: ClusterAuthenticationTrustController[];
beforeEach(async () => {
  [server, keys] = await Promise.all([TestServer.start(), testKeys('a')]);
  controllers = [];
  await server.create('namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: inSystem.namespace } });
});
afterEach(async () => {
  await Promise.all(controllers.map((controller) => controller.stop()));
  await server.stop();
});

async function start(of: Pick<TestKeys, 'caBundle' | 'removedCaBundle' | 'frontProxy'>): Promise<void> {
  const { clock, pipeline } = server;
  const controller = new ClusterAuthenticationTrustController({ pipeline, keys: of, frontProxy: of.frontProxy, clock, log: silentLogger });
  controllers.push(controller);
  await controller.start();
}
const read = () => server.object<ConfigMap>('get', 'configmaps', { ...inSystem, name });
const put = (data: Readonly<Record<string, string>>) =>
  server.create<ConfigMap>('configmaps', { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, ...inSystem }, ...{ data } }, inSystem);

/** Returns the ConfigMap at its next change that satisfies the condition. */
async function until(wanted: (data: Readonly<Record<string, string>>) => boolean, change: () => Promise<unknown>): Promise<ConfigMap> {
  const { metadata } = await read();
  const from = { fieldSelector: `metadata.name=${name}`, resourceVersion: metadata?.resourceVersion ?? '' };
  const watching = await server.watch('configmaps', from);
  await change();
  for (;;) {
    const frame = await watching.next();
    const found = frame?.item.object as ConfigMap | undefined;
    if (frame === undefined || found === undefined) throw new Error('the watch ended');
    if (frame.type === 'DELETED' || !wanted(found.data ?? {})) continue;
    await watching.close();
    return found;
  }
}

describe('ClusterAuthenticationTrustController', () => {
  it('publishes both CAs', async () => {
    await start(keys);
    expect((await read()).data).toMatchObject({
      'client-ca-file': pem(keys.caBundle),
      'requestheader-client-ca-file': pem(keys.frontProxy.caBundle),
      'requestheader-allowed-names': '["front-proxy-client"]',
    });
  });

  it('removes the cluster CA that an earlier version published as front-proxy CA', async () => {
    await put({ 'client-ca-file': keys.caBundle, 'requestheader-client-ca-file': keys.caBundle });
    await start(keys);
    expect((await read()).data).toMatchObject({
      'client-ca-file': pem(keys.caBundle),
      'requestheader-client-ca-file': pem(keys.frontProxy.caBundle),
    });
  });

  it('adds its CAs to those of another API server', async () => {
    const others = await testKeys('b');
    await start(others);
    await start(keys);
    expect((await read()).data).toMatchObject({
      'client-ca-file': pem(others.caBundle) + pem(keys.caBundle),
      'requestheader-client-ca-file': pem(others.frontProxy.caBundle) + pem(keys.frontProxy.caBundle),
    });
  });

  it('publishes both when two API servers start at once', async () => {
    const others = await testKeys('b');
    await Promise.all([start(others), start(keys)]);
    const { data } = await read();
    for (const { frontProxy } of [others, keys]) expect(data?.['requestheader-client-ca-file']).toContain(pem(frontProxy.caBundle));
  });

  it('publishes again when the ConfigMap is deleted or overwritten', async () => {
    await start(keys);
    const complete = (data: Readonly<Record<string, string>>) =>
      data['requestheader-client-ca-file']?.includes(pem(keys.frontProxy.caBundle)) === true;
    await until(complete, () => server.object('delete', 'configmaps', { ...inSystem, name }));
    const present = await read();
    const overwritten = { ...present, ...{ data: { 'requestheader-client-ca-file': '' } } };
    await until(complete, () => server.update('configmaps', overwritten, inSystem));
  });

  it('removes the CAs that a rotation removed', async () => {
    const former = await testKeys('former');
    await start(former);
    await start({
      ...keys,
      removedCaBundle: former.caBundle,
      frontProxy: { ...keys.frontProxy, removedCaBundle: former.frontProxy.caBundle },
    });
    // the first server, which has not taken the step, still trusts its CAs and adds them again
    const { data } = await until(
      (each) => each['client-ca-file']?.includes(pem(former.caBundle)) === true && each['client-ca-file'].includes(pem(keys.caBundle)),
      async () => {
        const present = await read();
        await server.update('configmaps', { ...present, metadata: { ...present.metadata, labels: { touched: 'yes' } } }, inSystem);
      },
    );
    expect(data?.['requestheader-client-ca-file']).toContain(pem(keys.frontProxy.caBundle));
    await controllers[0]?.stop();
    // when it restarts with the result of the step, they are gone
    await start({
      ...keys,
      removedCaBundle: former.caBundle,
      frontProxy: { ...keys.frontProxy, removedCaBundle: former.frontProxy.caBundle },
    });
    expect((await read()).data).toMatchObject({
      'client-ca-file': pem(keys.caBundle),
      'requestheader-client-ca-file': pem(keys.frontProxy.caBundle),
    });
  });

  it('starts again with its own data when that of others fills the ConfigMap', async () => {
    const groups = JSON.stringify(['x'.repeat(1024 * 1024 - 200)]);
    await put({ 'requestheader-group-headers': groups });
    await start(keys);
    const { data } = await read();
    expect(data?.['requestheader-group-headers']).toBe('["X-Remote-Group"]');
    expect(data?.['requestheader-client-ca-file']).toBe(pem(keys.frontProxy.caBundle));
  });
});
