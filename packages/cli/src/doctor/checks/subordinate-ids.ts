import { ok, type Check } from './check.ts';

/** The ids that are mapped for the users of images. */
const needed = 65_536;

/** `newuidmap` and ranges in /etc/subuid and /etc/subgid, for nodes and daemons without root. */
export const subordinateIds: Check = {
  name: 'subordinate ids',
  linux: true,
  async run({ machine }) {
    if (machine.root) return ok('not needed as root');
    const affects =
      'rootless: images run with one user and without runc, groups and seccomp profiles. A containerd or docker without root does not run.';
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
