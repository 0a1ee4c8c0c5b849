import { describe, expect, it } from 'vitest';
import { checks } from '../../../src/doctor/checks/checks.ts';
import { fakeMachine } from '../../support/fake-machine.ts';
import { runChecks } from '../../../src/doctor/checks/check.ts';

describe('the checks', () => {
  it('have different names', () => {
    expect(new Set(checks.map(({ name }) => name)).size).toBe(checks.length);
  });

  it('give a meaning and a remedy in one sentence each for all that a bare machine lacks', async () => {
    const machine = fakeMachine({
      listen: async () => 'EADDRINUSE',
      space: async () => ({ bytes: 1, freeBytes: 0, inodes: 0, freeInodes: 0 }),
    });
    const results = await runChecks(checks, { machine, dataDir: '/nowhere' });
    const lacking = results.filter((result) => result.level !== 'ok');
    expect(lacking.map(({ name }) => name)).toEqual(checks.map(({ name }) => name).filter((name) => name !== 'node'));
    for (const result of lacking) {
      expect(result.found, result.name).toMatch(/\w/);
      expect(result.affects, result.name).toMatch(/^[A-Za-z].*\.$/);
      expect(result.remedy, result.name).toMatch(/^[A-Z].*\.$/);
      expect(result.found, result.name).not.toContain('the check failed');
    }
  });
});
