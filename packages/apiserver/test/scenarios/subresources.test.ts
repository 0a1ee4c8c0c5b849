import type { KubeObject } from '@oarlock/api/object';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configMap, pod, rejectionOf, TestServer } from '../support/pipeline-fixture.ts';

interface ObjectWithSpec extends KubeObject {
  readonly spec: Readonly<Record<string, unknown>>;
}

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

describe('kubelet subresources', () => {
  const containers = [
    { name: 'main', image: 'i' },
    { name: 'side', image: 'i' },
  ];
  const go = (subresource: string, body: object, name = 'p') =>
    server.handle('get', 'pods', { namespace: 'default', name, subresource, body });
  beforeEach(async () => {
    await server.create('nodes', {
      kind: 'Node',
      apiVersion: 'v1',
      metadata: { name: 'n', annotations: { 'oarlock.dev/kubelet-certificate': 'cluster' } },
      ...{
        status: {
          addresses: [
            { type: 'Hostname', address: 'n.local' },
            { type: 'InternalIP', address: '192.0.2.7' },
          ],
          daemonEndpoints: { kubeletEndpoint: { Port: 10255 } },
        },
      },
    });
    await server.create('pods', pod('p', { nodeName: 'n', containers, initContainers: [{ name: 'init', image: 'i' }] }));
  });

  it("have the kubelet's paths", async () => {
    expect(await go('log', { container: 'side', follow: true, tailLines: 5, sinceSeconds: 3 })).toEqual({
      kind: 'kubelet',
      nodeName: 'n',
      host: '192.0.2.7',
      port: 10255,
      path: '/containerLogs/default/p/side?follow=true&sinceSeconds=3&tailLines=5',
      upgrade: false,
      own: true,
    });
    expect(await go('exec', { container: 'main', command: ['sh', '-c', 'echo a b'], stdin: true, stdout: true, tty: true })).toMatchObject({
      path: '/exec/default/p/main?input=1&output=1&tty=1&command=sh&command=-c&command=echo+a+b',
      upgrade: true,
    });
    expect(await go('attach', { container: 'init', stdout: true, stderr: true })).toMatchObject({
      path: '/attach/default/p/init?output=1&error=1',
    });
    expect(await go('portforward', { ports: [80, 443] })).toMatchObject({ path: '/portForward/default/p?port=80%2C443', upgrade: true });
  });

  it("verify the kubelet's certificate only if its node requires it", async () => {
    const own = async () => (await go('log', { container: 'main' })) as { readonly own?: boolean };
    expect(await own()).toMatchObject({ own: true });
    await server.patch('nodes', 'n', { metadata: { annotations: { 'oarlock.dev/kubelet-certificate': null } } });
    expect(await own()).toMatchObject({ own: false });
  });

  it('take their options from the query', async () => {
    const response = await server.handle('get', 'pods', {
      namespace: 'default',
      name: 'p',
      subresource: 'log',
      query: { container: 'main', previous: 'true', tailLines: '7' },
    });
    expect(response).toMatchObject({ path: '/containerLogs/default/p/main?previous=true&tailLines=7' });
  });

  it('require a container name for pods with several containers', async () => {
    const message = async (body: object, name?: string) => (await rejectionOf(go('log', body, name))).message;
    expect(await message({})).toBe('a container name must be specified for pod p, choose one of: [init main side]');
    expect(await message({ container: 'nobody' })).toBe('container nobody is not valid for pod p');
    await server.create('pods', pod('alone', { nodeName: 'n' }));
    expect(await go('log', {}, 'alone')).toMatchObject({ path: '/containerLogs/default/alone/main' });
    await server.create('pods', pod('waiting'));
    expect(await go('log', {}, 'waiting')).toEqual({ kind: 'nothing' });
    expect((await rejectionOf(go('exec', {}, 'waiting'))).status).toMatchObject({
      code: 400,
      message: 'pod waiting does not have a host assigned',
    });
    await server.create('pods', pod('lost', { nodeName: 'nowhere' }));
    expect(await message({}, 'lost')).toBe('nodes "nowhere" not found');
    expect(await message({ container: 'main', tailLines: -1 })).toBe(
      'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
    );
    expect(await message({ limitBytes: 0 }, 'absent')).toBe(
      'PodLogOptions "absent" is invalid: limitBytes: Invalid value: 0: must be greater than 0',
    );
    expect(await message({ stream: 'Other' })).toBe(
      'PodLogOptions "p" is invalid: stream: Unsupported value: "Other": supported values: "All", "Stderr", "Stdout"',
    );
  });
});

