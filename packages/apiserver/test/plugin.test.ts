import { connect } from 'node:net';
import { get } from 'node:https';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { WiringError } from '@oarlock/kernel/errors';
import { namespaces } from '@oarlock/api/resources';
import { Authn, authenticated } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import { Cluster, Keys, type ClusterKeys } from '@oarlock/spi/cluster';
import { Loopback, type ApiHandler } from '@oarlock/spi/loopback';
import { Process } from '@oarlock/spi/process';
import { Roles } from '@oarlock/spi/role';
import { Storage } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { systemClock } from '@oarlock/primitives/clock';
import type { ApiServer } from '../src/server/api-server.ts';
import apiserver from '../src/plugin.ts';
import { restoreMarker } from '../src/storage/interrupted-restore.ts';
import { testKeys } from './support/keys.ts';

let keys: ClusterKeys;
beforeAll(async () => {
  keys = await testKeys();
});

const facts = {
  name: 'test',
  domain: 'cluster.local',
  podCIDRs: ['10.244.0.0/16'],
  serviceCIDRs: ['10.96.0.0/16'],
  kubernetesServiceIP: '10.96.0.1',
  dnsServiceIP: '10.96.0.10',
  serverUrl: 'https://127.0.0.1:6443',
  nodePortRange: { from: 30_000, to: 32_767 },
  version: 'v1.36.0+oarlock.test',
};
const someone = Authn.plugin({
  id: 'authn-test',
  config: z.strictObject({}),
  create: () => ({ authenticate: () => authenticated({ name: 'tester', groups: [] }) }),
});
const everything = Authz.plugin({
  id: 'authz-test',
  config: z.strictObject({}),
  create: () => ({ authorize: () => ({ decision: 'allow', reason: 'test' }) }),
});
const memory = Storage.plugin({ id: 'storage-test', config: z.strictObject({}), create: (_, { clock }) => new MemoryStorage({ clock }) });

let host: PluginHost | undefined;
let handler: ApiHandler | undefined;
afterEach(async () => {
  await host?.stop();
  host = undefined;
  handler = undefined;
});

function place(config: object = { listen: { port: 0 } }, storage: typeof memory = memory): PluginHost {
  const created = new PluginHost({ clock: systemClock });
  created
    .provide(Cluster, facts)
    .provide(Keys, keys)
    .provide(Loopback, {
      connect: (connected) => {
        handler = connected;
      },
    })
    .provide(Process, { registries: () => created.plugins.map(({ metrics }) => metrics), roles: () => created.get(Roles) });
  for (const plugin of [storage, someone, everything]) created.add({ plugin });
  created.add({ plugin: apiserver, name: 'apiserver', config });
  host = created;
  return created;
}
const roleOf = (created: PluginHost) => created.get(Roles)[0] as ApiServer;
const fetch = (port: number, path: string) =>
  new Promise<{ code: number; text: string }>((resolve, reject) => {
    get({ host: '127.0.0.1', port, path, ca: keys.caBundle, agent: false }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString('utf8');
      });
      response.on('end', () => {
        resolve({ code: response.statusCode ?? 0, text });
      });
    }).on('error', reject);
  });
const rejection = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', () => {
      resolve(true);
    });
  });

