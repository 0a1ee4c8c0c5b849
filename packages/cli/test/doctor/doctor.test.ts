import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { textOf, type Diagnosis } from '../../src/doctor/doctor.ts';
import { oarlock } from '../support/plugins-command.ts';

it('prints what is lacking with its meaning and remedy, and what can run', () => {
  expect(
    textOf({
      machine: {},
      checks: [
        { name: 'node', level: 'ok', found: 'v24.1.0' },
        { name: 'nftables', level: 'warn', found: 'none', affects: 'Bridges do not run.', remedy: 'Install it.' },
      ],
      compositions: [
        { name: 'embedded', canRun: true, reasons: [] },
        { name: 'bridge', canRun: false, reasons: ['a: no', 'b: no'] },
      ],
    }),
  ).toBe(`ok    node      v24.1.0
warn  nftables  none
                Bridges do not run.
                -> Install it.

Ready compositions that can run here (\`oarlock up -f NAME\`):
yes   embedded
no    bridge    a: no
                b: no`);
});

describe('oarlock doctor', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-doctor-'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('prints facts, and writes a redacted report for its owner only', async () => {
    const { code, stdout, stderr } = await oarlock(['doctor', '-o', 'json', '--report', 'report.yaml'], directory);
    // a command that takes long reports what it does
    const wrote = /^(?:examining this machine \.\.\.\n)?wrote report\.yaml: read it before you attach it to a bug report\n$/;
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(wrote) });
    const { checks, compositions } = JSON.parse(stdout) as Diagnosis;
    expect(checks.map(({ name }) => name)).toEqual(expect.arrayContaining(['node', 'namespaces', 'clock']));
    expect(compositions).toContainEqual({ name: 'embedded', canRun: true, reasons: [] });
    const file = join(directory, 'report.yaml');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const report = await readFile(file, 'utf8');
    expect((parse(report) as Diagnosis).checks.map(({ name }) => name)).toEqual(checks.map(({ name }) => name));
    expect(parse(report)).toMatchObject({ cluster: { composition: expect.stringContaining('no cluster has run in'), log: [] } });
  });

  it('rejects unknown formats and a report that cannot be written', async () => {
    expect(await oarlock(['doctor', '-o', 'table'], directory)).toMatchObject({ code: 2, stdout: '' });
    expect(await oarlock(['doctor', '--report', 'none/report.yaml'], directory)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--report: none/report.yaml cannot be written'),
    });
    expect(existsSync(join(directory, 'none'))).toBe(false);
  });
});
