import { expect, it } from 'vitest';
import { iptables, nftables } from '../../../src/doctor/checks/packet-filters.ts';
import { failing, fakeMachine, type FakeMachine } from '../../support/fake-machine.ts';

const find = (machine: FakeMachine) => nftables.run({ machine: fakeMachine(machine), dataDir: '/data' });

it('needs the program, root, and a kernel that answers', async () => {
  expect(await find({})).toMatchObject({ level: 'warn', remedy: 'Install the package nftables.' });
  expect(await find({ programs: ['nft'] })).toMatchObject({ level: 'warn', remedy: 'Run Oarlock as root.' });
  const namespaces = { programs: ['nft', 'unshare'] };
  expect(await find(namespaces)).toMatchObject({ level: 'ok', found: expect.stringContaining('node without root') });
  expect(await find({ ...namespaces, run: failing('denied') })).toMatchObject({ level: 'warn', remedy: 'Run Oarlock as root.' });
  expect(await find({ programs: ['nft'], root: true, run: failing('Operation not permitted') })).toMatchObject({
    level: 'warn',
    found: 'nft does not work: Operation not permitted',
  });
  expect(await find({ programs: ['nft'], root: true })).toEqual({ level: 'ok', found: '/usr/bin/nft' });
  expect(await iptables.run({ machine: fakeMachine({ programs: ['iptables'], root: true }), dataDir: '/data' })).toMatchObject({
    level: 'ok',
  });
});
