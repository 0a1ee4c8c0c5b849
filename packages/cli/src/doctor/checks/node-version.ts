import { ok, type Check } from './check.ts';

/** The oldest release line of Node that is still maintained. */
const maintained = 22;

export const nodeVersion: Check = {
  name: 'node',
  linux: false,
  async run({ machine: { nodeVersion: found } }) {
    const [major = 0, minor = 0] = found.slice(1).split('.').map(Number);
    if (major < 20 || (major === 20 && minor < 19))
      return { level: 'fail', found, affects: 'No composition runs.', remedy: 'Install Node 20.19 or newer, best 24.' };
    if (major >= maintained) return ok(found);
    return {
      level: 'warn',
      found,
      affects: 'All compositions run, but this release of Node no longer receives security fixes.',
      remedy: 'Install Node 24.',
    };
  },
};
