import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TarEntry } from '../../src/archive/tar-header.ts';
import { TarParser } from '@oarlock/oci/archive/tar-parser';
import { layerTar, type RawEntry } from '../fixtures/layer-tar.ts';

interface Read {
  readonly entry: TarEntry;
  readonly content: Buffer;
}

function parse(archive: Buffer, chunkSize = archive.length): readonly Read[] {
  const read: { entry: TarEntry; content: Buffer }[] = [];
  const parser = new TarParser({
    entry: (entry) => read.push({ entry, content: Buffer.alloc(Math.min(entry.size, 1e6)) }),
    data: (chunk, offset) => chunk.copy(read.at(-1)?.content ?? Buffer.alloc(0), offset),
    endOfEntry() {},
  });
  for (let at = 0; at < archive.length; at += chunkSize) parser.push(archive.subarray(at, at + chunkSize));
  parser.end();
  return read;
}
/** An archive with extended headers of a type before its only entry. */
function repeated(type: 'g' | 'x', pax: Readonly<Record<string, string>>, times: number): Buffer {
  const header = layerTar([{ path: 'a', pax }], { end: false }).subarray(0, -512);
  if (type === 'g') setType(header, 'g');
  return Buffer.concat([...Array.from({ length: times }, () => header), layerTar([{ path: 'a' }])]);
}
/** Changes the type of the first header, and its checksum by the same amount. */
function setType(archive: Buffer, type: string): void {
  const sum = Number.parseInt(archive.toString('latin1', 148, 154), 8) + type.charCodeAt(0) - (archive[156] ?? 0);
  archive.write(type, 156, 'latin1');
  archive.write(sum.toString(8).padStart(6, '0'), 148, 'latin1');
}
const invalid = expect.objectContaining({ name: 'OciError', code: 'InvalidContent' });

describe('TarParser', () => {
  it('returns entries and contents however the archive is cut into chunks', () => {
    const archive = layerTar([
      { path: 'bin/', type: '5', mode: 0o750, uid: 3, gid: 4 },
      { path: 'bin/a', bytes: 'x'.repeat(700), mtime: 12 },
      { path: 'empty' },
      { path: 'link', type: '2', target: 'bin/a' },
    ]);
    for (const size of [1, 7, 511, 512, 513, archive.length]) {
      const read = parse(archive, size);
      expect(read.map(({ entry }) => [entry.type, entry.path, entry.size])).toEqual([
        ['directory', 'bin/', 0],
        ['file', 'bin/a', 700],
        ['file', 'empty', 0],
        ['symlink', 'link', 0],
      ]);
      expect(read[0]?.entry).toMatchObject({ mode: 0o750, uid: 3, gid: 4 });
      expect(read[1]?.content.toString()).toBe('x'.repeat(700));
      expect(read[3]?.entry.linkPath).toBe('bin/a');
    }
  });

  it('applies pax records: long names, large ids, fractions of seconds, and attributes as bytes', () => {
    const capability = Buffer.from([1, 0, 0, 2, 0, 0x20, 0, 0xff, 0, 0x0a, 0x3d]);
    const path = `${'d/'.repeat(150)}ü`;
    const [read] = parse(
      layerTar([
        {
          path: 'short',
          pax: { path, uid: '3000000', mtime: '12.5', 'SCHILY.xattr.security.capability': capability },
          bytes: 'a',
        },
      ]),
    );
    expect(read?.entry).toMatchObject({ uid: 3_000_000, mtime: 12.5 });
    expect(Buffer.from(read?.entry.path ?? '', 'latin1').toString()).toBe(path);
    expect(read?.entry.xattrs.get('security.capability')).toEqual(capability);
  });

  it('reads GNU long names and links', () => {
    const name = 'n'.repeat(300);
    const [read] = parse(
      layerTar([
        { path: '././@LongLink', type: 'L', bytes: `${name}\u0000` },
        { path: '././@LongLink', type: 'K', bytes: `${name}2\u0000` },
        { path: 'n', type: '2', target: 'x' },
      ]),
    );
    expect(read?.entry).toMatchObject({ path: name, linkPath: `${name}2` });
  });

  it('reads sparse files of the formats 0.0, 0.1 and 1.0', () => {
    const map = '2\n0\n3\n1000\n2\n';
    const entries: readonly RawEntry[] = [
      { path: 'a', pax: { 'GNU.sparse.map': '0,3,1000,2', 'GNU.sparse.size': '2000', 'GNU.sparse.numblocks': '2' }, bytes: 'abcde' },
      {
        path: 'b',
        pax: { 'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.realsize': '2000', 'GNU.sparse.name': 'real' },
        bytes: Buffer.concat([Buffer.from(map), Buffer.alloc(512 - map.length), Buffer.from('abcde')]),
      },
    ];
    for (const { entry, content } of parse(layerTar(entries), 100)) {
      expect(entry.size).toBe(2000);
      expect(content.subarray(0, 3).toString()).toBe('abc');
      expect(content.subarray(1000, 1002).toString()).toBe('de');
      expect(content.subarray(3, 1000).every((byte) => byte === 0)).toBe(true);
    }
    expect(parse(layerTar(entries))[1]?.entry.path).toBe('real');
  });

  it.each<[string, Buffer]>([
    ['a wrong checksum', layerTar([{ path: 'a', breakChecksum: true }])],
    ['an end inside an entry', layerTar([{ path: 'a', bytes: 'abc', size: 4000 }], { end: false })],
    ['an unknown type', layerTar([{ path: 'a', type: 'Z' }])],
    ['a malformed extended header', layerTar([{ path: 'a', type: 'x', bytes: '99 path=a\n' }])],
    [
      'a sparse map beyond the file',
      layerTar([{ path: 'a', pax: { 'GNU.sparse.map': '5,10', 'GNU.sparse.size': '6' }, bytes: '0123456789' }]),
    ],
    ['a zero byte in a name', layerTar([{ path: 'a', pax: { path: 'a\u0000b' } }])],
    ['a header after the end', Buffer.concat([layerTar([], { end: false }), Buffer.alloc(512), layerTar([{ path: 'a' }])])],
    ['extended headers of one entry that are too long together', repeated('x', { comment: 'x'.repeat(600_000) }, 2)],
    ['global headers that are too long together', repeated('g', { comment: 'x'.repeat(600_000) }, 2)],
    ['many global records', repeated('g', Object.fromEntries(Array.from({ length: 65 }, (_entry, index) => [`k${index}`, 'v'])), 1)],
    ['no archive at all', Buffer.from('this is not an archive'.repeat(100))],
  ])('rejects %s', (_, archive) => {
    expect(() => parse(archive)).toThrow(invalid);
  });

  it('rejects or parses any bytes without another error', () => {
    const archive = layerTar([
      { path: 'a', bytes: 'abc', pax: { path: 'long', 'GNU.sparse.map': '0,3', 'GNU.sparse.size': '5' } },
      { path: 'b', type: '5' },
    ]);
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(archive.length - 1), fc.nat(255)), { maxLength: 8 }),
        fc.integer({ min: 1, max: 600 }),
        (edits, size) => {
          const changed = Buffer.from(archive);
          for (const [at, value] of edits) changed[at] = value;
          try {
            parse(changed, size);
          } catch (error) {
            expect(error).toEqual(invalid);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});
