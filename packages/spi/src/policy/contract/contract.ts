import { namespaces, networkPolicies, pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { NetworkPolicySpec } from '@oarlock/api/types/networking-v1';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Client } from '../../composition/client.ts';
import type { NetworkPolicies } from '../policy.ts';
import { casePorts, casePeers, caseNamespaces, policyCases, type CasePort, type CasePeer } from './cases.ts';

export type PacketFamily = 4 | 6;
export interface Packet {
  readonly from: string;
  readonly to: string;
  readonly family: PacketFamily;
  readonly port: CasePort;
}

/** An open connection. */
export interface Connection {
  /** Sends a message and returns true if it was echoed. */
  echo(): Promise<boolean>;
  close(): Promise<void>;
}

export interface PolicyFixture {
  /** The plugin, not started for a node. */
  readonly policies: NetworkPolicies;
  /** Returns the plugin of a new process on the same node, as after a kill. The previous plugin is not used any more. */
  restart(): Promise<NetworkPolicies>;
  readonly nodeName: string;
  /** The plugin on a second node, named `elsewhere`, for the pods that are not on the first. Absent: those pods are not isolated. */
  readonly otherNode?: NetworkPolicies;
  /** A client of the API that the plugin follows. */
  readonly client: Client;
  /** Resolves when the plugin has received everything written so far. */
  settle(): Promise<void>;
  readonly families: readonly PacketFamily[];
  address(end: string, family: PacketFamily): string;
  /** Sends the first packet of each connection. Returns for each whether it left the node towards its destination. */
  send(packets: readonly Packet[]): Promise<readonly boolean[]>;
  connect(packet: Packet): Promise<Connection>;
  /** Returns the number of kernel objects of each kind. */
  countResources(): Promise<Readonly<Record<string, number>>>;
  dispose(): Promise<void>;
}

const nodeOf = (end: CasePeer, nodeName: string) => (end.local ? nodeName : 'elsewhere');

