import { ok, type Check } from './check.ts';
import type { Machine } from './machine.ts';

/** A clock before this time is wrong: this release did not exist. */
const releasedAt = Date.UTC(2026, 0, 1);

/** Returns what keeps the clock synchronized; undefined if nothing is known to. */
async function synchronizer(machine: Machine): Promise<string | undefined> {
  if (await machine.exists('/run/systemd/timesync/synchronized')) return 'systemd-timesyncd';
  const program = machine.findProgram('timedatectl');
  if (program !== undefined) {
    const { code, stdout } = await machine.run(program, ['show', '--property=NTPSynchronized', '--value']);
    if (code === 0 && stdout.trim() === 'yes') return 'the kernel reports NTP';
  }
  for (const [file, name] of [
    ['/run/chrony/chronyd.pid', 'chronyd'],
    ['/run/ntpd.pid', 'ntpd'],
  ] as const)
    if (await machine.exists(file)) return name;
  return undefined;
}

export const clock: Check = {
  name: 'clock',
  linux: true,
  async run({ machine }) {
    const found = new Date(machine.now).toISOString();
    if (machine.now < releasedAt)
      return {
        level: 'fail',
        found,
        affects: 'All compositions: certificates and tokens are not valid for clients whose clock is right.',
        remedy: 'Set the clock, for example by starting systemd-timesyncd or chronyd.',
      };
    const by = await synchronizer(machine);
    if (by !== undefined) return ok(`${found}, synchronized (${by})`);
    return {
      level: 'warn',
      found: `${found}, not known to be synchronized`,
      affects: 'A machine whose clock differs by more than 60 s from that of a server cannot join a cluster; one machine alone runs.',
      remedy: 'Start systemd-timesyncd or chronyd (a container has the clock of its host).',
    };
  },
};
