import type { KubeObject } from '@oarlock/api/object';
import type { ResourceClaim } from '@oarlock/api/types/resource-v1';
import type { Identity } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import { afterEach, describe, expect, it } from 'vitest';
import { rejectionOf, TestServer } from '../support/pipeline-fixture.ts';

const claims = 'resourceclaims.resource.k8s.io';
const apiVersion = 'resource.k8s.io/v1';
const ada: Identity = { name: 'ada', groups: ['system:authenticated'] };
const driverOn = (node: string): Identity => ({
  name: 'system:serviceaccount:kube-system:driver',
  groups: [],
  extra: { 'authentication.kubernetes.io/node-name': [node] },
});

/** Allows everything but the synthetic subresources, of which it allows those in `special`, as `verb subresource namespace/name`. */
const chain = (special: readonly string[]): Authorizer[] => [
  {
    authorize: (attributes) =>
      attributes.kind === 'resource' &&
      (attributes.subresource === 'binding' || attributes.subresource === 'driver') &&
      !special.includes(`${attributes.verb} ${attributes.subresource} ${attributes.namespace}/${attributes.name}`)
        ? { decision: 'no-opinion' }
        : { decision: 'allow', reason: 'test' },
  },
];

let server: TestServer;
const start = async (...special: readonly string[]) => {
  server = await TestServer.start({ authz: chain(special) });
};
afterEach(() => server.stop());

const requests = (adminAccess: boolean) => ({
  devices: { requests: [{ name: 'r', exactly: { deviceClassName: 'c', ...(adminAccess && { adminAccess }) } }] },
});
const claim = (adminAccess = false): KubeObject => ({
  apiVersion,
  kind: 'ResourceClaim',
  metadata: { name: 'c' },
  ...{ spec: requests(adminAccess) },
});
const allocation = (node = 'node-a', more: object = {}) => ({
  devices: { results: [{ request: 'r', driver: 'gpu.example.com', pool: 'p', device: 'd', ...more }] },
  nodeSelector: { nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }] },
});
const device = (driver = 'gpu.example.com', more: object = {}) => ({ driver, pool: 'p', device: 'd', ...more });
const status = (next: object, identity: Identity, verb: 'patch' | 'update' = 'patch') =>
  verb === 'patch'
    ? server.patch<ResourceClaim>(claims, 'c', { status: next }, { subresource: 'status', identity })
    : server
        .get(claims, 'c')
        .then((current) => server.update<ResourceClaim>(claims, { ...current, ...{ status: next } }, { subresource: 'status', identity }));
const messageOf = async (call: Promise<unknown>) => {
  const { code, message } = await rejectionOf(call);
  return `${code} ${message}`;
};
const allowAdmin = () =>
  server.create('namespaces', {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'default', labels: { 'resource.kubernetes.io/admin-access': 'true' } },
  });
