import { silentLogger } from '@oarlock/primitives/logger';
import type { KubeObject } from '@oarlock/api/object';
import type { Service } from '@oarlock/api/types/core-v1';
import type { IPAddress, ServiceCIDR } from '@oarlock/api/types/networking-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ServiceCidrController } from '../../src/controllers/service-cidr-controller.ts';
import { facts, rejectionOf, TestServer } from '../support/pipeline-fixture.ts';

let server: TestServer;
let cidrs: ServiceCidrController;
const looking = (on: TestServer) =>
  new ServiceCidrController({ pipeline: on.pipeline, cidrs: facts.serviceCIDRs, clock: on.clock, log: silentLogger });
beforeEach(async () => {
  server = await TestServer.start();
  cidrs = looking(server);
  await cidrs.start();
});
afterEach(async () => {
  await cidrs.stop();
  await server.stop();
});

const service = (name: string, spec: object = {}) =>
  server.create<Service>('services', {
    kind: 'Service',
    apiVersion: 'v1',
    metadata: { name },
    ...{ spec: { ports: [{ port: 80 }], ...spec } },
  });
const cidr = (name: string, ...ranges: string[]) =>
  server.create<ServiceCIDR>('servicecidrs.networking.k8s.io', {
    kind: 'ServiceCIDR',
    apiVersion: 'networking.k8s.io/v1',
    metadata: { name },
    ...{ spec: { cidrs: ranges } },
  });
const addresses = async () => (await server.list('ipaddresses.networking.k8s.io')).names;

/** Resolves to the object when it satisfies the condition. */
async function until<T extends KubeObject>(of: string, name: string, wanted: (object: T | undefined) => boolean): Promise<void> {
  const watching = await server.watch(of, { fieldSelector: `metadata.name=${name}` });
  const now = (await server.list(of, { fieldSelector: `metadata.name=${name}` })).items[0]?.object as T | undefined;
  let done = wanted(now);
  while (!done) {
    const frame = await watching.next();
    done = wanted(frame?.type === 'DELETED' ? undefined : (frame?.item.object as T));
  }
  await watching.close();
}
const isReady = (status: string) => (object: ServiceCIDR | undefined) =>
  object?.status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === status) === true;

describe('ServiceCIDR and IPAddress API', () => {
  it('creates a default ServiceCIDR with the condition Ready', async () => {
    await until('servicecidrs.networking.k8s.io', 'kubernetes', isReady('True'));
    expect(await server.get('servicecidrs.networking.k8s.io', 'kubernetes')).toMatchObject({
      metadata: { finalizers: ['networking.k8s.io/service-cidr-finalizer'] },
      spec: { cidrs: ['10.96.0.0/24'] },
      status: { conditions: [{ type: 'Ready', status: 'True', message: 'Kubernetes Service CIDR is ready' }] },
    });
  });

  it('creates an IPAddress for each address of a Service and deletes it with the Service', async () => {
    const created = await service('a', { clusterIP: '10.96.0.9' });
    expect(await server.get<IPAddress>('ipaddresses.networking.k8s.io', '10.96.0.9')).toMatchObject({
      metadata: {
        uid: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
        labels: { 'ipaddress.kubernetes.io/ip-family': 'IPv4', 'ipaddress.kubernetes.io/managed-by': 'ipallocator.k8s.io' },
        resourceVersion: created.metadata?.resourceVersion,
      },
    });
    // Go omits the empty group of Services
    expect((await server.get<IPAddress>('ipaddresses.networking.k8s.io', '10.96.0.9')).spec).toEqual({
      parentRef: { resource: 'services', namespace: 'default', name: 'a' },
    });
    expect((await rejectionOf(service('b', { clusterIP: '10.96.0.9' }))).message).toContain(
      'failed to allocate IP 10.96.0.9: provided IP is already allocated',
    );
    await server.remove('services', 'a');
    expect(await addresses()).toEqual([]);
  });

  it('does not allocate an address for which an IPAddress exists', async () => {
    await server.create('ipaddresses.networking.k8s.io', {
      kind: 'IPAddress',
      apiVersion: 'networking.k8s.io/v1',
      metadata: { name: '10.96.0.50' },
      ...{ spec: { parentRef: { group: 'example.com', resource: 'gateways', name: 'g' } } },
    });
    expect((await rejectionOf(service('a', { clusterIP: '10.96.0.50' }))).message).toContain('provided IP is already allocated');
  });

  it('should create Services and serve on different Service CIDRs', async () => {
    expect((await rejectionOf(service('a', { clusterIP: '10.200.0.9' }))).message).toContain('is not in the valid range');
    await cidr('more', '10.200.0.0/28');
    await until('servicecidrs.networking.k8s.io', 'more', isReady('True'));
    expect((await service('a', { clusterIP: '10.200.0.9' })).spec?.clusterIP).toBe('10.200.0.9');
  });

  it('keeps a deleted ServiceCIDR until no address needs it', async () => {
    await cidr('more', '10.200.0.0/28');
    await until('servicecidrs.networking.k8s.io', 'more', isReady('True'));
    await service('a', { clusterIP: '10.200.0.9' });
    await server.remove('servicecidrs.networking.k8s.io', 'more');
    await until('servicecidrs.networking.k8s.io', 'more', isReady('False'));
    expect(await server.get('servicecidrs.networking.k8s.io', 'more')).toMatchObject({
      status: {
        conditions: [
          {
            reason: 'Terminating',
            message: 'There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR',
          },
        ],
      },
    });
    expect((await rejectionOf(service('b', { clusterIP: '10.200.0.10' }))).message).toContain('is not in the valid range');
    await server.remove('services', 'a');
    await until('servicecidrs.networking.k8s.io', 'more', (object) => object === undefined);
  });

  it('recreates a deleted IPAddress of an existing Service', async () => {
    await service('a', { clusterIP: '10.96.0.9' });
    await server.remove('ipaddresses.networking.k8s.io', '10.96.0.9');
    await until('ipaddresses.networking.k8s.io', '10.96.0.9', (object) => object !== undefined);
  });

  it('repairs leaked and missing IPAddresses at its start', async () => {
    await cidrs.stop();
    await server.create('ipaddresses.networking.k8s.io', {
      kind: 'IPAddress',
      apiVersion: 'networking.k8s.io/v1',
      metadata: { name: '10.96.0.77', labels: { 'ipaddress.kubernetes.io/managed-by': 'ipallocator.k8s.io' } },
      ...{ spec: { parentRef: { resource: 'services', namespace: 'default', name: 'gone' } } },
    });
    await service('a', { clusterIP: '10.96.0.9' });
    await server.remove('ipaddresses.networking.k8s.io', '10.96.0.9');
    cidrs = looking(server);
    await cidrs.start();
    expect(await addresses()).toEqual(['10.96.0.9']);
  });

  it('allocates two addresses for a dual-stack Service', async () => {
    const dual = await TestServer.start({ facts: { serviceCIDRs: ['10.96.0.0/24', 'fd00:96::/112'] } });
    const created = await dual.create<Service>('services', {
      kind: 'Service',
      apiVersion: 'v1',
      metadata: { name: 'a' },
      ...{ spec: { ports: [{ port: 80 }], ipFamilyPolicy: 'RequireDualStack' } },
    });
    expect((await dual.list('ipaddresses.networking.k8s.io')).names.sort()).toEqual([...(created.spec?.clusterIPs ?? [])].sort());
    await dual.stop();
  });
});
