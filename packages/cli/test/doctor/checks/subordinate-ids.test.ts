import { expect, it } from 'vitest';
import { subordinateIds } from '../../../src/doctor/checks/subordinate-ids.ts';
import { fakeMachine, type FakeMachine } from '../../support/fake-machine.ts';

const find = (machine: FakeMachine) => subordinateIds.run({ machine: fakeMachine(machine), dataDir: '/data' });
const programs = ['newuidmap', 'newgidmap'];

it('needs both programs and 65536 ids of the user in both files', async () => {
  expect(await find({ root: true })).toMatchObject({ level: 'ok' });
  expect(await find({ programs: ['newuidmap'] })).toMatchObject({ level: 'warn', found: 'newgidmap not installed' });
  const enough = 'bob:1:9\nada:100000:60000\nada:200000:5536\n';
  const files = { '/etc/subuid': enough, '/etc/subgid': 'ada:100000:100\n' };
  expect(await find({ programs, files })).toMatchObject({ level: 'warn', found: '/etc/subgid gives this user 100 ids' });
  expect(await find({ programs, files: { ...files, '/etc/subgid': enough } })).toMatchObject({ level: 'ok' });
});
