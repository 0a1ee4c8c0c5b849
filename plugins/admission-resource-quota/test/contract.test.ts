import {
  configMaps,
  deviceClasses,
  events,
  persistentVolumeClaims,
  pods,
  resourceClaims,
  resourceQuotas,
  services,
} from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { Pod, ResourceQuota } from '@oarlock/api/types/core-v1';
import type { ResourceClaim } from '@oarlock/api/types/resource-v1';
import type { AdmissionRequest } from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

type Hard = Record<string, string>;
const quota = (namespace: string, hard: Hard, used: Hard, more: ResourceQuota['spec'] = {}): ResourceQuota => ({
  metadata: { namespace, name: 'q' },
  spec: { hard, ...more },
  status: { hard, used },
});
const named = (name: string, hard: Hard, used: Hard): ResourceQuota => ({ ...quota('d', hard, used), metadata: { namespace: 'd', name } });
const pod = (namespace: string, requests: Hard = {}, more: Partial<NonNullable<Pod['spec']>> = {}): Pod => ({
  metadata: { namespace, name: 'p' },
  spec: { containers: [{ name: 'c', image: 'x', resources: { requests, limits: requests } }], ...more },
});
const create = (object: Pod, more: Partial<AdmissionRequest> = {}) => admissionRequest('CREATE', pods, object, more);
const service = (type: string, ports: number) => ({
  metadata: { namespace: 'objects', name: 's' },
  spec: { type, ports: Array.from({ length: ports }, (_, at) => ({ port: at + 1 })) },
});
const claim = (storage: string, allocated?: string) => ({
  metadata: { namespace: 'objects', name: 'c' },
  spec: { storageClassName: 'fast', resources: { requests: { storage } } },
  ...(allocated !== undefined && { status: { allocatedResources: { storage: allocated } } }),
});
describe('limited resources', () => {
  const config = {
    limitedResources: [
      { resource: 'pods', matchScopes: [{ scopeName: 'PriorityClass', operator: 'In', values: ['high'] }] },
      { resource: 'persistentvolumeclaims', matchContains: ['fast.storageclass.storage.k8s.io/requests.storage'] },
    ],
  };
  const decisionOf = async (request: AdmissionRequest, ...quotas: ResourceQuota[]) => {
    const { plugin: limiting, dispose } = await openAdmission(plugin, { config, seed: (api) => api.seed(resourceQuotas, ...quotas) });
    const verdict = await limiting.validate?.(request);
    await dispose();
    return verdict;
  };
  const scoped = (values: string[]) => ({
    scopeSelector: { matchExpressions: [{ scopeName: 'PriorityClass', operator: 'In', values }] },
  });

  it('are required by scope', async () => {
    const high = create(pod('n', {}, { priorityClassName: 'high' }));
    const message = 'insufficient quota to match these scopes: [{PriorityClass In [high]}]';
    expect(await decisionOf(high)).toMatchObject({ allowed: false, message, status: { message, code: 500 } });
    const otherScope = { ...scoped(['high']), scopes: ['Terminating'] };
    expect(await decisionOf(high, quota('n', { pods: '5' }, { pods: '0' }, otherScope))).toEqual({ allowed: true });
    expect(await decisionOf(high, quota('n', { pods: '5' }, { pods: '0' }))).toMatchObject({ allowed: false, message });
    expect(await decisionOf(high, quota('n', { pods: '5' }, { pods: '0' }, scoped(['high'])))).toEqual({ allowed: true });
    expect(await decisionOf(create(pod('n')))).toEqual({ allowed: true });
  });

  it('are required by name', async () => {
    const wanted = admissionRequest('CREATE', persistentVolumeClaims, claim('1Gi'));
    const name = 'fast.storageclass.storage.k8s.io/requests.storage';
    expect(await decisionOf(wanted)).toMatchObject({ allowed: false, message: `insufficient quota to consume: ${name}` });
    expect(await decisionOf(wanted, quota('objects', { [name]: '5Gi' }, { [name]: '0' }))).toEqual({ allowed: true });
  });
});

