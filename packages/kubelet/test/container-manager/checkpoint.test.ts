import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readCheckpoint, writeCheckpoint } from '../../src/container-manager/checkpoint.ts';

describe('checkpoint', () => {
  let directory: string;
  let file: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-checkpoint-'));
    file = join(directory, 'state');
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('is read as it was written', async () => {
    await writeCheckpoint(file, { pods: ['a'] });
    await writeCheckpoint(file, { pods: ['b'] });
    expect(await readCheckpoint(file)).toEqual({ pods: ['b'] });
    expect(await readdir(directory)).toEqual(['state']);
  });

  it('is undefined if none was written', async () => {
    expect(await readCheckpoint(file)).toBeUndefined();
  });

  it('is not taken for absent if it cannot be read', async () => {
    await mkdir(file);
    await expect(readCheckpoint(file)).rejects.toThrow(`the checkpoint ${file} cannot be read: EISDIR`);
  });

  it('names its file if it is damaged', async () => {
    await writeFile(file, '{"pods":');
    await expect(readCheckpoint(file)).rejects.toThrow(`the checkpoint ${file} cannot be read: `);
  });
});
