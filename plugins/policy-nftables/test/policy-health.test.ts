import { namespaces, networkPolicies } from '@oarlock/api/resources';
import { forbidden } from '@oarlock/api/status';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { noTracer } from '@oarlock/kernel/tracing';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NftablesPolicies } from '../src/nftables-policies.ts';

describe('health of NetworkPolicies', () => {
  let clock: FakeClock;
  let api: ReturnType<typeof memoryApi>;
  let informers: SharedInformerFactory;
  let policies: NftablesPolicies;
  beforeEach(() => {
    clock = new FakeClock();
    api = memoryApi({ clock });
    api.seed(namespaces, { metadata: { name: 'a' } });
    informers = new SharedInformerFactory({ client: api.client(), clock });
    // `enter` replaces nft: these tests have no rules in a kernel
    policies = new NftablesPolicies({ informers, client: api.client(), clock, log: silentLogger, tracer: noTracer, enter: ['true'] });
  });
  afterEach(async () => {
    await policies.stop();
    await informers.stop();
  });
  const denied = forbidden(networkPolicies, '', 'User "system:node:n1" cannot list resource "networkpolicies"');
  const pod = { namespace: 'a', name: 'p', uid: 'u', labels: {}, ips: ['10.0.0.9'] };

  it('is unhealthy with the cause while NetworkPolicies may not be listed, and healthy afterwards', async () => {
    let isDenied = true;
    api.failNext(({ resource }) => isDenied && resource === networkPolicies, denied, 1000);
    informers.start();
    policies.startForNode('n1');
    expect(policies.checkHealth()).toEqual({ healthy: false, reason: 'the NetworkPolicies of the cluster have not been listed yet' });
    await clock.advance(2000);
    expect(policies.checkHealth()).toMatchObject({
      healthy: false,
      reason: expect.stringMatching(/^cannot list networkpolicies: .*cannot list resource/),
    });
    const protecting = policies.protect(pod).then(
      () => 'protected',
      (error: Error) => error.message,
    );
    await clock.advance(25_000);
    expect(await protecting).toMatch(/cannot list networkpolicies: .*cannot list resource/);
    isDenied = false;
    await clock.runUntil(() => policies.checkHealth().healthy, { within: 120_000 });
  });

  it('does not start a pod if the permission is withdrawn later, and recovers', async () => {
    informers.start();
    policies.startForNode('n1');
    await clock.runUntil(() => policies.checkHealth().healthy, { within: 10_000 });
    api.failNext(({ resource, verb }) => resource === networkPolicies && verb === 'list', denied, 3);
    await expect(policies.protect(pod)).rejects.toThrow('cannot list resource');
    expect(policies.checkHealth().healthy).toBe(false);
    await clock.runUntil(() => policies.checkHealth().healthy, { within: 60_000 });
  });
});
