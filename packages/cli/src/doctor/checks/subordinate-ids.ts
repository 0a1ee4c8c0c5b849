import { ok, type Check } from './check.ts';

/** The ids that a rootless daemon maps for the users of its images. */
const needed = 65_536;

/** `newuidmap` and ranges in /etc/subuid and /etc/subgid, for daemons that run without root. */
export const subordinateIds: Check = {
  name: 'subordinate ids',
  linux: true,
  async run({ machine }) {
    if (machine.root) return ok('not needed as root');
    const affects = 'A containerd or docker without root does not run; Oarlock itself maps one user only and does not need the ranges.';
    const missing = ['newuidmap', 'newgidmap'].filter((program) => machine.findProgram(program) === undefined);
    if (missing.length > 0)
      return { level: 'warn', found: `${missing.join(' and ')} not installed`, affects, remedy: 'Install the package uidmap.' };
    for (const file of ['/etc/subuid', '/etc/subgid']) {
      const lines = ((await machine.readText(file)) ?? '').split('\n').map((line) => line.split(':'));
      const size = lines.reduce((sum, [user, , count]) => sum + (user === machine.userName ? Number(count) || 0 : 0), 0);
      if (size < needed)
        return {
          level: 'warn',
          found: `${file} gives this user ${size} ids`,
          affects,
          remedy: 'Run `sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535` for the user.',
        };
    }
    return ok(`${needed} or more`);
  },
};
