import { readFile, writeFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { etcdMissing } from '../harness/etcd.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';
import { runProgram, type Finished } from '../harness/programs.ts';

const missing = etcdMissing();
const isSkipped = missing !== undefined && !everythingIsNeeded;

/** Runs `npm run differ` without the installation that precedes it. */
function differ(...args: readonly string[]): Promise<Finished> {
  const source = ['--conditions=@oarlock/source', '--import', import.meta.resolve('@oxc-node/core/register')];
  return runProgram(process.execPath, [...source, 'e2e/differ/main.ts', ...args], { cwd: root, timeoutMs: 800_000 });
}

const apiServer = { roles: ['apiserver'], server: { address: '127.0.0.1' } };
/** A part of the corpus that takes seconds: whole objects, media types, errors and the life of two kinds. */
const part = ['create/pods/m', 'create/deployments.apps/m', 'accept/', 'content-type/', 'columns/', '/configmaps', '/pods'].flatMap(
  (name) => ['--only', name],
);
/** The number of requests decides what is compared; the time only ends a run that hangs. */
const limit = ['--seconds', '600'];
const bounds = ['--max-requests', '900', ...limit];

describe('npm run differ', () => {
  const machine = Machine.use();

  it('finds no difference between answers of one API server', async () => {
    const { code, stdout, stderr } = await differ(...limit, '--max-requests', '10800');
    console.log(stdout);
    expect([code, code === 0 ? '' : `${stdout}\n${stderr}`]).toEqual([0, '']);
    const [, comparisons = '0', kinds = '0'] = /(\d+) comparisons of (\d+) kinds, 0 differences/.exec(stdout) ?? [];
    expect(Number(kinds)).toBeGreaterThanOrEqual(89);
    // each check has compared each kind
    expect(Number(comparisons)).toBeGreaterThan(3000);
  });

  it.each([
    ['an unknown option', ['--frobnicate']],
    ['two references', ['--reference', 'a', '--replay', 'b']],
    ['a recording without a reference', ['--record', 'a']],
    ['a wrong number', ['--seconds', 'soon']],
    ['a missing kubeconfig', ['--reference', '/absent/kubeconfig', '--subject', '/absent/kubeconfig']],
  ])('exits with 2 on %s', async (_, args) => {
    const { code, stderr } = await differ(...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--reference KUBECONFIG')]);
  });

  describe.skipIf(isSkipped)(`with storage in etcd as reference${isSkipped ? ` (skipped: ${missing})` : ''}`, () => {
    let [reference, subject, planted]: readonly Cluster[] = [];
    const kubeconfigOf = (cluster: Cluster | undefined) => cluster?.kubeconfig ?? '';
    let recording: string;
    beforeAll(async () => {
      const etcd = await machine.etcd();
      const admission = ['admission-namespace-lifecycle', 'admission-service-account', 'admission-priority'];
      const withoutTolerations = { ...apiServer, storage: 'storage-memory', admission };
      const storage = { use: 'storage-etcd', config: { endpoints: [etcd.endpoint] } };
      [reference, subject, planted] = await Promise.all([
        machine.cluster({ spec: { ...apiServer, storage } }),
        machine.cluster({ spec: { ...apiServer, storage: 'storage-memory' } }),
        machine.cluster({ spec: withoutTolerations }),
      ]);
      recording = machine.path('recording.ndjson');
    });

    it('finds no difference to storage in memory, and records the answers', async () => {
      const args = ['--reference', kubeconfigOf(reference), '--subject', kubeconfigOf(subject), '--record', recording, ...part, ...bounds];
      const { code, stdout, stderr } = await differ(...args);
      expect([code, code === 0 ? '' : `${stdout}\n${stderr}`]).toEqual([0, '']);
      expect(Number(/^(\d+) requests of/m.exec(stdout)?.[1])).toBeGreaterThan(300);
      const [head, ...cases] = (await readFile(recording, 'utf8')).trimEnd().split('\n');
      expect(JSON.parse(head ?? '')).toMatchObject({ format: 'oarlock-differ-recording', version: 1 });
      expect(cases.length).toBeGreaterThan(100);
    });

    it('finds what a missing admission plugin changes, by class and with an example', async () => {
      const args = ['--reference', kubeconfigOf(reference), '--subject', kubeconfigOf(planted), '--only', 'create/pods/minimal'];
      const { code, stdout } = await differ(...args);
      expect(code).toBe(1);
      expect(stdout).toContain('✖ 1 x create pods body spec.tolerations');
      expect(stdout).toContain('POST /api/v1/namespaces/');
      expect(stdout).toMatch(/subject: +absent/);
    });

    it('accepts a difference that a file gives a reason for', async () => {
      const file = machine.path('accepted.json');
      const entry = { reason: 'the subject has no default tolerations on purpose', part: 'body', path: 'spec\\.tolerations' };
      await writeFile(file, JSON.stringify({ version: 1, differences: [entry] }));
      const args = ['--reference', kubeconfigOf(reference), '--subject', kubeconfigOf(planted), '--only', 'create/pods/minimal'];
      const { code, stdout } = await differ(...args, '--accepted', file);
      expect([code, stdout]).toEqual([0, expect.stringMatching(/accepted: the subject has no default tolerations on purpose/)]);
    });

    it('compares with a recording, and finds an answer that was changed in it', async () => {
      const same = await differ('--replay', recording, ...part, ...bounds);
      expect([same.code, same.code === 0 ? '' : same.stdout]).toEqual([0, '']);
      const text = await readFile(recording, 'utf8');
      const changed = machine.path('changed.ndjson');
      await writeFile(changed, text.replaceAll('"status":415', '"status":400'));
      const { code, stdout } = await differ('--replay', changed, ...part, ...bounds);
      expect([code, stdout]).toEqual([1, expect.stringMatching(/reference: 400 .*\n +subject: +415 /)]);
      await writeFile(changed, text.replace('"version":1', '"version":2'));
      const newer = await differ('--replay', changed);
      expect([newer.code, newer.stderr]).toEqual([2, expect.stringContaining('version')]);
    });
  });
});
