import { expect, it } from 'vitest';
import { tapDevice } from '../../../src/doctor/checks/tap-device.ts';
import { fakeMachine, type FakeMachine } from '../../support/fake-machine.ts';

const find = (machine: FakeMachine) => tapDevice.run({ machine: fakeMachine(machine), dataDir: '/data' });

it('needs one of the programs and the device for them', async () => {
  const writable = ['/dev/net/tun'];
  expect(await find({ root: true })).toMatchObject({ level: 'ok' });
  expect(await find({ writable })).toMatchObject({ level: 'warn', found: 'slirp4netns and pasta not installed' });
  expect(await find({ programs: ['pasta'] })).toMatchObject({ level: 'warn', found: '/dev/net/tun cannot be opened' });
  expect(await find({ programs: ['pasta'], writable })).toEqual({ level: 'ok', found: 'pasta' });
  expect(await find({ programs: ['pasta', 'slirp4netns'], writable })).toEqual({ level: 'ok', found: 'slirp4netns' });
});