it('counts claims by VolumeAttributesClass', async () => {
  const gold = { scopeSelector: { matchExpressions: [{ scopeName: 'VolumeAttributesClass', operator: 'In', values: ['gold'] }] } };
  const { plugin: charging, dispose } = await openAdmission(plugin, {
    seed: (api) => api.seed(resourceQuotas, quota('objects', { persistentvolumeclaims: '0' }, { persistentvolumeclaims: '0' }, gold)),
  });
  const of = (volumeAttributesClassName?: string, status = {}) =>
    admissionRequest('CREATE', persistentVolumeClaims, {
      ...claim('1Gi'),
      spec: { ...claim('1Gi').spec, ...(volumeAttributesClassName && { volumeAttributesClassName }) },
      status,
    });
  expect(await charging.validate?.(of('gold'))).toMatchObject({ allowed: false });
  expect(await charging.validate?.(of('silver', { currentVolumeAttributesClassName: 'gold' }))).toMatchObject({ allowed: false });
  expect(await charging.validate?.(of('silver'))).toEqual({ allowed: true });
  expect(await charging.validate?.(of())).toEqual({ allowed: true });
  await dispose();
});

const devices = 'gpu.deviceclass.resource.k8s.io/devices';
const deviceClaim = (count: number, namespace = 'devices'): ResourceClaim => ({
  metadata: { namespace, name: 'c' },
  spec: { devices: { requests: [{ name: 'r', exactly: { deviceClassName: 'gpu', allocationMode: 'ExactCount', count } }] } },
});

it('charges devices as the extended resource of their DeviceClass, except for a pod that is charged itself', async () => {
  const extended = 'requests.example.com/gpu';
  const { plugin: charging, dispose } = await openAdmission(plugin, {
    seed(api) {
      api.seed(resourceQuotas, quota('devices', { [extended]: '3' }, { [extended]: '2' }));
      api.seed(deviceClasses, { metadata: { name: 'gpu' }, spec: { extendedResourceName: 'example.com/gpu' } });
      api.seed(pods, {
        metadata: { namespace: 'devices', name: 'p', uid: 'u' },
        spec: { containers: [{ name: 'c', image: 'x', resources: { requests: { 'example.com/gpu': '2' } } }] },
      });
    },
  });
  expect(await charging.validate?.(admissionRequest('CREATE', resourceClaims, deviceClaim(2)))).toMatchObject({
    allowed: false,
    message: `exceeded quota: q, requested: ${extended}=2, used: ${extended}=2, limited: ${extended}=3`,
  });
  const ofPod: ResourceClaim = {
    ...deviceClaim(2),
    metadata: {
      ...deviceClaim(2).metadata,
      annotations: { 'resource.kubernetes.io/extended-resource-claim': 'true' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'u', controller: true }],
    },
  };
  expect(await charging.validate?.(admissionRequest('CREATE', resourceClaims, ofPod))).toEqual({ allowed: true });
  await dispose();
});

const big = '1000000';
const open = () =>
  openAdmission(plugin, {
    seed: (api) =>
      api.seed(
        resourceQuotas,
        quota('compute', { cpu: big, 'requests.memory': big, pods: big }, { cpu: '0', 'requests.memory': '0', pods: '0' }),
        quota('full', { pods: '2', cpu: '1' }, { pods: '2', cpu: '500m' }),
        quota(
          'objects',
          {
            'count/configmaps': '0',
            'count/events': '0',
            'services.nodeports': '2',
            'fast.storageclass.storage.k8s.io/requests.storage': '2Gi',
          },
          {
            'count/configmaps': '0',
            'count/events': '0',
            'services.nodeports': '0',
            'fast.storageclass.storage.k8s.io/requests.storage': '1Gi',
          },
        ),
        quota('effort', { pods: '0' }, { pods: '0' }, { scopes: ['BestEffort'] }),
        quota('devices', { [devices]: '3' }, { [devices]: '2' }),
        quota('many', { [devices]: big }, { [devices]: '0' }),
        quota('terminating', { pods: '0' }, { pods: '0' }, { scopes: ['Terminating'] }),
        quota(
          'classes',
          { pods: '0' },
          { pods: '0' },
          { scopeSelector: { matchExpressions: [{ scopeName: 'PriorityClass', operator: 'In', values: ['high'] }] } },
        ),
        { metadata: { namespace: 'new', name: 'q' }, spec: { hard: { pods: '2' } } },
        quota('unknown', { pods: '2', 'ephemeral-storage': '1Gi' }, { pods: '0' }),
      ),
  });

