import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { mustRun, runProgram } from '../harness/programs.ts';

const sources = join(import.meta.dirname, '..', 'go');
const libraries = (process.env['GOPATH'] ?? '/usr/share/gocode').split(delimiter);
const go = findGo();
const found = go !== undefined && ['client-go', 'apiextensions-apiserver'].every(isLibrary);
const reason = 'no Go toolchain with golang-k8s-client-go-dev and golang-k8s-apiextensions-apiserver-dev is installed';

function findGo(): string | undefined {
  const root = process.env['GOROOT'];
  const candidates = root === undefined ? (process.env['PATH'] ?? '').split(delimiter) : [join(root, 'bin')];
  return candidates.map((folder) => join(folder, 'go')).find(isProgram);
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, 1);
    return true;
  } catch {
    return false;
  }
}

function isLibrary(name: string): boolean {
  return libraries.some((folder) => existsSync(join(folder, 'src', 'k8s.io', name)));
}

/** All steps except `restart`, which needs a test that restarts the server. */
const steps = [
  'apply',
  'apply-status',
  'collections',
  'controller',
  'custom',
  'defaults',
  'definitions',
  'discovery',
  'encodings',
  'errors',
  'events',
  'eviction',
  'finalizers',
  'informers',
  'leader',
  'revisions',
  'lists',
  'metadata',
  'openapi',
  'owners',
  'patches',
  'reviews',
  'scale',
  'streams',
  'tables',
  'tokens',
  'typed',
  'watch-list',
  'watch-tools',
];

/** client-go as controllers use it: protobuf, HTTP/2, informers with WatchList, and client-go's consistency detector. */
describe.skipIf(!found)(`Go's clients${found ? '' : ` (skipped: ${reason})`}`, () => {
  const machine = Machine.use();
  const env = { KUBE_WATCHLIST_INCONSISTENCY_DETECTOR: 'true' };
  let program: string;
  let cluster: Cluster;
  beforeAll(async () => {
    program = machine.path('go-clients');
    await mustRun(go ?? 'go', ['build', '-o', program, '.'], {
      cwd: sources,
      env: { GOPATH: libraries.join(delimiter), GO111MODULE: 'off', CGO_ENABLED: '0', GOTOOLCHAIN: 'local', GOFLAGS: '' },
      timeoutMs: 850_000,
    });
    cluster = await machine.cluster({ spec: composition({ storage: 'embedded', runtime: 'process', network: 'host' }) });
  });
  const args = (step: string) => ['-kubeconfig', cluster.kubeconfig, '-timeout', '4m', step];

  it('has exactly these steps', async () => {
    expect((await mustRun(program, ['list'])).trim().split('\n')).toEqual([...steps, 'restart'].sort());
  });

  it.each(steps)('%s', async (step) => {
    const { code, stdout, stderr } = await runProgram(program, args(step), { env });
    expect(stdout.trimEnd().split('\n').at(-1), `${stdout}\n${stderr.slice(-8000)}`).toBe(`ok ${step}`);
    expect(code).toBe(0);
  });

  it('restart: informers continue after a restart of the server', async () => {
    const child = spawn(program, args('restart'), { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, ...env } });
    const exit = once(child, 'exit');
    const lines: string[] = [];
    try {
      for await (const line of createInterface({ input: child.stdout })) {
        lines.push(line);
        if (line !== 'restart the server') continue;
        await cluster.kill9();
        await cluster.up();
        child.stdin.write('restarted\n');
      }
    } finally {
      child.kill('SIGKILL');
    }
    expect((await exit)[0], lines.join('\n')).toBe(0);
    expect(lines.at(-1)).toBe('ok restart');
  });
});
