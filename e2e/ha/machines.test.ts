import { beforeAll, describe, expect, it } from 'vitest';
import type { Item } from '../harness/api.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { Machine, everythingIsNeeded } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import { seed, seeded } from '../harness/random.ts';
import { until, untilValue } from '../harness/until.ts';
import { checkHistory } from './checker/check-history.ts';
import { HistoryRecorder } from './support/history-recorder.ts';
import { machineFaultsOf } from './support/machine-faults.ts';
import { watchEtcd } from './support/etcd-watch.ts';
import { membersOf, serverMachines, type ServerMachine } from './support/server-machines.ts';

const missing = componentMissing.etcd() ?? (await netnsMissing());
/** Number of faults; the default takes each of the first three once. */
const roundCount = Number(process.env['OARLOCK_ROUNDS'] ?? 3);
const writers = 4;
const configMaps = '/api/v1/namespaces/default/configmaps';
/** The limit for the failover of requests, in milliseconds: twelve times the five seconds of an idle machine, because test machines are busy. */
const failoverLimitMs = 60_000;

interface ServerList {
  readonly servers: readonly { readonly name: string; readonly ready: boolean; readonly member?: { readonly role: string } }[];
}

describe.skipIf(missing !== undefined && !everythingIsNeeded)(
  `three machines with managed etcd${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    const machine = Machine.use();
    let machines: readonly ServerMachine[];
    const at = (index: number): ServerMachine => {
      const found = machines[index];
      if (found === undefined) throw new Error(`there is no machine ${index}`);
      return found;
    };
    const serversOf = async (from: ServerMachine) => (JSON.parse(await from.oarlock('server', 'list', '-o', 'json')) as ServerList).servers;
    /** Waits until every server is ready and has a voting member. */
    const untilComplete = (from: ServerMachine) =>
      untilValue(
        'three servers with members',
        () => serversOf(from),
        (servers) =>
          servers.length === 3 && servers.every(({ ready, member }) => ready && /^(?:Leader|Follower)$/.test(member?.role ?? '')),
      );

    /** Creates ConfigMaps through the first server. Returns the last resourceVersion. */
    const createConfigMaps = async (prefix: string, count: number): Promise<string> => {
      const api = await at(0).api();
      for (let index = 0; index < count; index += 1) {
        const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `${prefix}-${index}` } };
        expect((await api.call('POST', configMaps, { body })).status).toBe(201);
      }
      const { metadata } = await api.get<Item>(configMaps);
      api.close();
      return metadata.resourceVersion ?? '';
    };

    beforeAll(async () => {
      machines = await serverMachines(machine, ['server-a', 'server-b', 'server-c']);
      const [first, ...others] = machines;
      await first?.initManagedEtcd();
      // at the same time: etcd 3.4 accepts one learner after the other
      await Promise.all(others.map((other) => other.join(at(0))));
    });

    it('are one cluster after three commands', async () => {
      const servers = await untilComplete(at(2));
      expect(servers.filter(({ member }) => member?.role === 'Leader')).toHaveLength(1);
      await at(0).kubectl.run(['create', 'configmap', 'shared', '--from-literal=a=b']);
      for (const each of machines) expect(await each.kubectl.run(['get', 'configmap', 'shared', '-o', 'name'])).toBe('configmap/shared\n');
    });

    it('answer soon after a machine was killed, and the machine returns', async () => {
      const leader = (await untilComplete(at(0))).find(({ member }) => member?.role === 'Leader')?.name;
      const killed = machines.find(({ name }) => name === leader) ?? at(0);
      const others = machines.filter((each) => each !== killed);
      const apis = await Promise.all(others.map((each) => each.api()));
      await killed.kill9();
      const killedAt = performance.now();
      for (const [index, api] of apis.entries())
        await until('a write is acknowledged', async () => {
          const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `after-${index}` } };
          const { status } = await api.call('POST', '/api/v1/namespaces/default/configmaps', { body, timeoutMs: 2000 });
          return status === 201 || status === 409;
        });
      const tookMs = performance.now() - killedAt;
      for (const api of apis) api.close();
      console.log(`writes through both other machines after ${Math.round(tookMs)} ms`);
      expect(tookMs).toBeLessThan(failoverLimitMs);
      await killed.start();
      await untilComplete(killed);
    });

    it('keep the member when only the server is killed', async () => {
      const [before] = await at(1).memberPids();
      await at(1).daemon.stop('SIGKILL');
      await at(1).start();
      expect(await at(1).memberPids()).toEqual([before]);
      await untilComplete(at(1));
    });

    it('replace a member whose disk was wiped, with a new join', async () => {
      await at(2).kill9();
      await at(2).wipe();
      await at(2).join(at(0));
      await untilComplete(at(2));
      expect(await at(2).kubectl.run(['get', 'configmap', 'shared', '-o', 'name'])).toBe('configmap/shared\n');
    });

    it('lose no acknowledged write under faults of machines and of their network', { timeout: 24 * 3_600_000 }, async () => {
      const random = seeded(seed);
      await at(0).kubectl.run(['create', 'namespace', 'ha']);
      const recorder = new HistoryRecorder(
        machines.map(({ kubeconfig }) => kubeconfig),
        { namespace: 'ha', random: seeded(seed + 1) },
      );
      const etcdWatch = await watchEtcd(membersOf(machines), 'ha');
      machine.undo('watch of etcd', () => etcdWatch.stop());
      await recorder.start(writers);
      const faults = machineFaultsOf(machines, random);
      const injected: string[] = [];
      for (let round = 0; round < roundCount; round += 1) {
        const fault = faults[round < faults.length ? round : Math.floor(random() * faults.length)];
        if (fault === undefined) throw new Error('no fault');
        const startedAt = performance.now();
        await fault.inject();
        const injectedAt = performance.now();
        await recorder.untilWritten(`after ${fault.name}`);
        const [tookMs, recoveredMs] = [injectedAt - startedAt, performance.now() - injectedAt].map(Math.round);
        injected.push(`${fault.name} (${tookMs} ms, then ${recoveredMs} ms)`);
      }
      const { lost, violations, ...counts } = checkHistory(await recorder.finish(etcdWatch));
      console.log(JSON.stringify({ faults: injected, ...counts, lost: lost.length, violations: violations.length }));
      expect(lost).toEqual([]);
      expect(violations.slice(0, 20).join('\n')).toBe('');
      await untilComplete(at(0));
    });

    it('remove the member together with the server', async () => {
      await at(2).kill9();
      await until('the server is removed', () =>
        at(0)
          .oarlock('server', 'remove', 'server-c')
          .then(() => true),
      );
      expect((await serversOf(at(0))).map(({ name, member }) => [name, member !== undefined])).toEqual([
        ['server-a', true],
        ['server-b', true],
      ]);
    });

    it('restore a snapshot as one member, and after the loss of the others continue with one', async () => {
      await at(0).oarlock('etcd', 'snapshot', 'save', 'before');
      await at(0).kubectl.run(['delete', 'configmap', 'shared']);
      // a reset keeps what the member knows to be committed; an acknowledged write makes every earlier one known to both members
      await at(0).kubectl.run(['create', 'configmap', 'later']);
      await at(1).kill9();
      await at(0).kill9();
      const file = ['-f', at(0).clusterFile];
      expect(await at(0).oarlock('etcd', 'reset', ...file)).toContain('this server is the only member');
      await at(0).start();
      expect((await at(0).kubectl.try(['get', 'configmap', 'shared'])).stderr).toContain('NotFound');
      await at(0).kill9();
      expect(await at(0).oarlock('etcd', 'snapshot', 'restore', 'before', ...file)).toContain('restored before');
      await at(0).start();
      expect(await at(0).kubectl.run(['get', 'configmap', 'shared', '-o', 'name'])).toBe('configmap/shared\n');
      expect((await serversOf(at(0))).find(({ name }) => name === 'server-a')?.member?.role).toBe('Leader');
    });

    it('restore a backup into an empty data directory with a new member', async () => {
      const backup = machine.path('cluster.backup');
      await at(0).oarlock('backup', '-o', backup);
      await at(0).kubectl.run(['delete', 'configmap', 'shared']);
      const last = await createConfigMaps('lost', 100);
      await at(0).kill9();
      await at(0).wipe();
      expect(await at(0).oarlock('restore', '-f', at(0).clusterFile, '-i', backup)).toContain('into storage-etcd');
      await at(0).start('--init');
      expect(await at(0).kubectl.run(['get', 'configmap', 'shared', '-o', 'name'])).toBe('configmap/shared\n');
      // the new cluster writes more than the former one after its backup: it must not reuse the revisions that clients have seen
      await createConfigMaps('new', 300);
      const watch = `${configMaps}?watch=1&timeoutSeconds=5&resourceVersion=${last}`;
      expect(await at(0).kubectl.run(['get', '--raw', watch])).toContain('"code":410');
    });
  },
);