admissionContract('admission-resource-quota', async () => {
  const opened = await open();
  return {
    plugin: opened.plugin,
    dispose: () => opened.dispose(),
    cases: [
      { title: 'within the quota', request: create(pod('compute', { cpu: '1', memory: '1' })), expected: 'allowed' },
      { title: 'a namespace without a quota', request: create(pod('free')), expected: 'ignored' },
      {
        title: 'a resource that the pod does not specify',
        request: create(pod('compute', { memory: '1' })),
        expected: 'denied',
        message: 'failed quota: q: must specify cpu for: c',
      },
      {
        title: 'more than the quota',
        request: create(pod('full', { cpu: '750m' })),
        expected: 'denied',
        message: 'exceeded quota: q, requested: cpu=750m,pods=1, used: cpu=500m,pods=2, limited: cpu=1,pods=2',
      },
      {
        title: 'a count',
        request: admissionRequest('CREATE', configMaps, { metadata: { namespace: 'objects', name: 'c' } }),
        expected: 'denied',
        message: 'exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=0, limited: count/configmaps=0',
      },
      {
        title: 'node ports',
        request: admissionRequest('CREATE', services, service('NodePort', 3)),
        expected: 'denied',
        message: /services.nodeports=3/,
      },
      {
        title: 'a Service with more node ports',
        request: admissionRequest('UPDATE', services, service('LoadBalancer', 3), { old: service('ClusterIP', 3) }),
        expected: 'denied',
      },
      {
        title: 'a Service with the same node ports',
        request: admissionRequest('UPDATE', services, service('NodePort', 3), { old: service('NodePort', 3) }),
        expected: 'allowed',
      },
      {
        title: 'a claim of a class',
        request: admissionRequest('CREATE', persistentVolumeClaims, claim('2Gi')),
        expected: 'denied',
        message: /used: fast.storageclass.storage.k8s.io\/requests.storage=1Gi, limited: .*=2Gi/,
      },
      { title: 'best effort', request: create(pod('effort')), expected: 'denied' },
      { title: 'a pod that is not best effort', request: create(pod('effort', { cpu: '1' })), expected: 'allowed' },
      { title: 'terminating', request: create(pod('terminating', {}, { activeDeadlineSeconds: 5 })), expected: 'denied' },
      {
        title: 'a pod that gets a deadline',
        request: admissionRequest('UPDATE', pods, pod('terminating', {}, { activeDeadlineSeconds: 5 }), { old: pod('terminating') }),
        expected: 'denied',
      },
      {
        title: 'a pod that keeps its deadline',
        request: admissionRequest('UPDATE', pods, pod('terminating', {}, { activeDeadlineSeconds: 5 }), {
          old: pod('terminating', {}, { activeDeadlineSeconds: 9 }),
        }),
        expected: 'ignored',
      },
      {
        title: 'a claim of devices',
        request: admissionRequest('CREATE', resourceClaims, deviceClaim(2)),
        expected: 'denied',
        message: `exceeded quota: q, requested: ${devices}=2, used: ${devices}=2, limited: ${devices}=3`,
      },
      {
        title: 'a claim of fewer devices',
        request: admissionRequest('CREATE', resourceClaims, deviceClaim(1, 'many')),
        expected: 'allowed',
      },
      { title: 'not terminating', request: create(pod('terminating')), expected: 'allowed' },
      { title: 'a priority class', request: create(pod('classes', {}, { priorityClassName: 'high' })), expected: 'denied' },
      { title: 'another priority class', request: create(pod('classes', {}, { priorityClassName: 'low' })), expected: 'allowed' },
      { title: 'a quota that the controller has not calculated', request: create(pod('new')), expected: 'allowed' },
      {
        title: 'a quota without the usage of a resource',
        request: create(pod('unknown')),
        expected: 'denied',
        message: 'status unknown for quota: q, resources: ephemeral-storage,pods',
      },
      {
        title: 'a pod with resources of its own that lacks one',
        request: create(pod('compute', {}, { resources: { requests: { memory: '1' } } })),
        expected: 'allowed',
      },
      {
        title: 'a resize of a pod that lacks a resource',
        request: admissionRequest('UPDATE', pods, pod('compute', { memory: '2' }), {
          old: pod('compute', { memory: '1' }),
          subresource: 'resize',
        }),
        expected: 'denied',
        message: 'failed quota: q: must specify cpu for: c',
      },
      {
        title: 'an event, which no quota counts',
        request: admissionRequest('CREATE', events, { metadata: { namespace: 'objects', name: 'e' }, involvedObject: {} }),
        expected: 'ignored',
      },
      { title: 'a subresource', request: create(pod('full'), { subresource: 'binding' }), expected: 'ignored' },
    ],
  };
});

