import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { aliasesOf, isWithin, lockedFlags, parseMountTable } from '../../src/host/mount-table.ts';

describe('parseMountTable', () => {
  it('reads escaped paths, optional fields and read-only flags', () => {
    const text = [
      '36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue',
      '37 35 98:0 / /boot ro,relatime shared:2 master:1 - ext4 /dev/sda1 rw',
      '38 35 7:1 / /snap rw - squashfs /dev/loop1 ro',
      '',
    ].join('\n');
    expect(parseMountTable(text)).toEqual([
      { device: '98:0', root: '/mnt1', mountPoint: '/mnt 2', writable: true, options: ['rw', 'noatime'] },
      { device: '98:0', root: '/', mountPoint: '/boot', writable: false, options: ['ro', 'relatime'] },
      { device: '7:1', root: '/', mountPoint: '/snap', writable: false, options: ['rw'] },
    ]);
  });
});

describe('lockedFlags', () => {
  it('returns the flags of the last mount above the path', () => {
    const table = parseMountTable(
      [
        '1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw',
        '2 1 0:5 / /run rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw',
        '3 2 0:6 / /run/user rw,nosuid,relatime - tmpfs tmpfs rw',
        '4 2 0:7 / /run/user rw,nodev,relatime - tmpfs tmpfs rw',
      ].join('\n'),
    );
    expect(lockedFlags('/etc', table)).toEqual([]);
    expect(lockedFlags('/run/x', table)).toEqual(['nosuid', 'nodev', 'noexec']);
    expect(lockedFlags('/run/user/1', table)).toEqual(['nodev']);
  });
});

describe('isWithin', () => {
  it('compares whole parts of paths', () => {
    expect([isWithin('/a/b', '/a'), isWithin('/a', '/a'), isWithin('/ab', '/a'), isWithin('/a', '/')]).toEqual([true, true, false, true]);
  });
});

describe('aliasesOf', () => {
  it('finds other mounts of the same file system that show the directory or a part of it', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'aliases-'));
    try {
      const data = join(directory, 'data');
      await mkdir(data);
      const entry = (mountPoint: string, root: string, device = '8:1') => ({ device, root, mountPoint, writable: true, options: ['rw'] });
      // the "alias" of the whole file system is simulated by a table in which it is mounted at the same place
      const table = [
        entry('/', '/'),
        entry('/srv/part', `${data}/pods`),
        entry(`${data}/own`, `${data}/pods`),
        entry('/other', data, '8:2'),
      ];
      expect(aliasesOf(data, table)).toEqual(['/srv/part']);
      expect(aliasesOf(data, [entry('/', '/'), entry('/sysroot', '/')])).toEqual([]); // /sysroot/... does not exist here
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});
