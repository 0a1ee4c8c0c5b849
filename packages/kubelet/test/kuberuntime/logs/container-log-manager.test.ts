import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { silentLogger } from '@oarlock/primitives/logger';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ContainerLogManager } from '../../../src/kuberuntime/logs/container-log-manager.ts';

describe('ContainerLogManager', () => {
  let directory: string;
  let path: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-rotation-'));
    path = join(directory, '0.log');
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('rotates large logs, compresses older ones and limits their number', async () => {
    const clock = new FakeClock();
    const reopened: string[] = [];
    let refuses = false;
    const driver = {
      async reopenContainerLog(id: string) {
        if (refuses) throw new Error('not now');
        reopened.push(id);
        await writeFile(path, '');
      },
    } as unknown as RuntimeDriver;
    const rotation = new ContainerLogManager({
      clock,
      log: silentLogger,
      signal: new AbortController().signal,
      maxSizeBytes: 10,
      maxFiles: 3,
      periodMs: 10_000,
      logs: () => [
        { path, containerId: 'c', driver },
        { path: join(directory, 'none'), containerId: 'x', driver },
      ],
    });
    await writeFile(path, 'small');
    await rotation.rotateLogs();
    expect(await readdir(directory)).toEqual(['0.log']);
    for (const text of ['first long line', 'second long line', 'third long line', 'fourth long line']) {
      await clock.advance(1000);
      await writeFile(path, text);
      await rotation.rotateLogs();
    }
    expect(reopened).toEqual(['c', 'c', 'c', 'c']);
    const files = (await readdir(directory)).sort();
    expect(files).toEqual(['0.log', '0.log.20260101-000003.gz', '0.log.20260101-000004']);
    expect(gunzipSync(await readFile(join(directory, files[1] ?? ''))).toString()).toBe('third long line');
    expect(await readFile(join(directory, files[2] ?? ''), 'utf8')).toBe('fourth long line');
    refuses = true;
    await clock.advance(1000);
    await writeFile(path, 'still written here');
    await rotation.rotateLogs();
    expect((await stat(path)).size).toBe(18);
  });
});
