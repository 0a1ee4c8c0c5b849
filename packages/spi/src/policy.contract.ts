import { namespaces, networkPolicies, pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { NetworkPolicySpec } from '@oarlock/api/types/networking-v1';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Client } from './client.ts';
import type { NetworkPolicies } from './policy.ts';
import { caseDoors, caseEnds, caseNamespaces, policyCases, type CaseDoor, type CaseEnd } from './policy.contract.cases.ts';

export type PacketFamily = 4 | 6;
export interface Packet {
  readonly from: string;
  readonly to: string;
  readonly family: PacketFamily;
  readonly door: CaseDoor;
}

/** A connection that lives on. */
export interface Conversation {
  /** Says something and tells whether it came back. */
  echo(): Promise<boolean>;
  close(): Promise<void>;
}

export interface PolicyWorld {
  readonly policies: NetworkPolicies;
  /** Another process on the same node, as after a kill. The first one is not used any more. */
  restart(): Promise<NetworkPolicies>;
  readonly nodeName: string;
  /** Of a second node, named `elsewhere`, which has the ends that are not on the first. Absent: nobody holds them to anything. */
  readonly elsewhere?: NetworkPolicies;
  /** Of the API that the plugin follows. */
  readonly client: Client;
  /** Resolves when everything written has been told to the plugin. */
  settle(): Promise<void>;
  readonly families: readonly PacketFamily[];
  address(end: string, family: PacketFamily): string;
  /** Sends the first packet of a connection for each; tells for each whether it left the node towards its destination. */
  send(packets: readonly Packet[]): Promise<readonly boolean[]>;
  converse(packet: Packet): Promise<Conversation>;
  /** How many things of each kind the kernel holds. */
  census(): Promise<Readonly<Record<string, number>>>;
  dispose(): Promise<void>;
}

const nodeOf = (end: CaseEnd, nodeName: string) => (end.local ? nodeName : 'elsewhere');

