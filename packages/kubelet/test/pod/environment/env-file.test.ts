import { mkdtemp, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Container, Pod } from '@oarlock/api/types/core-v1';
import { envFileValue } from '../../../src/pod/environment/env-file.ts';
import { containerEnvironment } from '../../../src/pod/environment/container-environment.ts';
import { readFileInVolume } from '../../../src/volumes/sub-path.ts';

const file = `
# who we talk to
DB_ADDRESS='address' # of the day
  INDENTED='x = "y"'
CERTIFICATE='first
# second

last'
EMPTY=
APART= 'not taken'
TWICE='one'
TWICE='two'
`;

describe('envFileValue', () => {
  it.each([
    ['DB_ADDRESS', 'address'],
    ['INDENTED', 'x = "y"'],
    ['CERTIFICATE', 'first\n# second\n\nlast'],
    ['EMPTY', ''],
    ['APART', ''],
    ['TWICE', 'one'],
    ['NONE', undefined],
  ])('returns the value of %s', (key, value) => {
    expect(envFileValue(file, key)).toBe(value);
  });

  it.each([
    ['KEY=value', 'the value must be in single quotes'],
    ["KEY ='value'", 'has a space before "="'],
    ['KEY', 'is not an assignment'],
    ["='value'", 'is not an assignment'],
    ["KEY='value", 'the quote is not closed'],
    ["KEY='value' more", 'has text after the closing quote'],
    [`KEY='${'x'.repeat(32 * 1024 + 1)}'`, 'is longer than 32768 bytes'],
  ])('rejects the line %.20s', (text, problem) => {
    expect(() => envFileValue(text, 'KEY')).toThrow(problem);
  });
});

describe('environment variables from files', () => {
  const of = (optional: boolean, texts: Readonly<Record<string, string>>, key = 'KEY') => {
    const container: Container = {
      name: 'main',
      env: [
        { name: 'FROM_FILE', valueFrom: { fileKeyRef: { volumeName: 'config', path: 'a.env', key, optional } } },
        { name: 'AFTER', value: '<$(FROM_FILE)>' },
      ],
    };
    const pod: Pod = { metadata: { name: 'p', namespace: 'default' }, spec: { containers: [container] } };
    return containerEnvironment(pod, container, {
      objects: { get: () => Promise.resolve(undefined) },
      services: new Map(),
      facts: { podIPs: [], hostIPs: [], nodeName: 'n' },
      allocatable: {},
      fileIn: (volume, path) => Promise.resolve(volume === 'config' ? texts[path] : undefined),
    });
  };

  it('are set and can be referenced by other variables', async () => {
    expect([...(await of(false, { 'a.env': "KEY='value'" }))]).toEqual([
      ['FROM_FILE', 'value'],
      ['AFTER', '<value>'],
    ]);
  });

  it('are left out if they are optional and missing', async () => {
    for (const texts of [{}, { 'a.env': "OTHER='value'" }]) {
      expect((await of(true, texts)).has('FROM_FILE')).toBe(false);
      await expect(of(false, texts)).rejects.toThrow('not found');
    }
    await expect(of(true, { 'a.env': 'KEY=value' })).rejects.toThrow(
      'couldn\'t parse env file "a.env" of volume "config": line 1: the value must be in single quotes',
    );
  });
});

describe('readFileInVolume', () => {
  let base: string;
  beforeEach(async () => {
    base = await mkdtemp(join(tmpdir(), 'oarlock-file-'));
    await mkdir(join(base, 'volume'));
    await writeFile(join(base, 'volume', 'in'), 'inside');
    await writeFile(join(base, 'out'), 'outside');
  });
  afterEach(() => rm(base, { recursive: true }));

  it('reads files within the size limit and never outside of the volume', async () => {
    const volume = join(base, 'volume');
    await symlink('in', join(volume, 'link'));
    await symlink('../out', join(volume, 'leak'));
    expect((await readFileInVolume(volume, 'in', 10))?.toString()).toBe('inside');
    expect((await readFileInVolume(volume, 'link', 10))?.toString()).toBe('inside');
    expect(await readFileInVolume(volume, 'missing', 10)).toBeUndefined();
    await expect(readFileInVolume(volume, 'leak', 10)).rejects.toThrow('is not within the volume');
    await expect(readFileInVolume(volume, '../out', 10)).rejects.toThrow('must be relative and without');
    await expect(readFileInVolume(volume, '.', 10)).rejects.toThrow('is not a file');
    await expect(readFileInVolume(volume, 'in', 5)).rejects.toThrow('is larger than 5 bytes');
  });
});
