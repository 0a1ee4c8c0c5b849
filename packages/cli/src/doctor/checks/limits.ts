import { ok, type Check } from './check.ts';

/** A connection of a client, a watch and a container's log take a file each. */
const neededFiles = 16_384;

export const openFiles: Check = {
  name: 'open files',
  linux: true,
  async run({ machine }) {
    const limits = (await machine.readText('/proc/self/limits')) ?? '';
    const text = /^Max open files\s+(\S+)/m.exec(limits)?.[1] ?? '0';
    const limit = text === 'unlimited' ? Infinity : Number(text);
    if (limit >= neededFiles) return ok(`${text} for each process`);
    return {
      level: 'warn',
      found: `${text} for each process`,
      affects: 'All compositions: the API server refuses connections when three quarters of its files are in use.',
      remedy: `Raise the limit to ${neededFiles} or more: \`ulimit -n\`, or LimitNOFILE= of the service unit.`,
    };
  },
};

/** Defaults of current kernels; older ones have less. */
const neededInotify = { max_user_instances: 128, max_user_watches: 65_536 } as const;

export const inotify: Check = {
  name: 'inotify',
  linux: true,
  async run({ machine }) {
    const values: string[] = [];
    for (const [name, needed] of Object.entries(neededInotify)) {
      const value = Number((await machine.readText(`/proc/sys/fs/inotify/${name}`)) ?? 0);
      values.push(`${name} ${value}`);
      if (value < needed)
        return {
          level: 'warn',
          found: `fs.inotify.${name} is ${value}`,
          affects: 'Pods that watch files, and `oarlock dev`, may fail with "too many open files" or "no space left on device".',
          remedy: `Run \`sudo sysctl -w fs.inotify.${name}=${name === 'max_user_watches' ? 524_288 : 512}\`.`,
        };
    }
    return ok(values.join(', '));
  },
};
