import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { aliasesOf, isWithin, parseMountTable } from '../../src/isolation/mount-table.ts';

describe('parseMountTable', () => {
  it('reads escaped paths, optional fields and read-only flags', () => {
    const text = [
      '36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue',
      '37 35 98:0 / /boot ro,relatime shared:2 master:1 - ext4 /dev/sda1 rw',
      '38 35 7:1 / /snap rw - squashfs /dev/loop1 ro',
      '',
    ].join('\n');
    expect(parseMountTable(text)).toEqual([
      { device: '98:0', root: '/mnt1', mountPoint: '/mnt 2', writable: true },
      { device: '98:0', root: '/', mountPoint: '/boot', writable: false },
      { device: '7:1', root: '/', mountPoint: '/snap', writable: false },
    ]);
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
      const entry = (mountPoint: string, root: string, device = '8:1') => ({ device, root, mountPoint, writable: true });
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