/** What every filling of the slot `policy` does, tried with real packets between all ends of a table of cases. */
export function policyContract(name: string, make: () => Promise<PolicyWorld>): void {
  describe(`policy contract: ${name}`, () => {
    let world: PolicyWorld;
    let policies: NetworkPolicies;
    const places = caseEnds.filter(({ outside }) => outside !== true);

    const podOf = (end: CaseEnd, more: Partial<Pod['status']> = {}): Pod => ({
      metadata: { namespace: end.namespace, name: end.key.split('/')[1] ?? '', labels: end.labels },
      spec: { nodeName: nodeOf(end, world.nodeName), containers: [{ name: 'main', image: 'none', ports: end.ports }] },
      status: { phase: 'Running', podIPs: world.families.map((family) => ({ ip: world.address(end.key, family) })), ...more },
    });
    const put = async (pod: Pod) => {
      const made = await world.client.create(pods, pod);
      await world.client.update(pods, { ...made, status: pod.status ?? {} }, { subresource: 'status' });
    };
    /** With a second node, all pods are held to their policies. */
    const ends = () => (world.elsewhere === undefined ? caseEnds : caseEnds.map((end) => ({ ...end, local: end.outside !== true })));
    const inForce = async () => {
      await world.settle();
      await holdsOn(
        policies,
        places.find(({ local }) => local),
      );
      if (world.elsewhere !== undefined)
        await holdsOn(
          world.elsewhere,
          places.find(({ local }) => !local),
        );
    };
    const holdsOn = async (node: NetworkPolicies, end: CaseEnd | undefined) => {
      if (end === undefined) throw new Error('there are no pods');
      const pod = await world.client.get(pods, { namespace: end.namespace, name: end.key.split('/')[1] ?? '' });
      await node.protect({
        namespace: end.namespace,
        name: pod.metadata?.name ?? '',
        uid: pod.metadata?.uid ?? '',
        labels: end.labels,
        ips: world.families.map((family) => world.address(end.key, family)),
      });
    };
    const set = async (specs: Readonly<Record<string, NetworkPolicySpec>>) => {
      for (const [key, spec] of Object.entries(specs)) {
        const [namespace = '', policy = ''] = key.split('/');
        await world.client.create(networkPolicies, { metadata: { namespace, name: policy }, spec });
      }
      await inForce();
    };
    const clear = async () => {
      for (const { metadata } of (await world.client.list(networkPolicies)).items)
        await world.client.delete(networkPolicies, { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '' });
      await inForce();
    };
    const packet = (from: string, to: string, door: CaseDoor = { protocol: 'TCP', port: 8080 }): Packet => ({ from, to, door, family: 4 });

    beforeAll(async () => {
      world = await make();
      policies = world.policies;
      for (const [namespace, labels] of Object.entries(caseNamespaces))
        await world.client.create(namespaces, { metadata: { name: namespace, labels } });
      policies.guard(world.nodeName);
      world.elsewhere?.guard('elsewhere');
      for (const end of places) await put(podOf(end));
      await inForce();
    });
    afterAll(() => world.dispose());

    describe('who reaches whom', () => {
      for (const { title, policies: specs, passes } of policyCases) {
        it(title, async () => {
          for (const family of world.families) {
            const everywhere = family === 4 ? '0.0.0.0/0' : '::/0';
            await set(specs((end) => `${world.address(end, family)}/${family === 4 ? 32 : 128}`, everywhere));
            const tried = ends().flatMap((from) =>
              ends()
                .filter((to) => to.key !== from.key && (from.local || to.local))
                .flatMap((to) => caseDoors.map((door) => ({ from, to, door, family }))),
            );
            const passed = await world.send(tried.map(({ from, to, door }) => ({ from: from.key, to: to.key, door, family })));
            const text = ({ from, to, door }: (typeof tried)[number]) => `${from.key} -> ${to.key} ${door.protocol} ${door.port}`;
            expect(tried.filter((_, at) => passed[at] === true).map(text)).toEqual(
              tried.filter(({ from, to, door }) => passes(from, to, door)).map(text),
            );
            await clear();
          }
        });
      }
    });

    it('lets a pod reach itself whatever its policies say', async () => {
      await set({ 'a/deny': { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } });
      expect(await world.send([packet('a/web', 'a/web'), packet('a/client', 'a/web')])).toEqual([true, false]);
      await clear();
    });

    it('follows the labels of pods and of namespaces, pods that go and policies that change', async () => {
      const spec = (app: string): NetworkPolicySpec => ({
        podSelector: { matchLabels: { app: 'web' } },
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: 'blue' } }, podSelector: { matchLabels: { app } } }] }],
      });
      await set({ 'a/web': spec('client') });
      const tell = () => world.send([packet('b/client', 'a/web'), packet('b/web', 'a/web'), packet('c/far', 'a/web')]);
      expect(await tell()).toEqual([true, false, true]);

      await world.client.patch(pods, { namespace: 'b', name: 'client' }, 'merge', { metadata: { labels: { app: 'other' } } });
      await inForce();
      expect(await tell()).toEqual([false, false, true]);

      await world.client.patch(namespaces, { name: 'c' }, 'merge', { metadata: { labels: { team: 'green' } } });
      await inForce();
      expect(await tell()).toEqual([false, false, false]);

      await world.client.patch(namespaces, { name: 'c' }, 'merge', { metadata: { labels: { team: 'blue' } } });
      await world.client.patch(networkPolicies, { namespace: 'a', name: 'web' }, 'merge', { spec: spec('web') });
      await inForce();
      expect(await tell()).toEqual([false, true, false]);

      await world.client.delete(pods, { namespace: 'b', name: 'web' }, { gracePeriodSeconds: 0 });
      await inForce();
      expect(await tell()).toEqual([false, false, false]);

      await world.client.patch(pods, { namespace: 'b', name: 'client' }, 'merge', { metadata: { labels: { app: 'client' } } });
      for (const end of places.filter(({ key }) => key === 'b/web')) await put(podOf(end));
      await clear();
      expect(await tell()).toEqual([true, true, true]);
    });

    it('holds a pod to its policies before its status shows an address', async () => {
      await set({ 'a/deny': { podSelector: { matchLabels: { app: 'new' } }, policyTypes: ['Ingress', 'Egress'] } });
      await world.client.delete(pods, { namespace: 'b', name: 'web' }, { gracePeriodSeconds: 0 });
      await world.settle();
      const ips = world.families.map((family) => world.address('b/web', family));
      await policies.protect({ namespace: 'a', name: 'new', uid: 'of-a-new-pod', labels: { app: 'new' }, ips });
      expect(await world.send([packet('a/client', 'b/web'), packet('b/web', 'a/client')])).toEqual([false, false]);
      // the next pod with the address is another one
      await policies.protect({ namespace: 'b', name: 'newer', uid: 'of-a-newer-pod', labels: {}, ips });
      expect(await world.send([packet('a/client', 'b/web'), packet('b/web', 'a/client')])).toEqual([true, true]);
      await clear();
      for (const end of places.filter(({ key }) => key === 'b/web')) await put(podOf(end));
    });

    it('leaves pods alone that share the network of their node, and pods that are over', async () => {
      await set({ 'a/deny': { podSelector: {}, policyTypes: ['Ingress'] } });
      const [web] = places.filter(({ key }) => key === 'a/web');
      if (web === undefined) throw new Error('there is no a/web');
      const over = await world.client.get(pods, { namespace: 'a', name: 'client' });
      await world.client.update(pods, { ...over, status: { ...over.status, phase: 'Succeeded' } }, { subresource: 'status' });
      await inForce();
      expect(await world.send([packet('b/web', 'a/client'), packet('b/web', 'a/web')])).toEqual([true, false]);
      const again = await world.client.get(pods, { namespace: 'a', name: 'client' });
      await world.client.update(pods, { ...again, status: { ...again.status, phase: 'Running' } }, { subresource: 'status' });
      await clear();
    });

    it('does not cut a connection that is established', async () => {
      const conversation = await world.converse(packet('a/client', 'a/web'));
      try {
        expect(await conversation.echo()).toBe(true);
        await set({ 'a/deny': { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } });
        expect(await world.send([packet('a/client', 'a/web')])).toEqual([false]);
        expect(await conversation.echo()).toBe(true);
      } finally {
        await conversation.close();
      }
      await clear();
    });

    it('opens no window while a policy that denies becomes another that denies', async () => {
      const denying = (n: number): NetworkPolicySpec => ({
        podSelector: { matchLabels: { app: 'web' } },
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ podSelector: { matchLabels: { round: `${n}` } } }], ports: [{ port: 1000 + n }] }],
      });
      await set({ 'a/web': denying(0) });
      let through = 0;
      for (let n = 1; n <= 20; n++) {
        await world.client.patch(networkPolicies, { namespace: 'a', name: 'web' }, 'merge', { spec: denying(n) });
        const [sent] = await Promise.all([world.send(Array.from({ length: 5 }, () => packet('a/client', 'a/web'))), inForce()]);
        through += sent.filter(Boolean).length;
      }
      expect(through).toBe(0);
      await clear();
    });

    it('keeps what is in force while the process is away, and leaves nothing behind', async () => {
      const before = await world.census();
      await set({
        'a/web': {
          podSelector: { matchLabels: { app: 'web' } },
          policyTypes: ['Ingress', 'Egress'],
          ingress: [{ from: [{ podSelector: { matchLabels: { app: 'db' } } }], ports: [{ port: 'http' }] }],
        },
      });
      const tell = () => world.send([packet('a/db', 'a/web'), packet('a/client', 'a/web')]);
      expect(await tell()).toEqual([true, false]);
      policies = await world.restart();
      expect(await tell()).toEqual([true, false]);
      policies.guard(world.nodeName);
      await inForce();
      expect(await tell()).toEqual([true, false]);
      await clear();
      expect(await tell()).toEqual([true, true]);
      expect(await world.census()).toEqual(before);
    });
  });
}
