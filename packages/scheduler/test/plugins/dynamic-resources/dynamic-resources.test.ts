import { formatTime } from '@oarlock/api/values/time';
import { deviceClasses, pods, resourceClaims, resourceSlices } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import type { Pod, PodSpec } from '@oarlock/api/types/core-v1';
import type { Device, DeviceClaim, ResourceClaim } from '@oarlock/api/types/resource-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { node, pod, testScheduler } from '../../support/test-scheduler.ts';
import { driver, gpuClass, slice, gpu, claim, one, where, using } from '../../support/devices.ts';

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

describe('allocation', () => {
  it('allocates the requested devices, and reserves the claim for the pod', async () => {
    w.seedNodes(node('a'), node('b'));
    w.api.seed(resourceSlices, slice('b', [gpu('g0'), gpu('g1', 'large')]));
    await w.start();
    await ask('p', {
      requests: [
        one(where(`device.attributes["${driver}"].model == "large" && device.capacity["${driver}"].memory.isGreaterThan(quantity("1Gi"))`)),
      ],
      config: [{ opaque: { driver, parameters: { a: 1 } } }],
    });
    expect(w.placeOf('p')).toBe('b');
    expect(claimOf('p')).toMatchObject({
      metadata: { finalizers: ['resource.kubernetes.io/delete-protection'] },
      status: {
        allocation: {
          devices: {
            results: [{ request: 'r', driver, pool: 'b', device: 'g1' }],
            config: [{ source: 'FromClaim', opaque: { driver, parameters: { a: 1 } } }],
          },
          nodeSelector: { nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['b'] }] }] },
          allocationTimestamp: formatTime(w.clock.now()),
        },
        reservedFor: [{ resource: 'pods', name: 'p', uid: w.podOf('p')?.metadata?.uid }],
      },
    });
  });

  it('never allocates a device twice, also for concurrent pods, and reuses it after deallocation', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0'), gpu('g1')]));
    w.api.seed(resourceClaims, ...['p', 'q', 'r'].map((name) => claim(name, { requests: [one()] })));
    await w.start();
    await w.submit(...['p', 'q', 'r'].map((name) => pod(name, using(name))));
    expect([...(allocatedDevices('p') ?? []), ...(allocatedDevices('q') ?? [])].sort()).toEqual(['g0', 'g1']);
    expect(w.whyNot('r')).toBe(
      '0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.',
    );
    // as the claim controller does
    const { status: _gone, ...left } = claimOf('p') ?? claim('p', {});
    await w.api.client().update(resourceClaims, { ...left, status: {} }, { subresource: 'status' });
    await w.clock.advance(1100);
    expect(w.placeOf('r')).toBe('a');
  });

  it.each<[string, DeviceClaim, readonly string[] | undefined]>([
    ['ExactCount', { requests: [one({ count: 2 })] }, ['g0', 'g1']],
    [
      'All',
      { requests: [one({ allocationMode: 'All', ...where(`device.attributes["${driver}"].model == "small"`) })] },
      ['g0', 'g1', 'g2'],
    ],
    [
      'devices with the requested capacity',
      { requests: [one({ count: 4, capacity: { requests: { memory: '10Gi' } } })] },
      ['g0', 'g1', 'g2', 'g3'],
    ],
    ['no device without the requested capacity', { requests: [one({ capacity: { requests: { memory: '20Gi' } } })] }, undefined],
    ['no more devices than exist', { requests: [one({ count: 5 })] }, undefined],
    ['a version', { requests: [one(where('device.attributes["driver.example.com"].version.isGreaterThan(semver("2.0.9"))'))] }, ['g0']],
    [
      'no device with an attribute of an unknown domain',
      { requests: [one(where('"x" in device.attributes["other.example.com"]'))] },
      undefined,
    ],
    [
      'matchAttribute within a request',
      { requests: [one({ count: 2 })], constraints: [{ matchAttribute: `${driver}/numa` }] },
      ['g0', 'g2'],
    ],
    [
      'matchAttribute across requests',
      { requests: [one(), one({}, 's'), one({}, 't')], constraints: [{ requests: ['r', 's'], matchAttribute: `${driver}/model` }] },
      ['g0', 'g1', 'g2'],
    ],
    ['distinctAttribute', { requests: [one({ count: 2 })], constraints: [{ distinctAttribute: `${driver}/model` }] }, ['g0', 'g3']],
    [
      'the first available alternative',
      {
        requests: [
          {
            name: 'r',
            firstAvailable: [
              { name: 'huge', deviceClassName: 'gpu', ...where(`device.attributes["${driver}"].model == "huge"`) },
              { name: 'large', deviceClassName: 'gpu', ...where(`device.attributes["${driver}"].model == "large"`) },
            ],
          },
        ],
      },
      ['g3'],
    ],
  ])('gives %s', async (_what, devices, expected) => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0'), gpu('g1'), gpu('g2'), gpu('g3', 'large')]));
    await w.start();
    await ask('p', devices);
    expect(allocatedDevices('p')).toEqual(expected);
    expect(w.placeOf('p')).toBe(expected && 'a');
  });

  it('prefers the node with the best alternative', async () => {
    w.seedNodes(node('a'), node('b'), node('c'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0')]), slice('b', [gpu('g0'), gpu('g1', 'large')]), slice('c', [gpu('g0')]));
    await w.start();
    const model = (name: string) => ({ name, deviceClassName: 'gpu', ...where(`device.attributes["${driver}"].model == "${name}"`) });
    const requests = [{ name: 'r', firstAvailable: [model('large'), model('small')] }];
    for (const name of ['p', 'q']) await ask(name, { requests });
    expect([w.placeOf('p'), allocatedDevices('p')]).toEqual(['b', ['g1']]);
    expect(allocatedDevices('q')).toEqual(['g0']);
    const scores = w.explain(pod('r', using('r'))).map(({ scores: own }) => own?.['DynamicResources']);
    expect(scores.every((each) => each === undefined)).toBe(true);
  });

  const schedulerError = (name: string) => {
    const { reason, message } = w.podOf(name)?.status?.conditions?.find(({ type }) => type === 'PodScheduled') ?? {};
    return reason === 'SchedulerError' ? message : `not an error: ${message}`;
  };

  it('reports the selector that failed, and aborts the attempt', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0')]));
    await w.start();
    await ask('p', { requests: [one(where(`device.attributes["${driver}"].colour == "red"`))] });
    expect(schedulerError('p')).toBe(
      'running "DynamicResources" filter plugin: claim d/p, request r: selector #0: CEL runtime error: no such key: colour',
    );
  });

  it('evaluates selectors only until a free device matches', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0'), { name: 'g1' }]));
    await w.start();
    await ask('p', { requests: [one(where(`device.attributes["${driver}"].model == "small"`))] });
    expect(allocatedDevices('p')).toEqual(['g0']);
  });

  it('rejects a claim for more devices than an allocation can contain', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0')]));
    await w.start();
    await ask('p', { requests: [one({ count: 20 }), one({ count: 13 }, 's')] });
    expect(schedulerError('p')).toContain('claim d/p: number of requested devices 33 exceeds the claim limit of 32');
  });

  it('reports invalid pools if no device can be allocated', async () => {
    w.seedNodes(node('a'), node('b'));
    const pool = { name: 'bad', generation: 1, resourceSliceCount: 2 };
    w.api.seed(resourceSlices, ...['bad-1', 'bad-2'].map((name) => slice(name, [gpu('g0')], { nodeName: 'a', pool })));
    await w.start();
    await ask('p', { requests: [one()] });
    expect(w.whyNot('p')).toBe(
      '0/2 nodes are available: 1 cannot allocate all claims, 1 invalid resource pools were encountered. still not schedulable, preemption: ' +
        '0/2 nodes are available: 2 Preemption is not helpful for scheduling.',
    );
    await ask('q', { requests: [one({ allocationMode: 'All' })] });
    expect(schedulerError('q')).toContain(
      `claim d/q, request r: asks for all devices, but resource pool ${driver}/bad is currently invalid`,
    );
  });

  it('adds the configuration of a DeviceClass once for all requests that use it', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0'), gpu('g1')]));
    await w.start();
    const config = [{ opaque: { driver, parameters: { a: 1 } } }];
    await w.api.client().create(deviceClasses, { ...gpuClass(), metadata: { name: 'set' }, spec: { config } });
    await ask('p', { requests: [one({ deviceClassName: 'set' }), one({ deviceClassName: 'set' }, 's')] });
    expect(claimOf('p')?.status?.allocation?.devices?.config).toEqual([{ source: 'FromClass', requests: ['r', 's'], ...config[0] }]);
  });

  it('avoids devices with untolerated taints', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0', 'small', { taints: [{ key: 'sick', effect: 'NoExecute' }] })]));
    await w.start();
    await ask('p', { requests: [one()] });
    expect(w.placeOf('p')).toBeUndefined();
    await ask('q', { requests: [one({ tolerations: [{ key: 'sick', operator: 'Exists' }] })] });
    expect(w.placeOf('q')).toBe('a');
    expect(claimOf('q')?.status?.allocation?.devices?.results?.[0]?.tolerations).toEqual([{ key: 'sick', operator: 'Exists' }]);
  });

  it('consumes shared counters', async () => {
    w.seedNodes(node('a'));
    const part = (name: string, value: string): Device =>
      gpu(name, 'part', { consumesCounters: [{ counterSet: 'card', counters: { memory: { value } } }] });
    const pool = { name: 'a', generation: 1, resourceSliceCount: 2 };
    w.api.seed(
      resourceSlices,
      slice('a', [part('g0', '30Gi'), part('g1', '20Gi'), part('g2', '10Gi')], { nodeName: 'a', pool }),
      slice('a-counters', [], { nodeName: 'a', pool, sharedCounters: [{ name: 'card', counters: { memory: { value: '40Gi' } } }] }),
    );
    await w.start();
    await ask('p', { requests: [one()] });
    await ask('q', { requests: [one()] });
    await ask('r', { requests: [one()] });
    expect([allocatedDevices('p'), allocatedDevices('q'), allocatedDevices('r')]).toEqual([['g0'], ['g2'], undefined]);
  });

  it('grants admin access to allocated devices', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0')]));
    await w.start();
    await ask('p', { requests: [one()] });
    await ask('q', { requests: [one({ adminAccess: true, allocationMode: 'All' })] });
    expect(claimOf('q')?.status?.allocation?.devices?.results).toEqual([
      { request: 'r', driver, pool: 'a', device: 'g0', adminAccess: true },
    ]);
  });

  it('respects the node selector of network devices and the newest generation of a pool', async () => {
    w.seedNodes(node('a', { rack: '1' }), node('b', { rack: '2' }));
    const nodeSelector = { nodeSelectorTerms: [{ matchExpressions: [{ key: 'rack', operator: 'In', values: ['2'] }] }] };
    w.api.seed(
      resourceSlices,
      slice('old', [gpu('g0')], { nodeSelector, pool: { name: 'net', generation: 1, resourceSliceCount: 1 } }),
      slice('new', [gpu('g7')], { nodeSelector, pool: { name: 'net', generation: 2, resourceSliceCount: 1 } }),
    );
    await w.start();
    await ask('p', { requests: [one()] });
    expect([w.placeOf('p'), allocatedDevices('p')]).toEqual(['b', ['g7']]);
    expect(claimOf('p')?.status?.allocation?.nodeSelector).toEqual(nodeSelector);
  });

  it('allocates no device of a pool that its driver is updating, and not all devices of a node with such a pool', async () => {
    w.seedNodes(node('a'));
    w.api.seed(
      resourceSlices,
      slice('a', [gpu('g0')]),
      slice('half', [gpu('g1')], { nodeName: 'a', pool: { name: 'half', generation: 1, resourceSliceCount: 2 } }),
    );
    await w.start();
    await ask('all', { requests: [one({ allocationMode: 'All' })] });
    await ask('p', { requests: [one()] });
    await ask('q', { requests: [one()] });
    expect([allocatedDevices('all'), allocatedDevices('p'), allocatedDevices('q')]).toEqual([undefined, ['g0'], undefined]);
  });
});