const plainNamespace = () => server.create('namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } });

describe('admin access to devices', () => {
  const denied =
    'Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace';

  it('is rejected in a namespace without the label, for claims and templates', async () => {
    await start();
    await plainNamespace();
    expect(await messageOf(server.create(claims, claim(true), { identity: ada }))).toBe(
      `422 ResourceClaim.resource.k8s.io "c" is invalid: spec.devices.requests[0].adminAccess: ${denied}`,
    );
    const template = { apiVersion, kind: 'ResourceClaimTemplate', metadata: { name: 't' }, ...{ spec: { spec: requests(true) } } };
    expect(await messageOf(server.create('resourceclaimtemplates.resource.k8s.io', template, { identity: ada }))).toContain(denied);
    await server.create(claims, claim(), { identity: ada });
    await server.patch('namespaces', 'default', { metadata: { labels: { 'resource.kubernetes.io/admin-access': 'True' } } });
    expect(await messageOf(server.create('resourceclaimtemplates.resource.k8s.io', template, { identity: ada }))).toContain(denied);
  });

  it('is possible in a namespace with the label', async () => {
    await start('patch binding /');
    await allowAdmin();
    await server.create(claims, claim(true), { identity: ada });
    await status({ allocation: allocation('node-a', { adminAccess: true }) }, ada);
  });

  it('is rejected for an allocation, until it was granted', async () => {
    await start('patch binding /');
    const { metadata } = await allowAdmin();
    await server.create(claims, claim(true), { identity: ada });
    await server.patch('namespaces', metadata?.name ?? '', { metadata: { labels: null } });
    const adminAllocation = { allocation: allocation('node-a', { adminAccess: true }) };
    expect(await messageOf(status(adminAllocation, ada))).toContain(`status.allocation.devices.results[0].adminAccess: ${denied}`);
    await server.patch('namespaces', 'default', { metadata: { labels: { 'resource.kubernetes.io/admin-access': 'true' } } });
    await status(adminAllocation, ada);
    await server.patch('namespaces', 'default', { metadata: { labels: null } });
    await status({ reservedFor: [{ resource: 'pods', name: 'p', uid: 'u' }] }, ada);
  });
});

describe('the status of a claim', () => {
  const reservedFor = [{ resource: 'pods', name: 'p', uid: 'u' }];

  it.each([
    ['allocation', { allocation: allocation() }],
    ['reservation', { allocation: allocation(), reservedFor }],
  ])('requires resourceclaims/binding for an %s', async (_, next) => {
    await start();
    await plainNamespace();
    await server.create(claims, claim());
    expect(await messageOf(status(next, ada))).toBe(
      '422 ResourceClaim.resource.k8s.io "c" is invalid: status: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io is forbidden: User "ada" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope',
    );
  });

  it.each([
    ['of the driver, on every node', ['arbitrary-node:patch driver default/gpu.example.com'], ada, true],
    [
      'of the driver, for a service account of the node',
      ['associated-node:patch driver default/gpu.example.com'],
      driverOn('node-a'),
      true,
    ],
    [
      'of the driver, for a service account of another node',
      ['associated-node:patch driver default/gpu.example.com'],
      driverOn('node-b'),
      false,
    ],
    [
      'of the driver, for a user who is no service account',
      ['associated-node:patch driver default/gpu.example.com'],
      { ...driverOn('node-a'), name: 'ada' },
      false,
    ],
    ['of another driver', ['arbitrary-node:patch driver default/nic.example.com'], ada, false],
    ['for another verb', ['arbitrary-node:update driver default/gpu.example.com'], ada, false],
    ['to bind only', ['patch binding /'], ada, false],
  ])('of a device is written with permission %s: %j as %j: %s', async (_, special, identity, allowed) => {
    await start('update binding /', ...special);
    await plainNamespace();
    await server.create(claims, claim());
    await status({ allocation: allocation() }, ada, 'update');
    const call = status({ devices: [device()] }, identity);
    if (allowed) expect((await call).status?.devices).toHaveLength(1);
    else
      expect(await messageOf(call)).toContain(
        'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver"',
      );
  });

  it('loses the status of devices that it deallocates, without the permission of their driver', async () => {
    await start('update binding /', 'arbitrary-node:patch driver default/gpu.example.com');
    await plainNamespace();
    await server.create(claims, claim());
    await status({ allocation: allocation() }, ada, 'update');
    await status({ devices: [device()] }, ada);
    const { status: left } = await status({ allocation: null, devices: [device()] }, ada, 'update');
    expect(left).toEqual({});
  });

  it('keeps labels, finalizers and owners, which resourceclaims/status does not permit to change', async () => {
    await start();
    await plainNamespace();
    await server.create(claims, claim());
    const after = await server.patch(
      claims,
      'c',
      { metadata: { finalizers: ['example.com/x'], labels: { a: 'b' } } },
      { subresource: 'status', identity: ada },
    );
    expect([after.metadata?.finalizers, after.metadata?.labels]).toEqual([undefined, undefined]);
  });
});