it('return NotFound for unknown subresources', async () => {
  await server.create('configmaps', configMap('a'));
  expect((await rejectionOf(server.get('configmaps', 'a', { subresource: 'status' }))).status).toMatchObject({
    code: 404,
    message: 'the server could not find the requested resource',
  });
  await server.create('pods', pod('a'));
  expect((await rejectionOf(server.remove('pods', 'a', { subresource: 'status' }))).status).toMatchObject({
    code: 405,
    reason: 'MethodNotAllowed',
  });
  expect(await server.get('pods', 'a', { subresource: 'status' })).toEqual(await server.get('pods', 'a'));
  const { served } = { served: server.pipeline.servedKinds().find(({ resource, group }) => group === '' && resource === 'pods') };
  expect(served?.subresources.map(({ name }) => name)).toEqual([
    'attach',
    'binding',
    'ephemeralcontainers',
    'eviction',
    'exec',
    'log',
    'portforward',
    'proxy',
    'resize',
    'status',
  ]);
});

describe('updates that leave fields out', () => {
  it('may not remove ephemeral containers', async () => {
    const created = await server.create<ObjectWithSpec>('pods', pod('p'));
    const debugged = await server.update<ObjectWithSpec>(
      'pods',
      { ...created, spec: { ...created.spec, ephemeralContainers: [{ name: 'debug', image: 'i' }] } } as KubeObject,
      { subresource: 'ephemeralcontainers' },
    );
    const { ephemeralContainers: _removed, ...spec } = debugged.spec;
    const rejection = await rejectionOf(server.update('pods', { ...debugged, spec } as KubeObject, { subresource: 'ephemeralcontainers' }));
    expect(rejection.message).toContain('existing ephemeral containers "debug" may not be removed');
  });

  it('may not remove resources of containers', async () => {
    const resources = { requests: { cpu: '1' } };
    const created = await server.create<ObjectWithSpec>('pods', pod('p', { containers: [{ name: 'c', image: 'i', resources }] }));
    const containers = (created.spec['containers'] as readonly { resources?: unknown }[]).map(({ resources: _removed, ...rest }) => rest);
    const rejection = await rejectionOf(
      server.update('pods', { ...created, spec: { ...created.spec, containers } } as KubeObject, { subresource: 'resize' }),
    );
    expect(rejection.message).toContain('resource requests cannot be removed');
  });
});

describe('fields of disabled features', () => {
  it('are not stored', async () => {
    const configSource = { configMap: { name: 'c', namespace: 'd', kubeletConfigKey: 'k' } };
    const node = { kind: 'Node', apiVersion: 'v1', metadata: { name: 'n' }, spec: { configSource, unschedulable: true } };
    const created = await server.create('nodes', node as KubeObject);
    expect((created as ObjectWithSpec).spec).toMatchObject({ unschedulable: true });
    expect((created as ObjectWithSpec).spec).not.toHaveProperty('configSource');
    expect((await server.update('nodes', { ...created, spec: { configSource } } as KubeObject)) as ObjectWithSpec).toMatchObject({
      spec: {},
    });
    const config = { status: { config: { error: 'e' }, phase: 'Running' } };
    const { status } = (await server.patch('nodes', 'n', config, { subresource: 'status' })) as KubeObject & { status: object };
    expect(status).toMatchObject({ phase: 'Running' });
    expect(status).not.toHaveProperty('config');
    const claim = {
      kind: 'PersistentVolumeClaim',
      apiVersion: 'v1',
      metadata: { name: 'c' },
      spec: {
        accessModes: ['ReadWriteOnce'],
        resources: { requests: { storage: '1Gi' } },
        dataSourceRef: { kind: 'PersistentVolumeClaim', name: 'a', namespace: 'other' },
      },
    };
    expect(((await server.create('persistentvolumeclaims', claim as KubeObject)) as ObjectWithSpec).spec).not.toHaveProperty(
      'dataSourceRef',
    );
  });
});