describe('claims', () => {
  it('gates pods until their claims exist', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0')]));
    await w.start();
    await w.submit(pod('p', { resourceClaims: [{ name: 'c', resourceClaimTemplateName: 't' }] }), pod('q', using('later')));
    expect(w.scheduler.pendingPods.gated).toBe(2);
    await w.api.client().create(resourceClaims, claim('later', { requests: [one()] }));
    await w.clock.settle();
    expect(w.placeOf('q')).toBe('a');
  });

  it('shares a claim between pods, on the node of its devices', async () => {
    w.seedNodes(node('a'), node('b'), node('c'));
    w.api.seed(resourceSlices, slice('b', [gpu('g0')]));
    w.api.seed(resourceClaims, claim('shared', { requests: [one()] }));
    await w.start();
    await w.submit(pod('p', using('shared')), pod('q', using('shared')));
    await w.clock.advance(1100);
    expect([w.placeOf('p'), w.placeOf('q')]).toEqual(['b', 'b']);
    expect(
      claimOf('shared')
        ?.status?.reservedFor?.map(({ name }) => name)
        .sort(),
    ).toEqual(['p', 'q']);
  });

  it('deallocates an unused claim that makes the pod unschedulable', async () => {
    w.seedNodes(node('a'), node('b'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0')]), slice('b', [gpu('g1')]));
    const elsewhere: ResourceClaim = {
      ...claim('c', { requests: [one()] }),
      status: {
        allocation: {
          devices: { results: [{ request: 'r', driver, pool: 'a', device: 'g0' }] },
          nodeSelector: { nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['a'] }] }] },
        },
      },
    };
    w.api.seed(resourceClaims, elsewhere);
    await w.start();
    await w.submit(pod('p', { ...using('c'), nodeSelector: { 'kubernetes.io/hostname': 'b' } }));
    await w.clock.advance(1100);
    expect([w.placeOf('p'), allocatedDevices('c')]).toEqual(['b', ['g1']]);
  });

  it('reports a missing device class', async () => {
    w.seedNodes(node('a'));
    await w.start();
    await ask('p', { requests: [one({ deviceClassName: 'tpu' })] });
    expect(w.whyNot('p')).toContain('0/1 nodes are available: request r: device class tpu does not exist.');
    w.api.seed(resourceSlices, slice('a', [gpu('g0')]));
    await w.api.client().create(deviceClasses, { ...gpuClass(), metadata: { name: 'tpu' } });
    await w.clock.advance(1100);
    expect(w.placeOf('p')).toBe('a');
  });

  it('deallocates devices after a failed binding', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0')]));
    w.api.seed(resourceClaims, claim('p', { requests: [one()] }), claim('q', { requests: [one()] }));
    await w.start();
    w.api.failNext({ verb: 'update', resource: resourceClaims, subresource: 'status' }, failure('InternalError', 'boom'));
    await w.submit(pod('p', using('p')));
    expect(w.podOf('p')?.status?.conditions?.[0]).toMatchObject({
      reason: 'SchedulerError',
      message: 'running PreBind plugin "DynamicResources": add allocation and reservation to claim d/p: boom',
    });
    await w.submit(pod('q', using('q')));
    expect(allocatedDevices('q')).toEqual(['g0']);
  });

  it('deallocates devices that do not become ready in time', async () => {
    w.seedNodes(node('a'));
    w.api.seed(resourceSlices, slice('a', [gpu('g0', 'small', { bindingConditions: ['Ready'], bindingFailureConditions: ['Broken'] })]));
    await w.start();
    await ask('p', { requests: [one()] });
    await w.clock.advance(600_000);
    expect(w.whyNot('p')).toBe('running PreBind plugin "DynamicResources": device binding timeout');
    await w.clock.advance(2100);
    expect(w.told.map(({ message }) => message)).toContainEqual(expect.stringContaining('deallocation of ResourceClaim completed'));
  });

  it('waits for binding conditions, and deallocates the devices after a failure', async () => {
    w.seedNodes(node('a'));
    const late = { bindingConditions: ['Ready'], bindingFailureConditions: ['Broken'] };
    w.api.seed(resourceSlices, slice('a', [gpu('g0', 'small', late), gpu('g1', 'small', late)]));
    await w.start();
    await ask('p', { requests: [one()] });
    expect([allocatedDevices('p'), w.placeOf('p')]).toEqual([['g0'], undefined]);
    const report = async (device: string, type: string) => {
      const { status = {}, ...rest } = claimOf('p') ?? claim('p', {});
      const conditions = [{ type, status: 'True', reason: 'x', message: 'gone', lastTransitionTime: '2026-01-01T00:00:00Z' }];
      await w.api
        .client()
        .update(
          resourceClaims,
          { ...rest, status: { ...status, devices: [{ driver, pool: 'a', device, conditions }] } },
          { subresource: 'status' },
        );
      await w.clock.settle();
    };
    await report('g0', 'Broken');
    expect(w.podOf('p')?.status?.conditions?.[0]).toMatchObject({
      reason: 'SchedulerError',
      message: 'running PreBind plugin "DynamicResources": claim p binding failed: reason=x, message="gone"',
    });
    await w.clock.advance(1100);
    expect(w.told).toContainEqual({
      about: 'p',
      type: 'Warning',
      reason: 'FailedScheduling',
      message: expect.stringMatching(
        /^0\/1 nodes are available: 1 resourceclaim not available on the node\. deallocation of ResourceClaim completed,/,
      ),
    });
    expect(w.told.filter(({ reason }) => reason === 'BindingConditionsPending')).toEqual(
      Array(2).fill({
        about: 'p',
        type: 'Normal',
        reason: 'BindingConditionsPending',
        message: 'waiting for binding conditions for device on node a',
      }),
    );
    await report(allocatedDevices('p')?.[0] ?? '', 'Ready');
    expect(w.placeOf('p')).toBe('a');
  });
});

it('cleans up after a pod that is deleted while it waits', async () => {
  w.seedNodes(node('a'));
  await w.start();
  await w.submit(pod('p', using('none')));
  await w.api.client().delete(pods, { namespace: 'd', name: 'p' }, { gracePeriodSeconds: 0 });
  await w.clock.settle();
  expect(w.scheduler.pendingPods).toEqual({ active: 0, backoff: 0, unschedulable: 0, gated: 0 });
  expect(w.podOf('p') satisfies Pod | undefined).toBeUndefined();
});
