import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { runOarlock } from '../harness/oarlock.ts';

const marker = 'marker-4711';
const machine = Machine.use();
let cluster: Cluster;

beforeAll(async () => {
  const simulated = composition({ storage: 'memory', runtime: 'simulated', network: 'host' });
  cluster = await machine.cluster({ spec: { ...simulated, roles: ['apiserver', 'controllers'], paths: ['console'] } });
});

/** Writes an object to a file and returns the file's name. */
async function fileOf(name: string, object: object): Promise<string> {
  const file = join(cluster.dir, name);
  await writeFile(file, JSON.stringify(object));
  return file;
}

describe('the token of a join', () => {
  const optionOf = (args: readonly string[], name: string) => args[args.indexOf(name) + 1] ?? '';

  it('is in no output and no log, whatever fails', async () => {
    const { stdout } = await cluster.oarlock('token', 'create');
    const args = stdout.trim().split(' ');
    const [id = '', secret = ''] = optionOf(args, '--token').split('.');
    const wrong = 'f'.repeat(16);
    const hash = optionOf(args, '--ca-hash');
    const attempts = {
      'another hash': { token: `${id}.${secret}`, hash: `sha256:${'0'.repeat(64)}`, name: 'node-c' },
      'another secret': { token: `${id}.${wrong}`, hash, name: 'node-c' },
      'a name of the API server': { token: `${id}.${secret}`, hash, name: 'localhost' },
      'a malformed token': { token: `${id}.${secret}.${marker}`, hash, name: 'node-c' },
    };
    for (const [title, { token, hash: caHash, name }] of Object.entries(attempts)) {
      const server = `https://127.0.0.1:${cluster.port}`;
      const options = [
        '--server',
        server,
        '--token',
        token,
        '--ca-hash',
        caHash,
        '--node-name',
        name,
        '--data-dir',
        machine.path('refused'),
      ];
      const result = await runOarlock(['node', 'join', ...options]);
      const output = `${result.stdout}${result.stderr}${await cluster.log()}`;
      expect([title, result.code === 0]).toEqual([title, false]);
      for (const hidden of [secret, wrong, marker]) expect([title, output.includes(hidden)]).toEqual([title, false]);
    }
  });
});

describe('the content of a Secret', () => {
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'hidden' }, stringData: { password: marker } };

  it('is not in the trace of a request that failed, nor in the log', async () => {
    await cluster.kubectl.run(['create', '-f', await fileOf('secret.json', secret)]);
    const patch = JSON.stringify({ data: { password: marker, [marker]: 7 } });
    const failed = await cluster.kubectl.try(['patch', 'secret', 'hidden', '--type=merge', '-p', patch]);
    expect(failed.code).not.toBe(0);
    for (const options of [[], ['--failed'], ['-o', 'json']]) {
      const { code, stdout } = await cluster.oarlock('trace', 'secret/hidden', '-n', 'default', ...options);
      expect([code, stdout.includes(marker)]).toEqual([0, false]);
    }
    expect(await cluster.log()).not.toContain(marker);
  });

  it('is not in the explanation of a denial', async () => {
    const file = await fileOf('explained.json', { ...secret, metadata: { name: 'explained', namespace: 'missing' } });
    const { code, stdout, stderr } = await cluster.oarlock(
      'auth',
      'why',
      'root',
      'create',
      'secrets',
      '-n',
      'missing',
      '-g',
      'system:masters',
      '-f',
      file,
    );
    expect([code, stdout]).toEqual([1, expect.stringContaining('admission-namespace-lifecycle')]);
    expect(`${stdout}${stderr}${await cluster.log()}`).not.toContain(marker);
  });
});

