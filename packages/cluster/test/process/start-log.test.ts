import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@oarlock/primitives/logger';
import { expect, it } from 'vitest';
import { parseClusterFile } from '../../src/cluster-file/cluster-file.ts';
import { startLog } from '../../src/process/start-log.ts';
import { run } from '../../src/run.ts';

it('logs everything, and shows warnings and errors with their reason', () => {
  const [logged, warnings]: [string[], string[]] = [[], []];
  const record = (level: string) => (_: object, message: string) => void logged.push(`${level} ${message}`);
  const log = { ...silentLogger, info: record('info'), warn: record('warn'), error: record('error'), child: () => log };
  const start = startLog(log, (warning) => warnings.push(warning)).child({ plugin: 'storage-etcd' });
  start.info({}, 'adopted');
  start.warn({ reason: 'refused' }, 'waits');
  start.warn({ error: 'refused' }, 'waits');
  start.error({}, 'ended');
  expect(logged).toEqual(['info adopted', 'warn waits', 'warn waits', 'error ended']);
  expect(warnings).toEqual(['waits (refused)', 'ended']);
});

it('shows what a shared storage waits for before it has started', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'start-log-'));
  await writeFile(
    join(dir, 'storage-waiting.mjs'),
    `import { z } from 'zod';
import { Storage } from '@oarlock/spi/storage';
export default Storage.plugin({
  id: 'storage-waiting',
  declares: { durable: true, shared: true },
  config: z.strictObject({}),
  create: (_, { log }) => ({
    start(signal) {
      log.warn({ reason: 'no leader' }, 'waits for a quorum');
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    },
  }),
});
`,
  );
  const text = 'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n  roles: [apiserver]\n  storage: ./storage-waiting.mjs\n';
  const stop = new AbortController();
  const warnings: string[] = [];
  const onWarning = (warning: string) => {
    warnings.push(warning);
    if (warning.includes('quorum')) stop.abort(new Error('stopped by the test'));
  };
  try {
    const file = parseClusterFile(text, join(dir, 'cluster.yaml'));
    await expect(run({ file, dataDir: join(dir, 'data'), port: 0, onWarning, signal: stop.signal })).rejects.toThrow(/stopped by the test/);
    expect(warnings).toContain('waits for a quorum (no leader)');
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});