/** Declares the tests that every NetworkPolicy plugin must pass, with real packets between all peers of a table of cases. */
export function policyContract(name: string, make: () => Promise<PolicyFixture>): void {
  describe(`policy contract: ${name}`, () => {
    let fixture: PolicyFixture;
    let policies: NetworkPolicies;
    const clusterPeers = casePeers.filter(({ outside }) => outside !== true);

    const podOf = (end: CasePeer, more: Partial<Pod['status']> = {}): Pod => ({
      metadata: { namespace: end.namespace, name: end.key.split('/')[1] ?? '', labels: end.labels },
      spec: { nodeName: nodeOf(end, fixture.nodeName), containers: [{ name: 'main', image: 'none', ports: end.ports }] },
      status: { phase: 'Running', podIPs: fixture.families.map((family) => ({ ip: fixture.address(end.key, family) })), ...more },
    });
    const createPod = async (pod: Pod) => {
      const created = await fixture.client.create(pods, pod);
      await fixture.client.update(pods, { ...created, status: pod.status ?? {} }, { subresource: 'status' });
    };
    /** Returns the peers whose isolation is tested: with a second node, the pods of both nodes. */
    const peersUnderTest = () =>
      fixture.otherNode === undefined ? casePeers : casePeers.map((end) => ({ ...end, local: end.outside !== true }));
    const waitUntilEnforced = async () => {
      await fixture.settle();
      await protectOn(
        policies,
        clusterPeers.find(({ local }) => local),
      );
      if (fixture.otherNode !== undefined)
        await protectOn(
          fixture.otherNode,
          clusterPeers.find(({ local }) => !local),
        );
    };
    const protectOn = async (node: NetworkPolicies, end: CasePeer | undefined) => {
      if (end === undefined) throw new Error('there are no pods');
      const pod = await fixture.client.get(pods, { namespace: end.namespace, name: end.key.split('/')[1] ?? '' });
      await node.protect({
        namespace: end.namespace,
        name: pod.metadata?.name ?? '',
        uid: pod.metadata?.uid ?? '',
        labels: end.labels,
        ips: fixture.families.map((family) => fixture.address(end.key, family)),
      });
    };
    const set = async (specs: Readonly<Record<string, NetworkPolicySpec>>) => {
      for (const [key, spec] of Object.entries(specs)) {
        const [namespace = '', policy = ''] = key.split('/');
        await fixture.client.create(networkPolicies, { metadata: { namespace, name: policy }, spec });
      }
      await waitUntilEnforced();
    };
    const clear = async () => {
      for (const { metadata } of (await fixture.client.list(networkPolicies)).items)
        await fixture.client.delete(networkPolicies, { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '' });
      await waitUntilEnforced();
    };
    const packet = (from: string, to: string, target: CasePort = { protocol: 'TCP', port: 8080 }): Packet => ({
      from,
      to,
      port: target,
      family: 4,
    });

    beforeAll(async () => {
      fixture = await make();
      policies = fixture.policies;
      for (const [namespace, labels] of Object.entries(caseNamespaces))
        await fixture.client.create(namespaces, { metadata: { name: namespace, labels } });
      policies.startForNode(fixture.nodeName);
      fixture.otherNode?.startForNode('elsewhere');
      for (const end of clusterPeers) await createPod(podOf(end));
      await waitUntilEnforced();
    });
    afterAll(() => fixture.dispose());

    describe('allowed connections', () => {
      for (const { title, policies: specs, isAllowed: passes } of policyCases) {
        it(title, async () => {
          for (const family of fixture.families) {
            const everywhere = family === 4 ? '0.0.0.0/0' : '::/0';
            await set(specs((end) => `${fixture.address(end, family)}/${family === 4 ? 32 : 128}`, everywhere));
            const tried = peersUnderTest().flatMap((from) =>
              peersUnderTest()
                .filter((to) => to.key !== from.key && (from.local || to.local))
                .flatMap((to) => casePorts.map((target) => ({ from, to, target, family }))),
            );
            const passed = await fixture.send(tried.map(({ from, to, target }) => ({ from: from.key, to: to.key, port: target, family })));
            const text = ({ from, to, target }: (typeof tried)[number]) => `${from.key} -> ${to.key} ${target.protocol} ${target.port}`;
            expect(tried.filter((_, at) => passed[at] === true).map(text)).toEqual(
              tried.filter(({ from, to, target }) => passes(from, to, target)).map(text),
            );
            await clear();
          }
        });
      }
    });

    it('always allows a pod to reach itself', async () => {
      await set({ 'a/deny': { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } });
      expect(await fixture.send([packet('a/web', 'a/web'), packet('a/client', 'a/web')])).toEqual([true, false]);
      await clear();
    });

    it('follows changes of pod labels, namespace labels, policies, and deleted pods', async () => {
      const spec = (app: string): NetworkPolicySpec => ({
        podSelector: { matchLabels: { app: 'web' } },
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: 'blue' } }, podSelector: { matchLabels: { app } } }] }],
      });
      await set({ 'a/web': spec('client') });
      const probe = () => fixture.send([packet('b/client', 'a/web'), packet('b/web', 'a/web'), packet('c/far', 'a/web')]);
      expect(await probe()).toEqual([true, false, true]);

      await fixture.client.patch(pods, { namespace: 'b', name: 'client' }, 'merge', { metadata: { labels: { app: 'other' } } });
      await waitUntilEnforced();
      expect(await probe()).toEqual([false, false, true]);

      await fixture.client.patch(namespaces, { name: 'c' }, 'merge', { metadata: { labels: { team: 'green' } } });
      await waitUntilEnforced();
      expect(await probe()).toEqual([false, false, false]);

      await fixture.client.patch(namespaces, { name: 'c' }, 'merge', { metadata: { labels: { team: 'blue' } } });
      await fixture.client.patch(networkPolicies, { namespace: 'a', name: 'web' }, 'merge', { spec: spec('web') });
      await waitUntilEnforced();
      expect(await probe()).toEqual([false, true, false]);

      await fixture.client.delete(pods, { namespace: 'b', name: 'web' }, { gracePeriodSeconds: 0 });
      await waitUntilEnforced();
      expect(await probe()).toEqual([false, false, false]);

      await fixture.client.patch(pods, { namespace: 'b', name: 'client' }, 'merge', { metadata: { labels: { app: 'client' } } });
      for (const end of clusterPeers.filter(({ key }) => key === 'b/web')) await createPod(podOf(end));
      await clear();
      expect(await probe()).toEqual([true, true, true]);
    });

    it('isolates a pod before its status has an address', async () => {
      await set({ 'a/deny': { podSelector: { matchLabels: { app: 'new' } }, policyTypes: ['Ingress', 'Egress'] } });
      await fixture.client.delete(pods, { namespace: 'b', name: 'web' }, { gracePeriodSeconds: 0 });
      await fixture.settle();
      const ips = fixture.families.map((family) => fixture.address('b/web', family));
      await policies.protect({ namespace: 'a', name: 'new', uid: 'of-a-new-pod', labels: { app: 'new' }, ips });
      expect(await fixture.send([packet('a/client', 'b/web'), packet('b/web', 'a/client')])).toEqual([false, false]);
      // another pod reuses the address
      await policies.protect({ namespace: 'b', name: 'newer', uid: 'of-a-newer-pod', labels: {}, ips });
      expect(await fixture.send([packet('a/client', 'b/web'), packet('b/web', 'a/client')])).toEqual([true, true]);
      await clear();
      for (const end of clusterPeers.filter(({ key }) => key === 'b/web')) await createPod(podOf(end));
    });

    it('ignores terminated pods', async () => {
      await set({ 'a/deny': { podSelector: {}, policyTypes: ['Ingress'] } });
      const [web] = clusterPeers.filter(({ key }) => key === 'a/web');
      if (web === undefined) throw new Error('there is no a/web');
      const over = await fixture.client.get(pods, { namespace: 'a', name: 'client' });
      await fixture.client.update(pods, { ...over, status: { ...over.status, phase: 'Succeeded' } }, { subresource: 'status' });
      await waitUntilEnforced();
      expect(await fixture.send([packet('b/web', 'a/client'), packet('b/web', 'a/web')])).toEqual([true, false]);
      const again = await fixture.client.get(pods, { namespace: 'a', name: 'client' });
      await fixture.client.update(pods, { ...again, status: { ...again.status, phase: 'Running' } }, { subresource: 'status' });
      await clear();
    });

    it('does not cut an established connection', async () => {
      const conversation = await fixture.connect(packet('a/client', 'a/web'));
      try {
        expect(await conversation.echo()).toBe(true);
        await set({ 'a/deny': { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } });
        expect(await fixture.send([packet('a/client', 'a/web')])).toEqual([false]);
        expect(await conversation.echo()).toBe(true);
      } finally {
        await conversation.close();
      }
      await clear();
    });

    it('has no gap when one denying policy replaces another', async () => {
      const denying = (n: number): NetworkPolicySpec => ({
        podSelector: { matchLabels: { app: 'web' } },
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ podSelector: { matchLabels: { round: `${n}` } } }], ports: [{ port: 1000 + n }] }],
      });
      await set({ 'a/web': denying(0) });
      let through = 0;
      for (let n = 1; n <= 20; n++) {
        await fixture.client.patch(networkPolicies, { namespace: 'a', name: 'web' }, 'merge', { spec: denying(n) });
        const [sent] = await Promise.all([fixture.send(Array.from({ length: 5 }, () => packet('a/client', 'a/web'))), waitUntilEnforced()]);
        through += sent.filter(Boolean).length;
      }
      expect(through).toBe(0);
      await clear();
    });

    it('keeps rules in force while the process is down, and leaves nothing behind', async () => {
      const before = await fixture.countResources();
      await set({
        'a/web': {
          podSelector: { matchLabels: { app: 'web' } },
          policyTypes: ['Ingress', 'Egress'],
          ingress: [{ from: [{ podSelector: { matchLabels: { app: 'db' } } }], ports: [{ port: 'http' }] }],
        },
      });
      const probe = () => fixture.send([packet('a/db', 'a/web'), packet('a/client', 'a/web')]);
      expect(await probe()).toEqual([true, false]);
      policies = await fixture.restart();
      expect(await probe()).toEqual([true, false]);
      policies.startForNode(fixture.nodeName);
      await waitUntilEnforced();
      expect(await probe()).toEqual([true, false]);
      await clear();
      expect(await probe()).toEqual([true, true]);
      expect(await fixture.countResources()).toEqual(before);
    });
  });
}
