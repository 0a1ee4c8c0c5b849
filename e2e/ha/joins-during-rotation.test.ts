import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { componentMissing } from '../harness/component-availability.ts';
import { Machine, everythingIsNeeded } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import { until, untilValue } from '../harness/until.ts';
import { serverMachines, type ServerMachine } from './support/server-machines.ts';

const missing = componentMissing.etcd() ?? (await netnsMissing());
const steps = ['add', 'use', 'end'] as const;
type Step = (typeof steps)[number];

interface Listed {
  readonly name: string;
  readonly ready: boolean;
  readonly member?: { readonly role: string };
}

describe.skipIf(missing !== undefined && !everythingIsNeeded)(
  `joins while CAs are replaced${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    const machine = Machine.use();
    let machines: readonly ServerMachine[];
    const at = (index: number): ServerMachine => {
      const found = machines[index];
      if (found === undefined) throw new Error(`there is no machine ${index}`);
      return found;
    };
    const permanent = () => [at(0), at(1)];
    const [joining, node] = [() => at(2), () => at(3)];

    const authoritiesOf = async ({ dataDir }: ServerMachine, directory: string): Promise<string> => {
      const path = join(dataDir, 'pki', directory);
      const names = (await readdir(path)).filter((name) => /^ca.*\.crt$/.test(name)).sort();
      return (await Promise.all(names.map(async (name) => `${name} ${await readFile(join(path, name), 'utf8')}`))).join('\n');
    };
    const untilComplete = (from: ServerMachine, count: number) =>
      untilValue(
        `${count} servers with members`,
        async () => (JSON.parse(await from.oarlock('server', 'list', '-o', 'json')) as { readonly servers: readonly Listed[] }).servers,
        (listed) =>
          listed.length === count && listed.every(({ ready, member }) => ready && /^(?:Leader|Follower)$/.test(member?.role ?? '')),
      );
    const removeServer = async (server: ServerMachine) => {
      await server.kill9();
      await until('the server is removed', () => at(0).oarlock('server', 'remove', server.name));
      await server.wipe();
    };
    const joinNode = (server: ServerMachine) =>
      node().joinAsNode(server, {
        runtimes: ['runtime-simulated'],
        settings: { kubelet: { address: node().address, port: 10250 } },
      });
    const removeNode = async () => {
      await at(0).oarlock('node', 'remove', node().name, '--timeout', '1');
      await node().kill9();
      await node().wipe();
    };

    beforeAll(async () => {
      machines = await serverMachines(machine, ['server-a', 'server-b', 'server-c', 'node-a']);
      await at(0).initManagedEtcd();
      await at(1).join(at(0));
    });

    it.each(steps)('of a server and a node end while members take the step `etcd-ca %s`', async (step: Step) => {
      const before = await authoritiesOf(at(0), 'etcd');
      const command = at(0).command('keys', 'etcd-ca', step);
      await until('the step has begun', async () => command.ended || (await authoritiesOf(at(0), 'etcd')) !== before, { everyMs: 1 });
      await Promise.all([joining().join(at(1)), joinNode(at(1))]);
      expect({ code: await command.exit, output: command.output }).toEqual({
        code: 0,
        output: expect.stringContaining('of the etcd members') as string,
      });
      await untilComplete(at(0), 3);
      for (const server of [at(1), joining()]) expect(await authoritiesOf(server, 'etcd')).toBe(await authoritiesOf(at(0), 'etcd'));
      await removeServer(joining());
      await removeNode();
    });

    it.each(steps)('of a server and a node work between the step `ca %s` and the restarts that it needs', async (step: Step) => {
      await at(0).oarlock('keys', 'ca', step);
      await joining().join(at(0));
      await joinNode(at(0));
      await untilComplete(joining(), 3);
      for (const server of [...permanent(), joining()]) {
        await server.daemon.stop('SIGKILL');
        await server.start();
      }
      await node().daemon.stop('SIGKILL');
      await node().startNode();
      await untilComplete(at(1), 3);
      for (const server of [...permanent(), joining()])
        await server.kubectl.run(['wait', '--for=condition=Ready', `node/${node().name}`, '--timeout=60s']);
      await removeServer(joining());
      await removeNode();
    });
  },
);
