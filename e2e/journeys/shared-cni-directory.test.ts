import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { serverMachines, type ServerMachine } from '../ha/support/server-machines.ts';
import { Machine } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import type { Daemon } from '../harness/programs.ts';
import { until } from '../harness/until.ts';

const reason = await netnsMissing();

describe.skipIf(reason !== undefined)(
  `two clusters in network namespaces of their own${reason === undefined ? '' : ` (skipped: ${reason})`}`,
  () => {
    const machine = Machine.use();
    let machines: readonly ServerMachine[];
    let confDir: string;
    const at = (index: number): ServerMachine => {
      const found = machines[index];
      if (found === undefined) throw new Error(`there is no machine ${index}`);
      return found;
    };
    const up = async (server: ServerMachine, network: string, directory: string | null): Promise<Daemon> => {
      const spec = {
        server: { address: server.address },
        runtimes: ['runtime-process'],
        network: { use: network, config: { confDir: directory } },
        proxy: 'proxy-nftables',
        settings: { kubelet: { evictionHard: { diskAvailable: '1%', imageAvailable: '1%' } } },
      };
      await writeFile(server.clusterFile, JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec }));
      return server.command('up', '-f', server.clusterFile, '--node-name', server.name);
    };
    const ready = /^Oarlock is ready at /;

    beforeAll(async () => {
      machines = await serverMachines(machine, ['first', 'second']);
    });
    beforeEach(() => {
      confDir = machine.path('net.d');
    });

    it.each(['network-bridge', 'network-calico'])(
      'do not replace the CNI configuration of one another: the second has %s',
      async (network) => {
        const first = await up(at(0), 'network-bridge', confDir);
        await first.line(ready);
        const file = join(confDir, '10-oarlock.conflist');
        const before = await until('the configuration is written', () => readFile(file, 'utf8'));
        const rejected = await up(at(1), network, confDir);
        expect(await rejected.exit).toBe(1);
        expect(rejected.output).toContain(
          `the CNI configuration ${file} belongs to another cluster, whose plugins keep their data in ${join(at(0).dataDir, 'plugins')}: `,
        );
        expect(await readFile(file, 'utf8')).toBe(before);
        const second = await up(at(1), network, null);
        await second.line(ready);
        await second.stop();
        // the claim ends with the process, also after SIGKILL
        await first.stop('SIGKILL');
        const successor = await up(at(1), network, confDir);
        await successor.line(ready);
        await successor.stop();
      },
    );
  },
);