describe('secrets of the environment', () => {
  const encoded = Buffer.from(`user:${marker}`).toString('base64');
  /** The environment of a user whose files and variables all hold the marker. */
  async function environment(): Promise<Readonly<Record<string, string>>> {
    const home = join(cluster.dir, 'home');
    await mkdir(join(home, '.docker'), { recursive: true });
    await mkdir(join(home, '.kube'), { recursive: true });
    await writeFile(join(home, '.docker', 'config.json'), JSON.stringify({ auths: { '127.0.0.1:1': { auth: encoded } } }));
    const user = { name: 'u', user: { token: marker, password: marker } };
    await writeFile(join(home, '.kube', 'config'), JSON.stringify({ apiVersion: 'v1', kind: 'Config', users: [user] }));
    const proxy = `http://user:${marker}@127.0.0.1:1`;
    return { HOME: home, KUBECONFIG: join(home, '.kube', 'config'), HTTP_PROXY: proxy, HTTPS_PROXY: proxy, https_proxy: proxy };
  }
  const shows = (text: string) => [marker, encoded].some((secret) => text.includes(secret));

  it('are not in the output of oarlock image', async () => {
    const env = await environment();
    const dataDir = await mkdtemp(join(cluster.dir, 'images-'));
    for (const reference of ['127.0.0.1:1/app:1', 'registry.invalid/app:1', `user:${'x'.repeat(10)}@127.0.0.1:1/app`]) {
      const { code, stdout, stderr } = await runOarlock(['image', 'pull', reference, '--data-dir', dataDir], { env });
      expect([reference, code === 0, shows(stdout + stderr)]).toEqual([reference, false, false]);
    }
    await writeFile(join(env['HOME'] ?? '', '.docker', 'config.json'), `{"auths":{"127.0.0.1:1":{"auth":"${encoded}"`);
    const { stdout, stderr } = await runOarlock(['image', 'pull', '127.0.0.1:1/app:1', '--data-dir', dataDir], { env });
    expect([shows(stdout + stderr), stderr.includes('it is not JSON')]).toEqual([false, true]);
  });

  it('are neither in the output of oarlock doctor nor in its report', async () => {
    const report = join(cluster.dir, 'report.yaml');
    const { stdout, stderr } = await runOarlock(['doctor', '--report', report, '-o', 'json'], { env: await environment() });
    const text = await readFile(report, 'utf8');
    expect(text).toContain('checks:');
    expect(shows(stdout + stderr + text)).toBe(false);
  });
});

describe('oarlock auth why', () => {
  it('names the admission plugin that denies the write of a node', async () => {
    const node = (name: string, labels = {}) => ({ apiVersion: 'v1', kind: 'Node', metadata: { name, labels } });
    await cluster.kubectl.run(['create', '-f', await fileOf('node.json', node('node-b'))]);
    const why = async (user: string, object: object) =>
      cluster.oarlock('auth', 'why', user, 'patch', 'nodes', 'node-b', '-n', '', '-f', await fileOf('update.json', object));
    const foreign = await why('system:node:node-c', node('node-b'));
    expect([foreign.code, foreign.stdout]).toEqual([
      1,
      expect.stringMatching(/admission-node-restriction +deny: node "node-c" is not allowed to modify node "node-b"/),
    ]);
    const labelled = await why('system:node:node-b', node('node-b', { 'node-restriction.kubernetes.io/team': 'a' }));
    expect(labelled.stdout).toMatch(
      /admission-node-restriction +deny: is not allowed to modify labels: node-restriction.kubernetes.io\/team/,
    );
    const own = await why('system:node:node-b', node('node-b', { team: 'a', 'kubelet.kubernetes.io/team': 'a' }));
    expect(own.stdout).toMatch(/^yes\n[^]*admission +allow: \d+ plugins admit the request/);
  });

  it('names the reason of the node authorizer', async () => {
    const { code, stdout } = await cluster.oarlock('auth', 'why', 'system:node:node-b', 'get', 'secrets', 'hidden', '-n', 'default');
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/authz-node +no-opinion: no relationship found between node 'node-b' and this object/),
    ]);
  });
});
