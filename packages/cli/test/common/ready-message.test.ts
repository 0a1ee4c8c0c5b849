import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exampleFolder, readyMessage, type ReadyCluster } from '../../src/common/ready-message.ts';

const cluster = (roles: ReadyCluster['plan']['roles'], ...ids: readonly string[]): ReadyCluster => ({
  plan: { roles, nodeName: 'n1', plugins: ids.map((id) => ({ plugin: { id } })) },
  server: 'https://10.0.0.1:6443',
  startedInMs: 1234,
});
const options = { dataDir: '/data', notices: [] };
const linesOf = (...args: Parameters<typeof readyMessage>) => readyMessage(...args).split('\n');

describe('the message of a process that is ready', () => {
  it('begins with the server, and names the next commands', () => {
    const lines = linesOf(cluster(['apiserver', 'controllers'], 'runtime-simulated'), options);
    expect(lines[0]).toBe('Oarlock is ready at https://10.0.0.1:6443 (1.23 s): apiserver, controllers.');
    expect(lines).toContain('  export KUBECONFIG=/data/admin.kubeconfig');
    expect(lines).toContain('  kubectl create deployment hello --image=any --replicas=3');
    expect(lines.at(-1)).toMatch(/^ {2}\S.* down --data-dir \/data$/);
    expect(lines.join('\n')).not.toMatch(/Console|token create/);
  });

  it('quotes paths with spaces, so that its commands can be pasted into a shell', () => {
    const lines = linesOf(cluster(['apiserver'], 'runtime-simulated'), { ...options, dataDir: "/my data/it's" });
    expect(lines).toContain(String.raw`  export KUBECONFIG='/my data/it'\''s/admin.kubeconfig'`);
    expect(lines.at(-1)).toContain(String.raw` --data-dir '/my data/it'\''s'`);
    expect(linesOf(cluster(['kubelet']), { ...options, dataDir: '/a b' }).at(-1)).toMatch(/ --data-dir '\/a b'$/);
  });

  it('shows how servers join, the link of the console, and notices', () => {
    const more = { init: true, link: 'https://10.0.0.1:6443/console', notices: ['a notice'] };
    const lines = linesOf(cluster(['apiserver'], 'runtime-process'), { ...options, ...more });
    expect(lines[1]).toBe('a notice');
    expect(lines.find((line) => line.includes('token create'))).toMatch(/token create --role server --data-dir \/data$/);
    expect(lines).toContain('  Console: https://10.0.0.1:6443/console');
    expect(lines.find((line) => line.includes('kubectl apply'))).toMatch(/^ {2}kubectl apply -f .*examples\/hello\/$/);
  });

  it.each<[ReadyCluster['plan']['roles'], string]>([
    [['kubelet', 'proxy'], 'The node n1 is ready at https://10.0.0.1:6443 (1.23 s): kubelet, proxy.'],
    [['scheduler'], 'Oarlock is ready at https://10.0.0.1:6443 (1.23 s): scheduler.'],
  ])('names only how to stop a process without an API server: %j', (roles, first) => {
    const lines = linesOf(cluster(roles), options);
    expect(lines[0]).toBe(first);
    expect(lines.filter((line) => line.startsWith('  '))).toEqual([expect.stringMatching(/ down --data-dir \/data$/)]);
  });
});

describe('the folder of an example', () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'examples-'));
    await mkdir(join(root, 'examples', 'hello'), { recursive: true });
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  it.each(['bundle/oarlock.cjs', 'packages/cli/bundle/oarlock.cjs', 'packages/cli/dist/common/ready-message.js'])(
    'is found from %s, whatever the current directory is',
    (module) => {
      expect(exampleFolder('hello', pathToFileURL(join(root, module)).href)).toBe(join(root, 'examples', 'hello', '/'));
    },
  );
});
