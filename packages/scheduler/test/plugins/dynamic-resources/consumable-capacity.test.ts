import { deviceClasses, resourceClaims, resourceSlices } from '@oarlock/api/resources';
import type { PodSpec } from '@oarlock/api/types/core-v1';
import type { CapacityRequestPolicy, Device, DeviceClaim, DeviceRequest } from '@oarlock/api/types/resource-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../../support/test-scheduler.ts';
import { driver, gpuClass, slice, claim, one, using } from '../../support/devices.ts';

let w: ReturnType<typeof testScheduler>;
beforeEach(() => {
  w = testScheduler();
  w.api.seed(deviceClasses, gpuClass());
});
afterEach(() => w.stop());
const claimOf = (name: string) => w.api.object(resourceClaims, { namespace: 'd', name });
const allocatedDevices = (name: string) => claimOf(name)?.status?.allocation?.devices?.results?.map(({ device }) => device);
async function ask(name: string, devices: DeviceClaim, spec: Partial<PodSpec> = {}): Promise<void> {
  await w.api.client().create(resourceClaims, claim(name, devices));
  await w.submit(pod(name, { ...using(name), ...spec }));
}

describe('devices with consumable capacity', () => {
  const nic = (name: string, bandwidth: string, requestPolicy?: CapacityRequestPolicy): Device => ({
    name,
    allowMultipleAllocations: true,
    capacity: { bandwidth: { value: bandwidth, ...(requestPolicy && { requestPolicy }) } },
  });
  const wants = (bandwidth?: string, more: Partial<NonNullable<DeviceRequest['exactly']>> = {}): DeviceClaim => ({
    requests: [one({ ...more, ...(bandwidth !== undefined && { capacity: { requests: { bandwidth } } }) })],
  });
  const results = (name: string) => claimOf(name)?.status?.allocation?.devices?.results ?? [];
  const consumed = (name: string) => results(name).map(({ consumedCapacity }) => consumedCapacity?.['bandwidth']);

  it('are shared until their capacity is consumed, and again after a share is released', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [nic('n0', '10G')]));
    await w.start();
    for (const name of ['p', 'q', 'r']) await ask(name, wants('4G'));
    expect([allocatedDevices('p'), allocatedDevices('q'), allocatedDevices('r')]).toEqual([['n0'], ['n0'], undefined]);
    expect([consumed('p'), consumed('q')]).toEqual([['4G'], ['4G']]);
    const ids = [...results('p'), ...results('q')].map(({ shareID }) => shareID);
    expect(new Set(ids).size).toBe(2);
    expect(ids.every((id) => /^[0-9a-f-]{36}$/.test(id ?? ''))).toBe(true);
    // the remaining capacity suffices for a smaller request
    await ask('s', wants('2G'));
    expect(allocatedDevices('s')).toEqual(['n0']);
    const { status: _gone, ...left } = claimOf('p') ?? claim('p', {});
    await w.api.client().update(resourceClaims, { ...left, status: {} }, { subresource: 'status' });
    await w.clock.advance(1100);
    expect(allocatedDevices('r')).toEqual(['n0']);
  });

  it('are recovered after a restart of the scheduler, and a share is allocated once to concurrent pods', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [nic('n0', '10G')]));
    const had = claim('had', wants('7G'));
    w.api.seed(resourceClaims, {
      ...had,
      status: {
        allocation: {
          devices: { results: [{ request: 'r', driver, pool: 'a', device: 'n0', shareID: 'x', consumedCapacity: { bandwidth: '7G' } }] },
        },
      },
    });
    w.api.seed(resourceClaims, ...['p', 'q'].map((name) => claim(name, wants('3G'))));
    await w.start();
    await w.submit(...['p', 'q'].map((name) => pod(name, using(name))));
    expect([allocatedDevices('p'), allocatedDevices('q')].filter((each) => each !== undefined)).toEqual([['n0']]);
  });

  it('provide several shares to one claim, of several devices if one does not suffice', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [nic('n0', '10G'), nic('n1', '10G')]));
    await w.start();
    await ask('p', wants('4G', { count: 3 }));
    expect(allocatedDevices('p')).toEqual(['n0', 'n0', 'n1']);
    await ask('q', { ...wants('1G', { count: 2 }), constraints: [{ distinctAttribute: `${driver}/none` }] });
    expect(allocatedDevices('q')).toBeUndefined();
  });

  const range = { default: '1G', validRange: { min: '1G', max: '8G', step: '2G' } };
  const values = { default: '2G', validValues: ['2G', '5G'] };
  it.each<[string, CapacityRequestPolicy | undefined, string | undefined, string | undefined]>([
    ['all of it without a request', undefined, undefined, '10G'],
    ['the request without a policy', undefined, '1500M', '1500M'],
    ['the default of the policy', values, undefined, '2G'],
    ['the next valid value', values, '3G', '5G'],
    ['nothing above the valid values', values, '6G', undefined],
    ['the minimum of the range', range, '10M', '1G'],
    ['whole steps from the minimum', range, '3500M', '5G'],
    ['nothing above the range', range, '7500M', undefined],
    ['nothing above the capacity', undefined, '11G', undefined],
  ])('give %s', async (_what, policy, asked, gets) => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [nic('n0', '10G', policy)]));
    await w.start();
    await ask('p', wants(asked));
    expect(consumed('p')).toEqual(gets === undefined ? [] : [gets]);
  });
});
