import { describe, expect, it } from 'vitest';
import { ok, runChecks, type Check } from '../../../src/doctor/checks/check.ts';
import { fakeMachine } from '../../support/fake-machine.ts';

const check = (name: string, run: Check['run'], linux = false): Check => ({ name, linux, run });
const dataDir = '/data';

describe('runChecks', () => {
  it('returns the findings in the order of the checks', async () => {
    const context = { machine: fakeMachine(), dataDir };
    const results = await runChecks([check('a', async () => ok('fine')), check('b', async ({ dataDir: found }) => ok(found))], context);
    expect(results).toEqual([
      { name: 'a', level: 'ok', found: 'fine' },
      { name: 'b', level: 'ok', found: '/data' },
    ]);
  });

  it('reports a check that throws, and runs the others', async () => {
    const broken = check('a', async () => Promise.reject(new Error('no such thing')));
    const results = await runChecks([broken, check('b', async () => ok('fine'))], { machine: fakeMachine(), dataDir });
    expect(results).toMatchObject([
      { name: 'a', level: 'warn', found: 'the check failed: no such thing' },
      { name: 'b', level: 'ok' },
    ]);
  });

  it('runs no check of Linux on another platform', async () => {
    const never = check('cgroups', async () => Promise.reject(new Error('ran')), true);
    const [result] = await runChecks([never], { machine: fakeMachine({ platform: 'darwin' }), dataDir });
    expect(result).toMatchObject({ level: 'warn', found: 'the platform is darwin', remedy: 'Run Oarlock on Linux for these.' });
  });
});
