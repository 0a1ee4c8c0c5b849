import { mkdir, mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fileErrorReason, fileErrorText, isAbsentOrTruncated, isProcessGone } from '../../src/os/file-error.ts';

describe('an error of the file system', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'file-error-'));
    await writeFile(join(directory, 'file'), '');
  });
  afterAll(() => rm(directory, { recursive: true }));

  const errorOf = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    );

  it.each<[string, string, (path: string) => Promise<unknown>]>([
    ['file/below', 'opened: a part of its path is not a directory', (path) => open(path)],
    ['missing/below', 'opened: no such file or directory', (path) => writeFile(path, '')],
    ['.', 'opened: it is a directory', (path) => writeFile(path, '')],
    ['file', 'created: it exists already', (path) => mkdir(path)],
    ['missing', 'read: no such file or directory', (path) => readdir(path)],
  ])('is a sentence about the file: %s', async (name, problem, work) => {
    const path = join(directory, name);
    const error = await errorOf(work(path));
    expect(fileErrorText(error)).toBe(`${path} cannot be ${problem}`);
    expect(fileErrorReason(error)).toBe(problem.replace(/^.*: /, ''));
  });

  it('keeps the message of other errors', () => {
    for (const describeError of [fileErrorReason, fileErrorText]) {
      expect(describeError(new Error('no room'))).toBe('no room');
      expect(
        describeError(Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED', syscall: 'connect' })),
      ).toBe('connect ECONNREFUSED 127.0.0.1:1');
      expect(describeError(Object.assign(new Error('a cannot be written'), { code: 'ENOSPC' }))).toBe('a cannot be written');
      expect(describeError(undefined)).toBe('undefined');
    }
  });
});

it.each([
  ['ENOENT', true, true],
  ['ENOTDIR', true, false],
  ['ESRCH', false, true],
  ['EMFILE', false, false],
  ['EACCES', false, false],
])('%s: a file is absent: %s, a process has ended: %s', (code, absent, gone) => {
  const error = Object.assign(new Error(code), { code });
  expect([isAbsentOrTruncated(error), isProcessGone(error)]).toEqual([absent, gone]);
});

it('a file without complete JSON is truncated', () => {
  expect(isAbsentOrTruncated(new SyntaxError('Unexpected end of JSON input'))).toBe(true);
});
