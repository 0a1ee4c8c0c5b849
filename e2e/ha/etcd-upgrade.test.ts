import { copyFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { componentMissing } from '../harness/component-availability.ts';
import { etcdOtherThan34, nextEtcd, nextEtcdMissing } from '../harness/etcd.ts';
import { Machine, everythingIsNeeded } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import { seed, seeded } from '../harness/random.ts';
import { untilValue } from '../harness/until.ts';
import { checkHistory } from './checker/check-history.ts';
import { HistoryRecorder } from './support/history-recorder.ts';
import { serverMachines, type ServerMachine } from './support/server-machines.ts';

const missing = componentMissing.etcd() ?? nextEtcdMissing() ?? (await netnsMissing());
/** A skip also where everything is needed: a later release of Debian. */
const otherEtcd = etcdOtherThan34();

interface Listed {
  readonly name: string;
  readonly ready: boolean;
  readonly member?: { readonly role: string; readonly version: string };
}

describe.skipIf(otherEtcd !== undefined || (missing !== undefined && !everythingIsNeeded))(
  `an upgrade of three managed etcd members by a minor version${(otherEtcd ?? missing) === undefined ? '' : ` (skipped: ${otherEtcd ?? missing})`}`,
  () => {
    const machine = Machine.use();
    let machines: readonly ServerMachine[];
    let recorder: HistoryRecorder;
    let steps = 0;
    const at = (index: number): ServerMachine => {
      const found = machines[index];
      if (found === undefined) throw new Error(`there is no machine ${index}`);
      return found;
    };
    const untilWritten = (what: string) => {
      steps += 1;
      return recorder.untilWritten(what);
    };
    /** Waits until all servers are ready, with voting members. Returns the minor versions of the members by server. */
    const untilComplete = async (from: ServerMachine) => {
      const servers = await untilValue(
        'three servers with members',
        async () => (JSON.parse(await from.oarlock('server', 'list', '-o', 'json')) as { readonly servers: readonly Listed[] }).servers,
        (listed) => listed.length === 3 && listed.every(({ ready, member }) => ready && /^(?:Leader|Follower)$/.test(member?.role ?? '')),
      );
      return servers.map(({ member }) => member?.version.split('.').slice(0, 2).join('.'));
    };
    /** Ends a server with its member, replaces the program and starts the server again, as an administrator does. */
    const replaceProgram = async (server: ServerMachine, programs: string | undefined) => {
      await server.oarlock('down');
      await server.daemon.exit;
      await untilWritten(`while ${server.name} is down`);
      server.programs = programs;
      await server.start();
      const versions = await untilComplete(server);
      await untilWritten(`after the start of ${server.name}`);
      return versions;
    };

    beforeAll(async () => {
      machines = await serverMachines(machine, ['server-a', 'server-b', 'server-c']);
      await at(0).initManagedEtcd();
      for (const server of machines.slice(1)) await server.join(at(0));
      await at(0).kubectl.run(['create', 'namespace', 'ha']);
      // copies: a machine whose disk is wiped has no kubeconfig for a while
      const kubeconfigs = machines.map(({ name }) => machine.path(name));
      for (const [index, file] of kubeconfigs.entries()) await copyFile(at(index).kubeconfig, file);
      recorder = new HistoryRecorder(kubeconfigs, { namespace: 'ha', random: seeded(seed) });
      await recorder.start(4);
      await untilWritten('by the older version');
    });

    it('rolls back a member while another one has the older version', async () => {
      expect(await untilComplete(at(0))).toEqual(['3.4', '3.4', '3.4']);
      expect(await replaceProgram(at(0), nextEtcd)).toEqual(['3.5', '3.4', '3.4']);
      expect(await replaceProgram(at(0), undefined)).toEqual(['3.4', '3.4', '3.4']);
    });

    it('accepts a joining member of either version while both are in use', async () => {
      expect(await replaceProgram(at(0), nextEtcd)).toEqual(['3.5', '3.4', '3.4']);
      for (const programs of [undefined, nextEtcd]) {
        await at(2).kill9();
        await at(2).wipe();
        at(2).programs = programs;
        await at(2).join(at(0));
        await untilComplete(at(2));
        await untilWritten('after a join');
      }
    });

    it('restarts members with the newer version one at a time, and loses no write', async () => {
      expect(await replaceProgram(at(1), nextEtcd)).toEqual(['3.5', '3.5', '3.5']);
      const { lost, violations, ...counts } = checkHistory(await recorder.finish());
      console.log(JSON.stringify({ ...counts, steps, lost: lost.length, violations: violations.length }));
      expect(lost).toEqual([]);
      expect(violations.slice(0, 20)).toEqual([]);
    });

    it('rejects the older version afterward, of a member and of a joining one, which is accepted with the newer version', async () => {
      const olderProgram =
        /the etcd program is older than the version that the members of the cluster have agreed on: install the version that `oarlock server list` shows/;
      await at(2).oarlock('down');
      at(2).programs = undefined;
      const restarted = at(2).launch();
      expect(await restarted.exit).not.toBe(0);
      expect(restarted.output).toMatch(olderProgram);
      await at(2).wipe();
      await expect(at(2).join(at(0))).rejects.toThrow(olderProgram);
      at(2).programs = nextEtcd;
      await at(2).start();
      expect(await untilComplete(at(0))).toEqual(['3.5', '3.5', '3.5']);
    });
  },
);
