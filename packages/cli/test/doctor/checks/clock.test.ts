import { expect, it } from 'vitest';
import { clock } from '../../../src/doctor/checks/clock.ts';
import { fakeMachine, type FakeMachine } from '../../support/fake-machine.ts';

const find = (machine: FakeMachine) => clock.run({ machine: fakeMachine(machine), dataDir: '/data' });

it('rejects a clock before the release, and looks for what synchronizes it', async () => {
  expect(await find({ now: 0 })).toMatchObject({ level: 'fail', found: '1970-01-01T00:00:00.000Z' });
  expect(await find({})).toMatchObject({ level: 'warn', found: expect.stringContaining('not known to be synchronized') });
  expect(await find({ files: { '/run/chrony/chronyd.pid': '1' } })).toMatchObject({
    level: 'ok',
    found: expect.stringContaining('chronyd'),
  });
  const run = async () => ({ code: 0, stdout: 'yes\n', problem: '' });
  expect(await find({ programs: ['timedatectl'], run })).toMatchObject({ level: 'ok' });
});
