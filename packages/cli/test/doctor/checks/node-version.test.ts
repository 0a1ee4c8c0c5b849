import { expect, it } from 'vitest';
import { nodeVersion } from '../../../src/doctor/checks/node-version.ts';
import { fakeMachine } from '../../support/fake-machine.ts';

it.each([
  ['v18.20.0', 'fail'],
  ['v20.18.9', 'fail'],
  ['v20.19.0', 'warn'],
  ['v22.0.0', 'ok'],
  ['v24.1.0', 'ok'],
])('%s: %s', async (version, level) => {
  expect(await nodeVersion.run({ machine: fakeMachine({ nodeVersion: version }), dataDir: '/data' })).toMatchObject({ level });
});
