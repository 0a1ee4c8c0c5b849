import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { existingDirectory, overlay } from '../../../src/doctor/checks/overlay.ts';
import { thisMachine } from '../../../src/doctor/checks/machine.ts';
import { failing, fakeMachine, type FakeMachine } from '../../support/fake-machine.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-overlay-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const { withDirectory, exists } = thisMachine();
const find = (machine: FakeMachine) =>
  overlay.run({
    machine: fakeMachine({ exists, withDirectory, programs: ['unshare'], writable: [directory, '/dev/fuse'], ...machine }),
    dataDir: join(directory, 'not', 'yet'),
  });

describe('overlayfs', () => {
  it('is tried where the data directory will be, by a mount of four directories', async () => {
    const runs: (readonly string[])[] = [];
    const run = async (_: string, args: readonly string[]) => {
      runs.push(args);
      return { code: 0, stdout: '', problem: '' };
    };
    expect(await find({ run })).toEqual({ level: 'ok', found: `overlayfs can be mounted in ${directory}` });
    expect(runs).toEqual([expect.arrayContaining(['--user', '--mount', 'mount', 'overlay'])]);
    expect(runs[0]?.join(' ')).toMatch(/lowerdir=.*,upperdir=.*,workdir=.*,userxattr/);
  });

  it('is replaced by fuse-overlayfs, and otherwise reported', async () => {
    const run = failing('mount: wrong fs type');
    expect(await find({ run, programs: ['unshare', 'fuse-overlayfs'] })).toMatchObject({ level: 'ok' });
    expect(await find({ run })).toMatchObject({ level: 'warn', found: 'no overlayfs: mount: wrong fs type' });
    expect(await find({ writable: [] })).toMatchObject({ level: 'warn', found: `no overlayfs: ${directory} is not writable` });
  });
});

it('existingDirectory returns the nearest directory that exists', async () => {
  expect(await existingDirectory(thisMachine(), join(directory, 'a', 'b'))).toBe(directory);
  expect(await existingDirectory(fakeMachine(), '/a/b')).toBe('/');
});
