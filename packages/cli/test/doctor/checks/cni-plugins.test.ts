import { expect, it } from 'vitest';
import { cniPlugins } from '../../../src/doctor/checks/cni-plugins.ts';
import { fakeMachine } from '../../support/fake-machine.ts';

const find = (files: Readonly<Record<string, string>>) => cniPlugins.run({ machine: fakeMachine({ files }), dataDir: '/data' });

it('needs each executable in one of the directories', async () => {
  const some = { '/opt/cni/bin/bridge': '', '/usr/lib/cni/host-local': '', '/usr/lib/cni/portmap': '' };
  expect(await find(some)).toMatchObject({ level: 'warn', found: 'loopback not found in /opt/cni/bin and /usr/lib/cni' });
  expect(await find({ ...some, '/usr/lib/cni/loopback': '' })).toMatchObject({ level: 'ok' });
});