describe('admission-resource-quota', () => {
  it('charges the storage that the status of a claim reports', async () => {
    const opened = await open();
    const request = admissionRequest('UPDATE', persistentVolumeClaims, claim('1Gi', '5Gi'), { old: claim('1Gi'), subresource: 'status' });
    expect(await opened.plugin.validate?.(request)).toEqual({ allowed: true });
    expect(opened.api.object(resourceQuotas, { namespace: 'objects', name: 'q' })?.status?.used).toMatchObject({
      'fast.storageclass.storage.k8s.io/requests.storage': '5Gi',
    });
    await opened.dispose();
  });

  it('never exceeds the quota under concurrent writes', async () => {
    const opened = await openAdmission(plugin, {
      seed: (api) => api.seed(resourceQuotas, quota('d', { pods: '10', cpu: '100' }, { pods: '0', cpu: '0' })),
    });
    const other = opened.api.client('somebody');
    const answers = Promise.all(Array.from({ length: 25 }, () => opened.plugin.validate?.(create(pod('d', { cpu: '1' })))));
    const held = await other.get(resourceQuotas, { namespace: 'd', name: 'q' });
    await other.update(resourceQuotas, { ...held, metadata: { ...held.metadata, labels: { a: 'b' } } }).catch(() => undefined);
    const allowed = (await answers).filter((verdict) => verdict?.allowed === true);
    expect(allowed).toHaveLength(10);
    expect(opened.api.object(resourceQuotas, { namespace: 'd', name: 'q' })?.status?.used).toEqual({ pods: '10', cpu: '10' });
    await opened.dispose();
  });

  it('charges no quota if one of several quotas rejects the request', async () => {
    const opened = await openAdmission(plugin, {
      seed: (api) =>
        api.seed(
          resourceQuotas,
          named('a', { pods: '10' }, { pods: '0' }),
          named('b', { 'requests.cpu': '1' }, { 'requests.cpu': '1' }),
          named('c', { cpu: '10' }, { cpu: '0' }),
        ),
    });
    for (let attempt = 0; attempt < 3; attempt++) {
      const verdict = await opened.plugin.validate?.(create(pod('d', { cpu: '1' })));
      expect(verdict).toMatchObject({
        allowed: false,
        message: 'exceeded quota: b, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1',
      });
    }
    expect(opened.writes()).toBe(0);
    await opened.dispose();
  });

  it('reports an unspecified resource of any quota before an exceeded quota', async () => {
    const opened = await openAdmission(plugin, {
      seed: (api) => api.seed(resourceQuotas, named('a', { pods: '0' }, { pods: '0' }), named('b', { cpu: '1' }, { cpu: '0' })),
    });
    const verdict = await opened.plugin.validate?.(create(pod('d')));
    expect(verdict).toMatchObject({ allowed: false, message: 'failed quota: b: must specify cpu for: c' });
    await opened.dispose();
  });

  it('reverts its charges if a concurrent charge exhausts a further quota', async () => {
    const opened = await openAdmission(plugin, {
      seed: (api) => api.seed(resourceQuotas, named('a', { pods: '10' }, { pods: '3' }), named('b', { cpu: '1' }, { cpu: '0' })),
    });
    // another API server charges quota b after this one has charged quota a
    opened.api.failNext({ verb: 'update', resource: resourceQuotas, name: 'b' }, () => {
      opened.api.seed(resourceQuotas, named('b', { cpu: '1' }, { cpu: '1' }));
      return failure('Conflict', 'the object has been modified');
    });
    const pending = opened.plugin.validate?.(create(pod('d', { cpu: '1' })));
    expect(await pending).toMatchObject({ allowed: false, message: /^exceeded quota: b/ });
    expect(opened.api.object(resourceQuotas, { namespace: 'd', name: 'a' })?.status?.used).toEqual({ pods: '3' });
    await opened.dispose();
  });

  it('charges both quotas of concurrent requests only for the allowed ones', async () => {
    const opened = await openAdmission(plugin, {
      seed: (api) => api.seed(resourceQuotas, named('a', { pods: '100' }, { pods: '0' }), named('b', { cpu: '7' }, { cpu: '0' })),
    });
    const answers = await Promise.all(Array.from({ length: 25 }, () => opened.plugin.validate?.(create(pod('d', { cpu: '1' })))));
    expect(answers.filter((verdict) => verdict?.allowed === true)).toHaveLength(7);
    const used = (name: string) => opened.api.object(resourceQuotas, { namespace: 'd', name })?.status?.used;
    expect([used('a'), used('b')]).toEqual([{ pods: '7' }, { cpu: '7' }]);
    await opened.dispose();
  });

  it('does not charge dry runs', async () => {
    const opened = await openAdmission(plugin, { seed: (api) => api.seed(resourceQuotas, quota('d', { pods: '1' }, { pods: '0' })) });
    expect(await opened.plugin.validate?.(create(pod('d'), { dryRun: true }))).toEqual({ allowed: true });
    expect(opened.writes()).toBe(0);
    await opened.dispose();
  });
});
