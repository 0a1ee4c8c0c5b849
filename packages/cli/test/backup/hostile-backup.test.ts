import { mkdir, readdir, stat, symlink, writeFile } from 'node:fs/promises';

import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, it, vi } from 'vitest';
import { restore } from '../../src/backup/restore.ts';
import { BackupBench, craftedBackup } from '../support/backup-bench.ts';

const bench = BackupBench.use();
const { path, into } = bench;

describe('a hostile backup', () => {
  const rejected = async (content: Buffer, message: RegExp) => {
    await writeFile(path('backup'), content);
    await expect(restore(into('new'))).rejects.toThrow(message);
    await expect(stat(path('new/pki'))).rejects.toMatchObject({ code: 'ENOENT' });
  };
  it.each([
    ['a value that is not base64', [{ key: '/registry/a', value: '!' }]],
    ['a value that is not text', [{ key: '/registry/a', value: { length: 4 } }]],
    ['an empty key', [{ key: '', value: '' }]],
    ['a key with NUL', [{ key: '/registry/\0', value: '' }]],
    ['a file with NUL in its path', [{ file: 'pki/ca.key\0.txt', content: '' }]],
    ['a line that is both a file and an entry', [{ file: 'pki/a', content: '', key: '/registry/a', value: '' }]],
    ['an unknown field', [{ key: '/registry/a', value: '', link: '/etc/passwd' }]],
    ['an own __proto__', ['{"key":"/registry/a","value":"","__proto__":{"polluted":true}}']],
    ['a list', ['[]']],
    ['null', ['null']],
  ] as const)('is rejected for %s', async (_, lines) => {
    await rejected(craftedBackup(lines), /cannot be restored/);
    expect(({} as { readonly polluted?: boolean }).polluted).toBeUndefined();
  });

  it.each([1e300, -1, 0.5, '7', null])('is rejected for the revision %j', async (revision) => {
    await rejected(craftedBackup([], { revision }), /its first line is not valid/);
  });

  it.each([undefined, 7, ''])('is rejected for the time %j', async (createdAt) => {
    await rejected(craftedBackup([], { createdAt }), /its first line is not valid/);
  });

  it('is restored without its control characters in the output', async () => {
    const printed = vi.spyOn(console, 'log').mockImplementation(() => {});
    const escape = String.fromCharCode(0x1b);
    await writeFile(path('backup'), craftedBackup([], { cluster: `x${escape}[2J`, createdAt: `now${escape}]0;title` }));
    await restore(into('new'));
    const output = printed.mock.calls.join('\n');
    printed.mockRestore();
    expect([output.includes('restored 0 entries of x'), output.includes(escape)]).toEqual([true, false]);
  });

  it.each([
    ['a first line', (text: string) => `null${text.slice(text.indexOf('\n'))}`, /it is not a backup/],
    ['a last line', (text: string) => `${text.slice(0, text.trimEnd().lastIndexOf('\n'))}\nnull\n`, /the file is truncated/],
  ] as const)('is rejected for %s that is null', async (_, change, message) => {
    await rejected(gzipSync(change(gunzipSync(craftedBackup([{ key: '/registry/a', value: '' }])).toString())), message);
  });

  it('is rejected for an encryption key whose name is not encoded', async () => {
    await rejected(craftedBackup([{ file: 'encryption/keys/%zz', content: '' }]), /which is not the name of a key/);
  });

  it('is restored whatever the form of its last line, which is not read as an entry', async () => {
    const text = gunzipSync(craftedBackup([{ key: '/registry/a', value: '' }])).toString();
    await writeFile(path('backup'), gzipSync(text.replace('{"entries":', '{ "entries": ')));
    await restore(into('new'));
  });

  it('is rejected for a line that inflates beyond the limit, before it is in memory', async () => {
    const part = gzipSync(Buffer.alloc(32 * 1024 * 1024, 0x61));
    await rejected(Buffer.concat(Array.from({ length: 64 }, () => part)), /a line is longer than 16777216 bytes/);
  });

  it('is not written through a symbolic link of the data directory that leaves it', async () => {
    await mkdir(path('new'), { recursive: true });
    await mkdir(path('elsewhere'));
    await symlink(path('elsewhere'), path('new/pki'));
    await writeFile(path('backup'), craftedBackup([{ file: 'pki/ca.key', content: '' }]));
    await expect(restore(into('new'))).rejects.toThrow(/leaves the data directory/);
    expect(await readdir(path('elsewhere'))).toEqual([]);
  });
});
