import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SandboxRecords } from '../../src/containers/sandbox-records.ts';

const file = `${'a'.repeat(64)}.json`;

describe('SandboxRecords', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'sandbox-records-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('names a record that a power failure truncated', async () => {
    await writeFile(join(directory, file), '{');
    expect(await new SandboxRecords(directory).load()).toEqual([file]);
  });

  it('takes no record that cannot be read for truncated', async () => {
    await mkdir(join(directory, file));
    await expect(new SandboxRecords(directory).load()).rejects.toThrow('EISDIR');
  });
});
