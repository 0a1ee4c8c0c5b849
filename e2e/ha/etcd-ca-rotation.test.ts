import { X509Certificate } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { beforeAll, describe, expect, it } from 'vitest';
import { componentMissing } from '../harness/component-availability.ts';
import { Machine, everythingIsNeeded } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import { seed, seeded } from '../harness/random.ts';
import { until, untilValue } from '../harness/until.ts';
import { checkHistory } from './checker/check-history.ts';
import { HistoryRecorder } from './support/history-recorder.ts';
import { serverMachines, type ServerMachine } from './support/server-machines.ts';

const missing = componentMissing.etcd() ?? (await netnsMissing());
type Step = 'add' | 'use' | 'end';

/** Returns the certificate that the member of a machine presents to clients. */
const presentedBy = ({ address }: ServerMachine): Promise<X509Certificate> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host: address, port: 2379, rejectUnauthorized: false }, () => {
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      if (certificate === undefined) reject(new Error(`${address} presents no certificate`));
      else resolve(certificate);
    });
    socket.once('error', reject);
  });

describe.skipIf(missing !== undefined && !everythingIsNeeded)(
  `a rotation of the CA of three managed etcd members${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    const machine = Machine.use();
    let machines: readonly ServerMachine[];
    let recorder: HistoryRecorder;
    let first: X509Certificate;
    let takenSteps = 0;
    const at = (index: number): ServerMachine => {
      const found = machines[index];
      if (found === undefined) throw new Error(`there is no machine ${index}`);
      return found;
    };
    const pki = async ({ dataDir }: ServerMachine): Promise<string> => {
      const directory = join(dataDir, 'pki', 'etcd');
      const names = (await readdir(directory)).filter((name) => /^ca.*\.crt$/.test(name)).sort();
      return (await Promise.all(names.map(async (name) => `${name} ${await readFile(join(directory, name), 'utf8')}`))).join('\n');
    };
    const caOf = async ({ dataDir }: ServerMachine) => new X509Certificate(await readFile(join(dataDir, 'pki', 'etcd', 'ca.crt')));
    const allPids = async () => (await Promise.all(machines.map((each) => each.memberPids()))).flat();
    const rejection = async (from: ServerMachine, step: Step): Promise<string> => {
      const command = from.command('keys', 'etcd-ca', step);
      return `${await command.exit} ${command.output.trim()}`;
    };
    /** Takes a step; kills its command and a server when the files of that server change, and repeats the step on another server. */
    const takeInterrupted = async (step: Step) => {
      const [killed, other] = [at(takenSteps % 3), at((takenSteps + 1) % 3)];
      takenSteps += 1;
      const before = await pki(killed);
      const command = killed.command('keys', 'etcd-ca', step);
      await until('the step has begun', async () => command.ended || (await pki(killed)) !== before, { everyMs: 1 });
      console.log(`${step}: killed ${killed.name} ${command.ended ? 'after' : 'before'} the end of the command`);
      await Promise.all([command.stop('SIGKILL'), killed.daemon.stop('SIGKILL')]);
      await killed.start();
      await untilValue(
        `the step ${step} is taken`,
        () => other.oarlock('keys', 'etcd-ca', step),
        (output) => output.includes('of the etcd members'),
      );
    };

    beforeAll(async () => {
      machines = await serverMachines(machine, ['server-a', 'server-b', 'server-c']);
      await at(0).initManagedEtcd();
      for (const server of machines.slice(1)) await server.join(at(0));
      await at(0).kubectl.run(['create', 'namespace', 'ha']);
      recorder = new HistoryRecorder(
        machines.map(({ kubeconfig }) => kubeconfig),
        { namespace: 'ha', random: seeded(seed) },
      );
      first = await caOf(at(0));
    });

    it('rejects every step while a member is down, with its name and what to do', async () => {
      await at(2).kill9();
      expect(await rejection(at(0), 'add')).toMatch(
        /^2 .*the etcd member of server-c does not respond: start its server, or remove it with `oarlock server remove server-c`/,
      );
      await at(2).start();
      // the member continues without its server, and would not receive the CA
      await at(2).daemon.stop('SIGKILL');
      await untilValue(
        'the lease of the server has expired',
        () => at(0).oarlock('server', 'list'),
        (table) => /^server-c +NotReady/m.test(table),
      );
      expect(await rejection(at(0), 'add')).toMatch(/^2 .*the server server-c does not run, and its etcd member would not receive the CA/);
      await at(2).start();
      expect(await rejection(at(0), 'use')).toMatch(/^2 .*there is no next CA: `oarlock keys etcd-ca add` creates one/);
      await recorder.start(4);
      await recorder.untilWritten('before the steps');
    });

    it('restarts each member once for `add` and `end`, and none for `use`', async () => {
      const before = await allPids();
      await takeInterrupted('add');
      await recorder.untilWritten('after the step');
      const afterAdd = await allPids();
      expect(afterAdd.filter((pid) => before.includes(pid))).toEqual([]);
      expect(await rejection(at(1), 'end')).toMatch(/^2 .*the next CA does not sign yet: run `oarlock keys etcd-ca use` first/);
      for (const each of machines) expect((await presentedBy(each)).verify(first.publicKey)).toBe(true);

      await takeInterrupted('use');
      await recorder.untilWritten('after the step');
      expect(await allPids()).toEqual(afterAdd);
      const second = await caOf(at(0));
      expect(second.subject).not.toBe(first.subject);
      for (const each of machines) expect((await presentedBy(each)).verify(second.publicKey)).toBe(true);

      await takeInterrupted('end');
      await recorder.untilWritten('after the step');
      expect((await allPids()).filter((pid) => afterAdd.includes(pid))).toEqual([]);
      for (const each of machines) {
        expect((await presentedBy(each)).verify(second.publicKey)).toBe(true);
        expect((await readdir(join(each.dataDir, 'pki', 'etcd'))).filter((name) => /next|former/.test(name))).toEqual([]);
      }
      const status = await at(1).oarlock('keys', 'status');
      expect(status.match(/^server-\S+ +yes +yes +no *$/gm)).toHaveLength(3);
    });

    it('has lost no acknowledged write', async () => {
      const { lost, violations, ...counts } = checkHistory(await recorder.finish());
      console.log(JSON.stringify({ ...counts, lost: lost.length, violations: violations.length }));
      expect(lost).toEqual([]);
      expect(violations.slice(0, 20).join('\n')).toBe('');
    });

    it('lets a server join afterward, and restarts everything with the new CA', async () => {
      await at(2).kill9();
      await at(2).wipe();
      await at(2).join(at(0));
      for (const each of machines) await each.kill9();
      await Promise.all(machines.map((each) => each.start()));
      for (const each of machines) await each.kubectl.run(['get', 'namespace', 'ha']);
    });
  },
);
