import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '@oarlock/cluster/run';
import { parseClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { clusterReport, latestProblems } from '../../src/doctor/cluster-report.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-report-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

describe('clusterReport', () => {
  it('has the composition of a running cluster, with configs but without secrets', async () => {
    const webhook = { use: 'audit-webhook', config: { url: 'https://ada:hunter2@127.0.0.1:1/events' } };
    const spec = { storage: 'storage-memory', roles: ['apiserver'], audit: [webhook] };
    const file = parseClusterFile(JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec }), 'cluster.yaml');
    const running = await run({ file, dataDir: directory, port: 0, signal: new AbortController().signal });
    try {
      const { composition, ...report } = await clusterReport(directory);
      expect(report).toMatchObject({ process: { roles: ['apiserver'], ready: true }, pluginHealth: [] });
      expect(composition).toContainEqual(expect.objectContaining({ name: 'storage-memory', slot: 'storage/v1' }));
      expect(JSON.stringify(composition)).toContain('127.0.0.1:1/events');
      expect(JSON.stringify(composition)).not.toContain('hunter2');
    } finally {
      await running.stop();
    }
  }, 60_000);

  it('reports why the composition is unknown', async () => {
    expect(await clusterReport(directory)).toEqual({ composition: expect.stringContaining('unknown: no cluster has run in'), log: [] });
  });
});

describe('latestProblems', () => {
  const line = (level: number, fields: object) => `${JSON.stringify({ level, time: 1, ...fields })}\n`;

  it('has the last 50 warnings and errors, without secrets and with bounded texts', async () => {
    const log = join(directory, 'oarlock.log');
    const lines = Array.from({ length: 60 }, (_, index) => line(40, { msg: `warning ${index}` }));
    const last = line(50, { msg: 'bearer abcdef', password: 'hunter2', err: { stack: 'x '.repeat(9_000) } });
    await writeFile(log, ['cut off"}\n', line(30, { msg: 'information' }), ...lines, last, 'no JSON\n'].join(''));
    const problems = await latestProblems(log);
    expect(problems.map(({ msg }) => msg)).toEqual([
      ...Array.from({ length: 49 }, (_, index) => `warning ${index + 11}`),
      'bearer <redacted>',
    ]);
    expect(JSON.stringify(problems)).not.toContain('hunter2');
    expect(JSON.stringify(problems.at(-1)).length).toBeLessThan(2_200);
  });

  it('reads only the end of a long log', async () => {
    const log = join(directory, 'oarlock.log');
    await writeFile(log, line(40, { msg: 'early' }) + line(30, { msg: 'x'.repeat(1 << 20) }) + line(50, { msg: 'late' }));
    expect((await latestProblems(log)).map(({ msg }) => msg)).toEqual(['late']);
  });

  it('reports a log that cannot be read', async () => {
    expect(await latestProblems(directory)).toMatchObject([{ msg: expect.stringMatching(/^the log cannot be read: EISDIR/) }]);
  });
});
