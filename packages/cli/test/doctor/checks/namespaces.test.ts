import { describe, expect, it } from 'vitest';
import { namespaces } from '../../../src/doctor/checks/namespaces.ts';
import { failing, fakeMachine, type FakeMachine } from '../../support/fake-machine.ts';

const dataDir = '/data';
const find = (machine: FakeMachine) => namespaces.run({ machine: fakeMachine({ programs: ['unshare'], ...machine }), dataDir });

describe('namespaces', () => {
  it('makes a user namespace as an ordinary user, and a network namespace as root', async () => {
    const runs: (readonly string[])[] = [];
    const run = async (_: string, args: readonly string[]) => {
      runs.push(args);
      return { code: 0, stdout: '', problem: '' };
    };
    expect(await find({ run })).toEqual({ level: 'ok', found: 'user, mount, PID, IPC and UTS' });
    expect(await find({ run, root: true })).toEqual({ level: 'ok', found: 'mount, PID, IPC, UTS and network' });
    expect(runs.map((args) => [args.includes('--user'), args.includes('--net')])).toEqual([
      [true, false],
      [false, true],
    ]);
  });

  it.each([
    ['kernel.unprivileged_userns_clone', '0', '1'],
    ['kernel.apparmor_restrict_unprivileged_userns', '1', '0'],
    ['user.max_user_namespaces', '0', '15000'],
  ])('names the setting that denies user namespaces: %s', async (name, value, allowed) => {
    const files = { [`/proc/sys/${name.replaceAll('.', '/')}`]: `${value}\n` };
    expect(await find({ run: failing('Operation not permitted'), files })).toMatchObject({
      level: 'warn',
      found: `user namespaces are denied by ${name}=${value}`,
      remedy: `Run \`sudo sysctl -w ${name}=${allowed}\`, or run Oarlock as root.`,
    });
  });

  it('quotes the kernel where no setting is known, also for root in a container', async () => {
    const run = failing('unshare failed: Operation not permitted');
    expect(await find({ run })).toMatchObject({ found: 'user namespaces cannot be made: unshare failed: Operation not permitted' });
    expect(await find({ run, root: true })).toMatchObject({ remedy: expect.stringContaining('SYS_ADMIN') });
  });
});
