import { createServer } from 'node:net';
import { once } from 'node:events';
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ClusterSpec } from '../harness/composition.ts';
import { httpsStatus } from '../harness/http.ts';
import { Machine } from '../harness/machine.ts';
import { listPlugins, oarlock, runOarlock } from '../harness/oarlock.ts';
import { Daemon, killPid, processesBelow } from '../harness/programs.ts';
import { until } from '../harness/until.ts';

/** The API server alone, which starts quickly and suffices for the command line. */
const small: ClusterSpec = { roles: ['apiserver', 'controllers'], storage: 'storage-memory' };

describe('the command line', () => {
  const machine = Machine.use();

  it.each([
    [[], 2],
    [['--help'], 0],
    [['--version'], 0],
    [['up', '--help'], 0],
    [['fly'], 2],
    [['up', '--wings'], 2],
    [['up', '--port', 'many'], 2],
    [['up', '--port', '70000'], 2],
    [['up', '--roles', 'pilot'], 2],
    [['up', '--roles', ''], 2],
    [['config', 'validate'], 2],
    [['trace'], 2],
    [['node', 'join', '--server', 'https://127.0.0.1:1'], 2],
    [['node', 'join', '--server', 'https://127.0.0.1:1', '--token', 'x', '--ca-hash', 'y'], 2],
  ] as const)('%j exits with %i', async (args, wanted) => {
    const { code, stdout, stderr } = await runOarlock([...args], { cwd: '/' });
    expect({ code, said: wanted === 0 ? stdout !== '' : stderr !== '' }).toEqual({ code: wanted, said: true });
    expect(stderr).not.toMatch(/\bat .*\.[jt]s:\d+/);
  });

  it('lists the plugins by slot, and whether they can run here', async () => {
    const plugins = await listPlugins();
    const find = (id: string) => plugins.find((plugin) => plugin.id === id);
    expect(find('storage-memory')).toMatchObject({
      slot: expect.stringMatching(/^storage/),
      available: true,
      declares: { durable: false },
    });
    expect(find('runtime-simulated')).toMatchObject({ available: true, declares: { simulated: true } });
    expect(find('network-bridge')).toMatchObject({ declares: { namespace: 'pod' } });
    for (const plugin of plugins) if (!plugin.available) expect(plugin.because, plugin.id).toMatch(/\w{3}/);
    const { code, stdout } = await runOarlock(['plugins', 'list']);
    expect(code).toBe(0);
    for (const { id } of plugins) expect(stdout).toContain(id);
  });

  it('runs a cluster in the background: up --detach, status, kubeconfig, a second up, down', async () => {
    const cluster = await machine.prepare({ spec: small });
    const nothing = await cluster.oarlock('status');
    expect(nothing).toMatchObject({ code: 1, stderr: expect.stringContaining('no cluster is running') });

    const up = await runOarlock([...cluster.upArgs, '--detach'], { cwd: cluster.dir });
    expect(up).toMatchObject({ code: 0, stdout: expect.stringContaining(`https://127.0.0.1:${cluster.port}`) });
    expect(await cluster.kubectl.run(['get', 'namespaces', '-o', 'name'])).toContain('namespace/default');

    const status = await cluster.oarlock('status');
    expect(status).toMatchObject({ code: 0, stdout: expect.stringMatching(/apiserver, controllers; ready; https:/) });
    expect(status.stdout).toMatch(/readyz check passed/);
    const facts = JSON.parse((await cluster.oarlock('status', '-o', 'json')).stdout) as object;
    expect(facts).toMatchObject({
      roles: ['apiserver', 'controllers'],
      ready: true,
      apiServer: { plugins: [], nodesWithoutIsolation: [] },
    });
    const token = JSON.parse((await cluster.oarlock('token', 'create', '-o', 'json')).stdout) as object;
    expect(token).toMatchObject({ role: 'node', caHash: expect.stringMatching(/^sha256:/), command: expect.arrayContaining(['join']) });
    const kubeconfig = await cluster.oarlock('kubeconfig');
    expect(kubeconfig).toMatchObject({ code: 0, stdout: await readFile(cluster.kubeconfig, 'utf8') });

    const second = await runOarlock([...cluster.upArgs], { cwd: cluster.dir });
    expect(second).toMatchObject({ code: 1, stderr: expect.stringContaining('is in use by process') });
    expect(await cluster.kubectl.run(['get', 'namespaces', '-o', 'name'])).toContain('namespace/default');

    expect(await cluster.oarlock('down')).toMatchObject({ code: 0, stdout: expect.stringContaining('stopped process') });
    expect(await processesBelow(cluster.dataDir)).toEqual([]);
    expect(await cluster.oarlock('status')).toMatchObject({ code: 1 });
    expect(await cluster.oarlock('down')).toMatchObject({ code: 0, stdout: expect.stringContaining('no cluster is running') });
  });

  it('writes files that only their owner can read', async () => {
    const cluster = await machine.cluster({ spec: small });
    const open: string[] = [];
    const walk = async (directory: string): Promise<void> => {
      for (const entry of await readdir(directory, { withFileTypes: true })) {
        const path = join(directory, entry.name);
        // a file that is being written is renamed in the next moment
        const { mode } = await lstat(path).catch((error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOENT') return { mode: 0 };
          throw error;
        });
        if (!entry.isSymbolicLink() && (mode & 0o077) !== 0) open.push(`${path} ${(mode & 0o777).toString(8)}`);
        if (entry.isDirectory()) await walk(path);
      }
    };
    await walk(cluster.dataDir);
    expect((await lstat(cluster.dataDir)).mode & 0o777).toBe(0o700);
    expect((await lstat(cluster.kubeconfig)).mode & 0o777).toBe(0o600);
    expect(open).toEqual([]);
    await machine.dispose(cluster);
  });

  it('reports a port that is in use, and leaves no process running', async () => {
    const cluster = await machine.prepare({ spec: small });
    const squatter = createServer().listen(cluster.port, '127.0.0.1');
    await once(squatter, 'listening');
    try {
      const { code, stderr } = await runOarlock([...cluster.upArgs], { cwd: cluster.dir });
      expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(new RegExp(`${cluster.port}`)) });
      expect(stderr).toMatch(/in use|EADDRINUSE/);
      expect(await cluster.oarlock('status')).toMatchObject({ code: 1 });
    } finally {
      squatter.close();
    }
    expect(await cluster.up()).toBeGreaterThan(0);
    await machine.dispose(cluster);
  });

  it('exits with 0 on a signal, also before it is ready, and can start again immediately', async () => {
    const cluster = await machine.prepare({ spec: small });
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      await cluster.up();
      expect(await cluster.daemon.stop(signal)).toBe(0);
    }
    await cluster.up();
    cluster.daemon.signal('SIGINT');
    expect(await cluster.daemon.stop('SIGINT'), 'the second of two Ctrl-C').toBe(0);
    const early = new Daemon(oarlock.file, [...oarlock.args, ...cluster.upArgs], { cwd: cluster.dir });
    await until('the data directory is locked', () =>
      readFile(join(cluster.dataDir, 'process.json')).then((text) => JSON.parse(text.toString()).pid === early.pid),
    );
    const code = await early.stop('SIGTERM');
    expect([0, 1]).toContain(code);
    await cluster.up();
    await machine.dispose(cluster);
  });

  it('starts over the data that kill -9 left, also after an unfinished start', async () => {
    const cluster = await machine.prepare({ spec: small });
    for (let round = 0; round < 3; round++) {
      const daemon = cluster.launch();
      await until('the storage has data', () => readdir(cluster.dataDir).then((names) => names.length > round));
      killPid(daemon.pid, 'SIGKILL');
      await daemon.exit;
    }
    await cluster.up();
    expect(await httpsStatus(`${cluster.api.server}/readyz`, cluster.api.tls)).toBe(200);
    await machine.dispose(cluster);
  });

  it('generates a plugin that builds and that a cluster can load', async () => {
    const dir = machine.path('plugin');
    const { code, stderr } = await runOarlock(['plugins', 'new', 'admission', 'greeting', '--dir', dir]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const names = await readdir(dir, { recursive: true });
    expect(names).toEqual(expect.arrayContaining(['package.json', 'README.md', 'src/plugin.ts', 'test/contract.test.ts']));
    expect(await runOarlock(['plugins', 'new', 'wings', 'x', '--dir', machine.path('plugin')])).toMatchObject({ code: 2 });
  });
});
