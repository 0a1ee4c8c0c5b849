import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { networkPolicies, namespaces } from '@oarlock/api/resources';
import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { noTracer } from '@oarlock/kernel/tracing';
import { nft } from '@oarlock/nftables/nft';
import type { Client } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { inNetworkNamespace, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { execa } from 'execa';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NftablesPolicies } from '../src/nftables-policies.ts';

const deny = (name: string): NetworkPolicy => ({
  metadata: { namespace: 'a', name },
  spec: { podSelector: {}, policyTypes: ['Ingress'] },
});

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else
  describe('policies with a delayed watch', () => {
    let api: MemoryApi;
    let client: Client;
    let informers: SharedInformerFactory;
    let policies: NftablesPolicies;
    let hold: Promise<void>;
    let letGo: () => void;

    /** Delays watch events of policies while `held` is set. */
    const lagging = (of: Client): Client => ({
      ...of,
      list: (resource, options) => of.list(resource, options),
      async *watch(resource, options) {
        for await (const events of of.watch(resource, options)) {
          if (resource.resource === networkPolicies.resource) await hold;
          yield events;
        }
      },
    });
    const late = () => {
      hold = new Promise((resolve) => (letGo = resolve));
    };
    const protect = (namespace: string, ip: string) =>
      policies.protect({ namespace, name: 'new', uid: `of-${ip}`, labels: { app: 'new' }, ips: [ip] });
    const guarded = async () => (await execa('nft', ['list', 'map', 'inet', 'oarlock-policy', 'ingress-v4'])).stdout;
    /** Resolves when a later call for another namespace is protected; returns whether `work` resolved before. */
    const over = (work: Promise<void>) => {
      let is = false;
      work.then(
        () => (is = true),
        () => (is = true),
      );
      return async () => {
        await protect('b', '10.1.0.99');
        return is;
      };
    };

    beforeEach(async () => {
      api = memoryApi({ clock: new FakeClock() });
      api.seed(namespaces, ...['a', 'b'].map((name) => ({ metadata: { name } })));
      hold = Promise.resolve();
      client = api.client();
      informers = new SharedInformerFactory({ client: lagging(client), clock: systemClock });
      informers.start();
      policies = new NftablesPolicies({ informers, client, clock: systemClock, log: silentLogger, tracer: noTracer });
      policies.startForNode('here');
      await protect('b', '10.1.0.99');
    });
    afterEach(async () => {
      letGo?.();
      await policies.stop();
      await policies.clear();
      await informers.stop();
      await api.stop();
      await nft('add table inet oarlock-policy\n');
    });

    it('block a later pod until they are in the cache', async () => {
      late();
      await client.create(networkPolicies, deny('closed'));
      const protecting = protect('a', '10.1.0.1');
      const isOver = over(protecting);
      expect(await isOver()).toBe(false);
      letGo();
      await protecting;
      expect(await guarded()).toContain('10.1.0.1 : ');
    });

    it('block a pod until updates and deletions are in the cache', async () => {
      const created = await client.create(networkPolicies, deny('closed'));
      await protect('a', '10.1.0.1');
      late();
      await client.update(networkPolicies, { ...created, spec: { podSelector: { matchLabels: { app: 'old' } } } });
      const changing = protect('a', '10.1.0.2');
      expect(await over(changing)()).toBe(false);
      letGo();
      await changing;
      expect(await guarded()).not.toContain('10.1.0.2');

      await client.create(networkPolicies, deny('another'));
      await protect('a', '10.1.0.3');
      expect(await guarded()).toContain('10.1.0.3 : ');
      late();
      await client.delete(networkPolicies, { namespace: 'a', name: 'another' });
      const going = protect('a', '10.1.0.4');
      expect(await over(going)()).toBe(false);
      letGo();
      await going;
      expect(await guarded()).not.toContain('10.1.0.4');
    });

    it('do not block forever if they were created and deleted unseen', async () => {
      late();
      await client.create(networkPolicies, deny('brief'));
      const protecting = protect('a', '10.1.0.1');
      expect(await over(protecting)()).toBe(false);
      await client.delete(networkPolicies, { namespace: 'a', name: 'brief' });
      await protecting; // lists again
      expect(await guarded()).not.toContain('10.1.0.1');
    });

    it('are listed once for all waiting pods', async () => {
      const before = api.requests.length;
      await Promise.all(Array.from({ length: 50 }, (_, at) => protect('a', `10.1.1.${at}`)));
      const lists = api.requests.slice(before).filter(({ verb, resource }) => verb === 'list' && resource === networkPolicies);
      expect(lists.length).toBeLessThanOrEqual(2);
      expect(lists.length).toBeGreaterThanOrEqual(1);
    });

    it('do not block while the API is unavailable', async () => {
      await client.create(networkPolicies, deny('closed'));
      await protect('a', '10.1.0.1');
      api.failNext({ verb: 'list', resource: networkPolicies }, new Error('connection refused'));
      await protect('a', '10.1.0.2');
      expect(await guarded()).toContain('10.1.0.2 : ');
    });
  });
