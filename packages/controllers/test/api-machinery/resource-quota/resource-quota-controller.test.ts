import {
  configMaps,
  deviceClasses,
  persistentVolumeClaims,
  pods,
  resourceClaims,
  resourceQuotas,
  secrets,
  services,
} from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import resourceQuota from '@oarlock/controllers/api-machinery/resource-quota/resource-quota-controller';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startControllers, type RunningController } from '../../support/run-controller.ts';

let running: RunningController;
beforeEach(async () => {
  running = await startControllers([{ plugin: resourceQuota }]);
});
afterEach(() => running.stop());

const quota = async (hard: Record<string, string>, more: object = {}) => {
  await running.api.client().create(resourceQuotas, { metadata: { namespace: 'd', name: 'q' }, spec: { hard, ...more } });
  await running.clock.settle();
};
const status = () => running.api.object(resourceQuotas, { namespace: 'd', name: 'q' })?.status;
const pod = (name: string, cpu?: string, more: Partial<NonNullable<Pod['spec']>> = {}): Pod => ({
  metadata: { namespace: 'd', name },
  spec: {
    containers: [{ name: 'c', image: 'x', ...(cpu !== undefined && { resources: { requests: { cpu }, limits: { cpu } } }) }],
    ...more,
  },
});

describe('ResourceQuota', () => {
  it('should create a ResourceQuota and ensure its status is promptly calculated', async () => {
    await quota({ cpu: '1', pods: '5', 'count/deployments.apps': '2' });
    expect(status()).toEqual({
      hard: { cpu: '1', pods: '5', 'count/deployments.apps': '2' },
      used: { cpu: '0', pods: '0', 'count/deployments.apps': '0' },
    });
  });

  it('should create a ResourceQuota and capture the life of a pod', async () => {
    const client = running.api.client();
    await quota({ 'requests.cpu': '2', 'limits.cpu': '2', pods: '5', 'count/pods': '5' });
    await client.create(pods, pod('a', '500m'));
    await client.create(pods, pod('b', '250m'));
    await running.clock.settle();
    expect(status()?.used).toEqual({ 'requests.cpu': '750m', 'limits.cpu': '750m', pods: '2', 'count/pods': '2' });
    await client.update(
      pods,
      { ...(await client.get(pods, { namespace: 'd', name: 'a' })), status: { phase: 'Succeeded' } },
      { subresource: 'status' },
    );
    await running.clock.settle();
    expect(status()?.used).toEqual({ 'requests.cpu': '250m', 'limits.cpu': '250m', pods: '1', 'count/pods': '2' });
    running.api.remove(pods, { namespace: 'd', name: 'a' });
    running.api.remove(pods, { namespace: 'd', name: 'b' });
    await running.clock.settle();
    expect(status()?.used).toEqual({ 'requests.cpu': '0', 'limits.cpu': '0', pods: '0', 'count/pods': '0' });
  });

  it('counts the devices that ResourceClaims request by DeviceClass', async () => {
    const devices = 'gpu.deviceclass.resource.k8s.io/devices';
    await quota({ [devices]: '5', 'count/resourceclaims.resource.k8s.io': '5' });
    const exactly = { deviceClassName: 'gpu', allocationMode: 'ExactCount', count: 2 };
    const claim = { metadata: { namespace: 'd', name: 'c' }, spec: { devices: { requests: [{ name: 'r', exactly }] } } };
    await running.api.client().create(resourceClaims, claim);
    await running.clock.settle();
    expect(status()?.used).toEqual({ [devices]: '2', 'count/resourceclaims.resource.k8s.io': '1' });
  });

  it('counts the devices of a claim as the extended resource of their DeviceClass, unless the pod of the claim is charged for them', async () => {
    const client = running.api.client();
    running.api.seed(deviceClasses, { metadata: { name: 'gpu' }, spec: { extendedResourceName: 'example.com/gpu' } });
    const [extended, implicit] = ['requests.example.com/gpu', 'requests.deviceclass.resource.kubernetes.io/gpu'];
    await quota({ [extended]: '9', [implicit]: '9' });
    const claim = (name: string, count: number) => ({
      metadata: { namespace: 'd', name },
      spec: { devices: { requests: [{ name: 'r', exactly: { deviceClassName: 'gpu', allocationMode: 'ExactCount', count } }] } },
    });
    await client.create(resourceClaims, claim('own', 2));
    const { metadata } = await client.create(pods, {
      metadata: { namespace: 'd', name: 'p' },
      spec: { containers: [{ name: 'c', image: 'x', resources: { requests: { 'example.com/gpu': '3' } } }] },
    });
    await client.create(resourceClaims, {
      ...claim('of-p', 3),
      metadata: {
        namespace: 'd',
        name: 'of-p',
        annotations: { 'resource.kubernetes.io/extended-resource-claim': 'true' },
        ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'p', uid: metadata?.uid ?? '', controller: true }],
      },
    });
    await running.clock.settle();
    expect(status()?.used).toEqual({ [extended]: '5', [implicit]: '5' });
  });

  it('moves the usage of a pod to the scope Terminating when the pod gets a deadline', async () => {
    const client = running.api.client();
    await quota({ pods: '5' }, { scopes: ['Terminating'] });
    await client.create(pods, pod('a'));
    await running.clock.settle();
    expect(status()?.used).toEqual({ pods: '0' });
    await client.patch(pods, { namespace: 'd', name: 'a' }, 'merge', { spec: { activeDeadlineSeconds: 60 } });
    await running.clock.settle();
    expect(status()?.used).toEqual({ pods: '1' });
  });

  it('should create a ResourceQuota and capture the life of a service, a secret, a configMap and a persistent volume claim', async () => {
    const client = running.api.client();
    await quota({
      services: '5',
      'services.nodeports': '5',
      'services.loadbalancers': '5',
      secrets: '5',
      configmaps: '5',
      persistentvolumeclaims: '5',
      'requests.storage': '10Gi',
      'gold.storageclass.storage.k8s.io/requests.storage': '10Gi',
    });
    await client.create(services, {
      metadata: { namespace: 'd', name: 'np' },
      spec: { type: 'NodePort', ports: [{ port: 80 }, { port: 81 }] },
    });
    await client.create(services, {
      metadata: { namespace: 'd', name: 'lb' },
      spec: { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false, ports: [{ port: 80 }] },
    });
    await client.create(secrets, { metadata: { namespace: 'd', name: 's' } });
    await client.create(configMaps, { metadata: { namespace: 'd', name: 'c' } });
    await client.create(configMaps, { metadata: { namespace: 'other', name: 'c' } });
    await client.create(persistentVolumeClaims, {
      metadata: { namespace: 'd', name: 'v' },
      spec: { storageClassName: 'gold', resources: { requests: { storage: '1Gi' } } },
    });
    await running.clock.settle();
    expect(status()?.used).toEqual({
      services: '2',
      'services.nodeports': '2',
      'services.loadbalancers': '1',
      secrets: '1',
      configmaps: '1',
      persistentvolumeclaims: '1',
      'requests.storage': '1Gi',
      'gold.storageclass.storage.k8s.io/requests.storage': '1Gi',
    });
    await client.delete(services, { namespace: 'd', name: 'np' });
    await running.clock.settle();
    expect(status()?.used).toMatchObject({ services: '1', 'services.nodeports': '0' });
  });

  it('should verify ResourceQuota with best effort scope', async () => {
    const client = running.api.client();
    await quota({ pods: '5' }, { scopes: ['BestEffort'] });
    await client.create(pods, pod('best'));
    await client.create(pods, pod('burst', '1'));
    await running.clock.settle();
    expect(status()?.used).toEqual({ pods: '1' });
  });

  it('should verify ResourceQuota with terminating scopes', async () => {
    const client = running.api.client();
    await quota({ pods: '5' }, { scopes: ['Terminating'] });
    await client.create(pods, pod('short', '1', { activeDeadlineSeconds: 3600 }));
    await client.create(pods, pod('long', '1'));
    await running.clock.settle();
    expect(status()?.used).toEqual({ pods: '1' });
  });

  it('should be able to update and delete ResourceQuota', async () => {
    const client = running.api.client();
    await quota({ pods: '5' });
    await client.update(resourceQuotas, {
      ...(await client.get(resourceQuotas, { namespace: 'd', name: 'q' })),
      spec: { hard: { cpu: '3' } },
    });
    await running.clock.settle();
    expect(status()).toEqual({ hard: { cpu: '3' }, used: { cpu: '0' } });
    await client.delete(resourceQuotas, { namespace: 'd', name: 'q' });
    await running.clock.settle();
    expect(status()).toBeUndefined();
  });

  it('recalculates usage that admission charged for a failed request', async () => {
    await quota({ pods: '5' });
    const client = running.api.client();
    const held = await client.get(resourceQuotas, { namespace: 'd', name: 'q' });
    await client.update(resourceQuotas, { ...held, status: { hard: { pods: '5' }, used: { pods: '3' } } }, { subresource: 'status' });
    await running.clock.settle();
    expect(status()?.used).toEqual({ pods: '3' });
    await running.clock.advance(301_000);
    expect(status()?.used).toEqual({ pods: '0' });
  });
});