describe('apiserver role', () => {
  it('does not start over a part of a backup', async () => {
    const storage = new MemoryStorage();
    await storage.commit([{ key: restoreMarker, value: Buffer.from('{}') }], []);
    const partial = Storage.plugin({ id: 'storage-partial', config: z.strictObject({}), create: () => storage });
    const created = place(undefined, partial);
    await expect(created.start()).rejects.toThrow(/its restore was interrupted: run the same `oarlock restore` again/);
  });

  it('serves storage over HTTP and to loopback clients', async () => {
    const created = place();
    await created.start();
    const role = roleOf(created);
    await role.waitUntilReady(new AbortController().signal);
    const { port } = role.address;
    expect(await fetch(port, '/readyz')).toEqual({ code: 200, text: 'ok' });
    // upstream's names, in its order
    const verbose = async (path: string) =>
      (await fetch(port, path)).text.split('\n').flatMap((line) => /^\[\+\](\S+) (.*)$/.exec(line)?.slice(1, 3).join(' ') ?? []);
    const hooks = [
      'poststarthook/start-apiserver-admission-initializer',
      'poststarthook/generic-apiserver-start-informers',
      'poststarthook/priority-and-fairness-config-consumer',
      'poststarthook/start-apiextensions-informers',
      'poststarthook/start-apiextensions-controllers',
      'poststarthook/crd-informer-synced',
      'poststarthook/start-system-namespaces-controller',
      'poststarthook/start-cluster-authentication-info-controller',
      'poststarthook/start-kube-apiserver-identity-lease-controller',
      'poststarthook/start-kube-apiserver-identity-lease-garbage-collector',
      'poststarthook/start-legacy-token-tracking-controller',
      'poststarthook/scheduling/bootstrap-system-priority-classes',
      'poststarthook/priority-and-fairness-config-producer',
      'poststarthook/bootstrap-controller',
      'poststarthook/start-service-ip-repair-controllers',
      'poststarthook/start-kubernetes-service-cidr-controller',
      'poststarthook/aggregator-reload-proxy-client-cert',
      'poststarthook/start-kube-aggregator-informers',
      'poststarthook/apiservice-status-local-available-controller',
      'poststarthook/apiservice-status-remote-available-controller',
      'poststarthook/apiservice-registration-controller',
      'poststarthook/apiservice-discovery-controller',
      'poststarthook/apiservice-openapi-controller',
      'poststarthook/apiservice-openapiv3-controller',
      'poststarthook/kube-apiserver-autoregistration',
      'autoregister-completion',
    ];
    const ok = (...names: string[]) => names.map((name) => `${name} ok`);
    expect(await verbose('/readyz?verbose')).toEqual(ok('ping', 'etcd', 'etcd-readiness', 'informer-sync', ...hooks, 'shutdown'));
    for (const path of ['/livez?verbose', '/healthz?verbose']) expect(await verbose(path)).toEqual(ok('ping', 'etcd', ...hooks));
    expect(await verbose('/livez?verbose&exclude=autoregister-completion')).toContain('autoregister-completion excluded: ok');
    expect(await fetch(port, '/readyz/poststarthook/bootstrap-controller')).toEqual({ code: 200, text: 'ok' });
    expect((await fetch(port, '/livez/informer-sync')).code).toBe(404);
    expect(JSON.parse((await fetch(port, '/api/v1/namespaces')).text)).toMatchObject({
      kind: 'NamespaceList',
      items: expect.arrayContaining([
        expect.objectContaining({ metadata: expect.objectContaining({ name: 'kube-system' }) as object }),
      ]) as object,
    });
    expect(role.checkHealth()).toEqual({ healthy: true });
    const me = { name: 'system:admin', groups: ['system:masters'] };
    const answer = await handler?.handle({
      verb: 'get',
      resource: namespaces,
      subresource: '',
      namespace: '',
      name: 'default',
      query: {},
      identity: me,
    });
    expect(answer).toMatchObject({ kind: 'object', object: { metadata: { name: 'default' } } });
    expect(await handler?.handlePath('GET', '/version', undefined, me)).toMatchObject({ gitVersion: 'v1.36.0+oarlock.test' });
    expect((await fetch(port, '/metrics')).text).toMatch(/nodejs_eventloop_lag_seconds/);
    expect((await fetch(port, '/openapi/v3')).text).toContain(facts.serverUrl.slice(0, 0));
  });

  it('releases the port when it stops', async () => {
    const created = place();
    await created.start();
    const role = roleOf(created);
    const { port } = role.address;
    await created.stop();
    expect(await rejection(port)).toBe(true);
    expect(role.checkHealth()).toMatchObject({ healthy: false });
    await expect(role.waitUntilReady(new AbortController().signal)).resolves.toBeUndefined();
    const again = place({ listen: { port } });
    await again.start();
    expect(await fetch(port, '/livez')).toEqual({ code: 200, text: 'ok' });
  });

  it('cleans up a failed start when the port is in use', async () => {
    const first = place();
    await first.start();
    const { port } = roleOf(first).address;
    const second = place({ listen: { port } });
    await expect(second.start()).rejects.toThrow(/EADDRINUSE/);
    await expect(roleOf(second).waitUntilReady(new AbortController().signal)).rejects.toThrow(/EADDRINUSE/);
    expect((await fetch(port, '/livez')).code).toBe(200);
    await first.stop();
    expect(await rejection(port)).toBe(true);
  });

  it('rejects unknown configuration keys', () => {
    const faults = place({ listen: { port: 70_000 }, colour: 'red' }).check();
    host = undefined;
    expect(faults.map(({ message }) => message).join('\n')).toMatch(/colour[\s\S]*|65535/);
    expect(faults.length).toBeGreaterThan(1);
  });

  it('declares the slots that it needs', async () => {
    const created = new PluginHost();
    created.add({ plugin: apiserver });
    const error = await created.start().catch((fault: unknown) => fault);
    expect(error).toBeInstanceOf(WiringError);
    expect((error as WiringError).message).toMatch(/storage\/v1[\s\S]*keys\/v1/);
  });
});
