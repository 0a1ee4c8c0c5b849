import type { Machine } from '../../src/doctor/checks/machine.ts';

export interface FakeMachine extends Partial<Machine> {
  /** Contents of files; other files do not exist. */
  readonly files?: Readonly<Record<string, string>>;
  readonly programs?: readonly string[];
  readonly writable?: readonly string[];
}

/** A Linux machine of an ordinary user on which nothing is installed, but for what is given. Programs that run succeed without output. */
export function fakeMachine({ files = {}, programs = [], writable = [], ...properties }: FakeMachine = {}): Machine {
  return {
    platform: 'linux',
    nodeVersion: 'v24.1.0',
    root: false,
    userName: 'ada',
    now: Date.UTC(2026, 10, 1),
    readText: async (path) => files[path],
    exists: async (path) => path in files || path === '/',
    isWritable: async (path) => writable.includes(path),
    findProgram: (name) => (programs.includes(name) ? `/usr/bin/${name}` : undefined),
    run: async () => ({ code: 0, stdout: '', problem: '' }),
    connect: async () => 'ENOENT',
    listen: async () => undefined,
    space: async () => ({ bytes: 100 * 2 ** 30, freeBytes: 50 * 2 ** 30, inodes: 1000, freeInodes: 900 }),
    withDirectory: async () => {
      throw new Error('no directory');
    },
    ...properties,
  };
}

export const failing =
  (problem: string): Machine['run'] =>
  async () => ({ code: 1, stdout: '', problem });
