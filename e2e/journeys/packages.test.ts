import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pack } from '../../tools/pack.mjs';
import { singleFile, standalone } from '../../tools/standalone.mjs';
import { Kubectl, kubectlBinaries } from '../harness/kubectl.ts';
import { NpmRegistry } from '../harness/npm-registry.ts';
import { root } from '../harness/oarlock.ts';
import { checkTypes, lintPackage } from '../harness/package-lint.ts';
import { writePluginPackage } from '../harness/plugin-package.ts';
import { freePort, runProgram, type Finished } from '../harness/programs.ts';

const maxUnpackedBytes = 15 * 1024 * 1024;
const asUser = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/** The packages as a user installs them, in folders from which the checkout cannot be found. */
describe('the published packages', () => {
  let home: string;
  let registry: NpmRegistry;
  let packages: string;
  /** Arguments of `env` for an environment without the settings of the npm that runs the tests. */
  const environment = () => [
    '-i',
    `PATH=${process.env['PATH'] ?? ''}`,
    `HOME=${home}`,
    `npm_config_registry=${registry.url}`,
    `npm_config_cache=${join(home, '.npm')}`,
    'npm_config_yes=true',
    'NO_COLOR=1',
    'npm_config_update_notifier=false',
  ];
  const attempt = (command: string, args: readonly string[], cwd: string) =>
    runProgram('env', [...environment(), command, ...args], { cwd, timeoutMs: 300_000, ...asUser });

  async function run(command: string, args: readonly string[], cwd: string): Promise<Finished> {
    const finished = await attempt(command, args, cwd);
    if (finished.code !== 0)
      throw new Error(`${command} ${args.join(' ')} ended with ${finished.code}\n${finished.stdout}\n${finished.stderr}`);
    return finished;
  }
  /** Runs a command and returns its processor time with that of its descendants. Unlike the elapsed time it does not depend on what else runs. */
  async function measure(command: readonly string[], cwd: string): Promise<Finished & { readonly seconds: number }> {
    const finished = await run('sh', ['-c', '"$@"; code=$?; times; exit $code', 'sh', ...command], cwd);
    const ofChildren = finished.stdout.trimEnd().split('\n').at(-1) ?? '';
    const times = [...ofChildren.matchAll(/(\d+)m([\d.]+)s/g)].map(([, minutes, seconds]) => Number(minutes) * 60 + Number(seconds));
    expect(times, ofChildren).toHaveLength(2);
    return { ...finished, seconds: times.reduce((sum, time) => sum + time, 0) };
  }
  function kubectlIn(folder: string, dataDir = '.oarlock'): Kubectl {
    const binary = kubectlBinaries().at(-1);
    if (binary === undefined) throw new Error('kubectl is missing');
    return new Kubectl(binary, join(folder, dataDir, 'admin.kubeconfig'), join(home, 'kubectl'));
  }
  async function emptyFolder(name: string): Promise<string> {
    const folder = join(home, name);
    await mkdir(folder);
    await chmod(folder, 0o777);
    return folder;
  }

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'oarlock-packages-'));
    await chmod(home, 0o777);
    packages = join(home, 'packed');
    registry = new NpmRegistry();
    await registry.publishInstalled(root);
    await registry.publish(await pack(packages));
    await registry.start();
  }, 300_000);
  afterAll(async () => {
    await registry.stop();
    await rm(home, { recursive: true, force: true });
  });

  it('have a license, a repository, engines and ranges, and name no sources', async () => {
    const manifests = (await readdir(packages, { recursive: true })).filter((path) => /^(@oarlock\/)?[^/]+\/package\.json$/.test(path));
    expect(manifests.length).toBeGreaterThan(60);
    for (const path of manifests) {
      const text = await readFile(join(packages, path), 'utf8');
      const manifest = JSON.parse(text) as { readonly name: string; readonly version: string; readonly exports: object };
      expect(manifest, path).toMatchObject({
        license: 'Apache-2.0',
        type: 'module',
        engines: { node: '>=20.19' },
        repository: { type: 'git' },
      });
      expect(text, path).not.toMatch(/"\*"|@oarlock\/source|devDependencies|\.\/src\//);
      expect(existsSync(join(packages, path, '..', 'LICENSE')), path).toBe(true);
    }
  });

  it('pass publint, and the libraries pass arethetypeswrong in each exported module', async () => {
    const folders = (await readdir(packages, { recursive: true })).filter((path) => existsSync(join(packages, path, 'LICENSE')));
    expect(folders.length).toBeGreaterThan(60);
    expect((await Promise.all(folders.map((path) => lintPackage(join(packages, path))))).flat()).toEqual([]);
    for (const name of ['kernel', 'spi', 'client', 'controller-kit', 'testing', 'storage-memory']) {
      const { modules, findings } = await checkTypes(join(packages, '@oarlock', name));
      expect({ name, findings }).toEqual({ name, findings: [] });
      expect(modules, name).toBeGreaterThan(0);
    }
  });

  it('contain the command in one package without install scripts, below 15 MiB', async () => {
    const folder = join(packages, 'oarlock');
    const files = await Promise.all((await readdir(folder, { recursive: true })).map((name) => stat(join(folder, name))));
    expect(files.reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0)).toBeLessThan(maxUnpackedBytes);
    const { scripts, dependencies } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>;
    expect(scripts).toBeUndefined();
    expect(Object.keys(dependencies as object)).toEqual(['reflect-metadata']);
  });

  it('npx oarlock runs a cluster with pods in an empty folder', async () => {
    const folder = await emptyFolder('cluster');
    const port = String(await freePort());
    const { stdout } = await run('npx', ['oarlock', 'up', '--detach', '-f', 'embedded', '--port', port], folder);
    try {
      expect(registry.downloads).toContain('oarlock');
      expect(stdout).toMatch(/Oarlock is ready at https:\/\/127\.0\.0\.1:\d+/);
      const kubectl = kubectlIn(folder);
      const example = /kubectl apply -f (\S+)/.exec(stdout)?.[1] ?? '';
      await kubectl.run(['apply', '-f', resolve(folder, example)]);
      await kubectl.run(['wait', '--for=condition=Available', 'deployment/hello', '--timeout=180s']);
      // container-image.test.ts also runs them
      await kubectl.run(['apply', '-f', join(root, 'packaging', 'kubernetes', 'namespace.yaml')]);
      const validated = await kubectl.run([
        ...['apply', '-k', join(root, 'packaging', 'kubernetes')],
        ...['--dry-run=server', '--validate=strict', '-o', 'name', '--warnings-as-errors'],
      ]);
      expect(validated).toMatch(/^namespace\/oarlock\nconfigmap\/oarlock-\w+\nservice\/oarlock\nstatefulset\.apps\/oarlock\n$/);
    } finally {
      await run('npx', ['oarlock', 'down'], folder);
    }
  });

  it('npx oarlock init writes a composition that validate accepts', async () => {
    const folder = await emptyFolder('init');
    await run('npx', ['oarlock', 'init', 'containerd-bridge'], folder);
    expect(await readFile(join(folder, 'cluster.yaml'), 'utf8')).toMatch(/^# yaml-language-server: \$schema=\.\/cluster\.schema\.json\n/);
    const { stdout } = await run('npx', ['oarlock', 'config', 'validate', '-f', 'cluster.yaml'], folder);
    expect(stdout).toContain('cluster.yaml is valid');
    const again = await attempt('npx', ['oarlock', 'init'], folder);
    expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining('cluster.yaml already exists; nothing was written') });
    const list = await run('npx', ['oarlock', 'plugins', 'list', '-o', 'json'], folder);
    const names = (JSON.parse(list.stdout) as readonly { readonly name: string }[]).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['storage-embedded', 'runtime-containerd', 'authz-rbac', 'controller-deployment']));
  });

  /** Returns a function that runs a program of the folder where PATH has nothing but its links. */
  const alone =
    (folder: string) =>
    (...words: readonly string[]) =>
      runProgram('/usr/bin/env', ['-i', `PATH=${join(folder, 'path')}`, `HOME=${home}`, join(folder, 'path', 'oarlock'), ...words], {
        cwd: folder,
        timeoutMs: 120_000,
        ...asUser,
      });

  it('run from an archive with Node, where PATH has no Node', async () => {
    const folder = await emptyFolder('standalone');
    await run('tar', ['-xzf', await standalone(join(packages, 'oarlock'), home)], folder);
    const [unpacked = ''] = await readdir(folder);
    await mkdir(join(folder, 'path'));
    for (const program of ['dirname', 'readlink'])
      await symlink((await runProgram('which', [program])).stdout.trim(), join(folder, 'path', program));
    // links of the command are resolved, as in /usr/local/bin
    await symlink(join(folder, unpacked, 'bin', 'oarlock'), join(folder, 'path', 'oarlock'));
    expect(await alone(folder)('config', 'validate', '-f', 'embedded')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('is valid'),
    });
  });

  it('run the command line of the service unit from a single file, with plugins by name in the process, a thread and a process', async () => {
    const folder = await emptyFolder('single-file');
    await mkdir(join(folder, 'path'));
    await symlink(await singleFile(join(packages, 'oarlock'), home), join(folder, 'path', 'oarlock'));
    await writePluginPackage(join(folder, 'node_modules', 'admission-required-labels'));
    const placement = (resource: string, where: object) =>
      JSON.stringify({
        use: 'admission-required-labels',
        name: `admission-${resource.split('.')[0]}`,
        ...where,
        config: { labels: ['owner'], resources: [resource] },
      });
    await writeFile(
      join(folder, 'cluster.yaml'),
      [
        'apiVersion: oarlock.dev/v1',
        'kind: Cluster',
        'spec:',
        '  storage: storage-embedded',
        '  admission:',
        `  - ${placement('resourcequotas', {})}`,
        `  - ${placement('jobs.batch', { placement: 'thread' })}`,
        `  - ${placement('cronjobs.batch', { placement: 'process' })}`,
        '',
      ].join('\n'),
    );
    const unit = await readFile(join(root, 'packaging', 'systemd', 'oarlock.service'), 'utf8');
    const args = (/^ExecStart=\/usr\/local\/bin\/oarlock (.*)$/m.exec(unit)?.[1] ?? '')
      .replace('${OARLOCK_FILE}', 'cluster.yaml')
      .replace('${STATE_DIRECTORY}', join(folder, 'state'))
      .split(' ');
    const oarlock = alone(folder);
    expect(await oarlock(...args, '--detach', '--port', String(await freePort()))).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(
        /Oarlock is ready at https:\/\/127\.0\.0\.1:\d+ \(.*\): apiserver, controllers, scheduler\.[^]*\n  oarlock down /,
      ),
    });
    try {
      const kubectl = kubectlIn(folder, 'state');
      expect(await kubectl.run(['get', 'nodes', '-o', 'name'])).toBe('');
      for (const create of [
        ['quota', 'a'],
        ['job', 'a', '--image=a'],
        ['cronjob', 'a', '--image=a', '--schedule=@daily'],
      ])
        expect(await kubectl.try(['create', ...create]), create[0]).toMatchObject({
          code: 1,
          stderr: expect.stringContaining('required labels are missing: owner'),
        });
    } finally {
      expect(await oarlock('down', '--data-dir', 'state')).toMatchObject({ code: 0 });
    }
  });

  it.skipIf(!existsSync('/usr/bin/systemd-analyze'))('contain a service unit with an exposure below 3.0', async () => {
    const unit = join(root, 'packaging', 'systemd', 'oarlock.service');
    const { code, stdout, stderr } = await runProgram('systemd-analyze', ['security', '--offline=true', '--threshold=30', unit]);
    expect({ code, stderr }, stdout).toEqual({ code: 0, stderr: '' });
  });

  it('npx oarlock doctor reports what can run here, and completion lists the commands', async () => {
    const folder = await emptyFolder('doctor');
    const { stdout } = await run('npx', ['oarlock', 'doctor', '-o', 'json', '--report', 'report.yaml'], folder);
    const { machine, compositions } = JSON.parse(stdout) as { readonly machine: object; readonly compositions: readonly object[] };
    expect(machine).toMatchObject({ user: 'ordinary' });
    expect(compositions).toContainEqual({ name: 'embedded', canRun: true, reasons: [] });
    expect((await stat(join(folder, 'report.yaml'))).mode & 0o777).toBe(0o600);
    expect((await run('npx', ['oarlock', 'completion', 'bash'], folder)).stdout).toContain('complete -F _oarlock oarlock');
  });

  it.each(['admission', 'controller'])('npm create oarlock-plugin makes a package with green tests: %s', async (slot) => {
    const folder = await emptyFolder(`author-${slot}`);
    const own = join(folder, `${slot}-mine`);
    const steps = [
      await measure(['npm', 'create', 'oarlock-plugin', slot, 'mine'], folder),
      await measure(['npm', 'install', '--ignore-scripts', '--no-audit', '--no-fund'], own),
      await measure(['npm', 'test'], own),
    ];
    expect(steps.at(-1)?.stdout).toMatch(/Test Files\s+\d passed/);
    const seconds = steps.reduce((sum, step) => sum + step.seconds, 0);
    console.log(`${slot}: ${seconds.toFixed(1)} s of processor time from an empty folder to green tests`);
    await run('npm', ['run', 'build'], own);
    // a CommonJS program can load the packages, because each supported Node can require ES modules
    const required =
      "process.stdout.write(require('@oarlock/kernel/plugin').available.available + require('@oarlock/spi/admission').Admission.id)";
    expect((await run('node', ['--input-type=commonjs', '-e', required], own)).stdout).toMatch(/^trueadmission/);
    expect(existsSync(join(own, 'dist', 'plugin.js'))).toBe(true);
    if (slot !== 'admission') return;
    // the plugin denies a request of kubectl, from TypeScript and without a build
    await writeFile(
      join(own, 'cluster.yaml'),
      [
        'apiVersion: oarlock.dev/v1',
        'kind: Cluster',
        'spec:',
        '  storage: storage-memory',
        '  roles: [apiserver, controllers]',
        '  admission: [admission-namespace-lifecycle, { use: ./src/plugin.ts }]',
        '',
      ].join('\n'),
    );
    await run('npx', ['oarlock', 'up', '--detach', '-f', 'cluster.yaml', '--port', String(await freePort())], own);
    try {
      const kubectl = kubectlIn(own);
      const denied = await kubectl.try(['create', 'deployment', 'web', '--image=nginx']);
      expect(denied).toMatchObject({ code: 1, stderr: expect.stringContaining('the label owner is missing') });
    } finally {
      await run('npx', ['oarlock', 'down'], own);
    }
  });
});
