import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, stat, symlink, writeFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pack } from '../../tools/pack.mjs';
import { sizeFaults, sizesOf } from '../../tools/package-sizes.mjs';
import { singleFile, standalone } from '../../tools/standalone.mjs';
import { everyCombination } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';
import { checkTypes, lintPackage } from '../harness/package-lint.ts';
import { outsideCheckout, PackageUser } from '../harness/package-user.ts';
import { writePluginPackage } from '../harness/plugin-package.ts';
import { freePort, killPid, runProgram } from '../harness/programs.ts';
import { until } from '../harness/until.ts';

const maxUnpackedBytes = 15 * 1024 * 1024;

interface TestReport {
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly { readonly status: string; readonly failureMessages: readonly string[] }[];
  }[];
}

function outcomeOf(files: TestReport['testResults']): 'passes' | 'names what to implement' | { readonly failed: readonly string[] } {
  const tests = files.flatMap(({ assertionResults }) => assertionResults);
  const failed = tests.filter(({ status }) => status === 'failed').map(({ failureMessages }) => failureMessages.join('\n'));
  if (failed.length === 0 && tests.some(({ status }) => status === 'passed')) return 'passes';
  return failed.some((message) => /implement \w+ in src\//.test(message)) ? 'names what to implement' : { failed };
}

/** The packages as a user installs them, in folders from which the checkout cannot be found. */
describe('the published packages', () => {
  let user: PackageUser;
  let packages: string;
  let folders: readonly string[];
  /** Runs the command of an installed package. npx, which one test uses, takes longer than most commands. */
  const oarlock = (args: readonly string[], folder: string) =>
    user.attempt(join(user.home, 'installed', 'node_modules', '.bin', 'oarlock'), args, folder);
  const mustOarlock = async (args: readonly string[], folder: string): Promise<string> => {
    const { code, stdout, stderr } = await oarlock(args, folder);
    expect(code, stderr).toBe(0);
    return stdout;
  };
  beforeAll(async () => {
    user = await PackageUser.create();
    packages = join(user.home, 'packed');
    folders = await pack(packages);
    // one npm publishes all of them
    await writeFile(join(packages, 'package.json'), JSON.stringify({ private: true, workspaces: ['*', '@oarlock/*'] }));
    await user.publish(packages, ['--workspaces']);
    await user.run('npm', ['install', '--no-audit', '--no-fund', 'oarlock'], await user.emptyFolder('installed'));
  });
  afterAll(() => user.dispose());

  it.skipIf(process.getuid?.() !== 0)('are used as an ordinary user without access to the checkout', async () => {
    const { stdout } = await user.run('sh', ['-c', 'id -u; ls -A "$1"; ls -A', 'sh', root], await user.emptyFolder('outside'));
    expect(stdout).toBe('65534\n');
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

  it('pass publint and arethetypeswrong, the libraries of plugins in each exported module', async () => {
    expect(folders.length).toBeGreaterThan(60);
    expect((await Promise.all(folders.map(lintPackage))).flat()).toEqual([]);
    const libraries = ['kernel', 'spi', 'client', 'controller-kit', 'testing', 'storage-memory'];
    const withoutTypes: string[] = [];
    for (const folder of folders) {
      const name = basename(folder);
      const { modules, findings } = await checkTypes(folder, libraries.includes(name) || everyCombination ? undefined : 8);
      expect({ name, findings }).toEqual({ name, findings: [] });
      if (modules === 0) withoutTypes.push(name);
    }
    // what browsers load, and a command
    expect(withoutTypes.sort()).toEqual(['console-page', 'create-oarlock-plugin']);
  });

  it('have about the documented sizes, and contain the command in one package without install scripts, below 15 MiB', async () => {
    const folder = join(packages, 'oarlock');
    const files = await Promise.all((await readdir(folder, { recursive: true })).map((name) => stat(join(folder, name))));
    expect(files.reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0)).toBeLessThan(maxUnpackedBytes);
    expect(sizeFaults(sizesOf(folders)), 'run `npm run pack -- --write-sizes`').toEqual([]);
    const { scripts, dependencies } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>;
    expect(scripts).toBeUndefined();
    expect(Object.keys(dependencies as object)).toEqual(['reflect-metadata']);
  });

  it('npx oarlock runs a cluster with pods in an empty folder', async () => {
    const folder = await user.emptyFolder('cluster');
    const port = String(await freePort());
    const { stdout } = await user.run('npx', ['oarlock', 'up', '--detach', '-f', 'embedded', '--port', port], folder);
    try {
      expect(user.registry.downloads).toContain('oarlock');
      const [ready, seconds] = /Oarlock is ready at https:\/\/127\.0\.0\.1:\d+ \(([\d.]+) s\)/.exec(stdout) ?? [];
      expect(ready, stdout).toBeDefined();
      console.log(`\`npx oarlock up\` was ready after ${seconds} s, on a machine that also ran other tests`);
      const kubectl = user.kubectlIn(folder);
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
      await mustOarlock(['down'], folder);
    }
  });

  it('oarlock init writes a composition that validate accepts', async () => {
    const folder = await user.emptyFolder('init');
    await mustOarlock(['init', 'containerd-bridge'], folder);
    expect(await readFile(join(folder, 'cluster.yaml'), 'utf8')).toMatch(/^# yaml-language-server: \$schema=\.\/cluster\.schema\.json\n/);
    expect(await mustOarlock(['config', 'validate', '-f', 'cluster.yaml'], folder)).toContain('cluster.yaml is valid');
    const again = await oarlock(['init'], folder);
    expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining('cluster.yaml already exists; nothing was written') });
    const list = await mustOarlock(['plugins', 'list', '-o', 'json'], folder);
    const names = (JSON.parse(list) as readonly { readonly name: string }[]).map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['storage-embedded', 'runtime-containerd', 'authz-rbac', 'controller-deployment']));
  });

  /** Returns a function that runs a program of the folder where PATH has nothing but its links. */
  const alone =
    (folder: string) =>
    (...words: readonly string[]) =>
      runProgram(
        ...outsideCheckout([
          ...['/usr/bin/env', '-i', `PATH=${join(folder, 'path')}`, `HOME=${user.home}`],
          ...[join(folder, 'path', 'oarlock'), ...words],
        ]),
        { cwd: folder, timeoutMs: 300_000 },
      );

  it('run from an archive with Node, where PATH has no Node', async () => {
    const folder = await user.emptyFolder('standalone');
    await user.run('tar', ['-xzf', await standalone(join(packages, 'oarlock'), user.home, { compression: 1 })], folder);
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
    const folder = await user.emptyFolder('single-file');
    await mkdir(join(folder, 'path'));
    await symlink(await singleFile(join(packages, 'oarlock'), user.home), join(folder, 'path', 'oarlock'));
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
      const kubectl = user.kubectlIn(folder, 'state');
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

  it('oarlock doctor reports what can run here, and completion lists the commands', async () => {
    const folder = await user.emptyFolder('doctor');
    const report = await mustOarlock(['doctor', '-o', 'json', '--report', 'report.yaml'], folder);
    const { machine, compositions } = JSON.parse(report) as { readonly machine: object; readonly compositions: readonly object[] };
    expect(machine).toMatchObject({ user: 'ordinary' });
    expect(compositions).toContainEqual({ name: 'embedded', canRun: true, reasons: [] });
    expect((await stat(join(folder, 'report.yaml'))).mode & 0o777).toBe(0o600);
    expect(await mustOarlock(['completion', 'bash'], folder)).toContain('complete -F _oarlock oarlock');
  });

  describe('npm create oarlock-plugin', () => {
    /** Created packages of all slots. One installation, that of `controller-mine`, serves all. */
    let author: string;
    let slots: readonly string[];
    const skeletons = ['network', 'proxy', 'runtime'];
    beforeAll(async () => {
      author = await user.emptyFolder('author');
      slots = await readdir(join(root, 'packages', 'cli', 'templates'));
      expect(slots.length).toBeGreaterThanOrEqual(14);
    });

    it('makes a package with green tests, which can be built', async () => {
      const own = join(author, 'controller-mine');
      const steps = [
        await user.measure(['npm', 'create', 'oarlock-plugin', 'controller', 'mine'], author),
        await user.measure(['npm', 'install', '--ignore-scripts', '--no-audit', '--no-fund'], own),
        await user.measure(['npm', 'test'], own),
      ];
      expect(steps.at(-1)?.stdout).toMatch(/Test Files\s+\d passed/);
      const seconds = steps.reduce((sum, step) => sum + step.seconds, 0);
      console.log(`${seconds.toFixed(1)} s of processor time from an empty folder to green tests`);
      await user.run('npm', ['run', 'build'], own);
      // a CommonJS program can load the packages, because each supported Node can require ES modules
      const required =
        "process.stdout.write(require('@oarlock/kernel/plugin').available.available + require('@oarlock/spi/admission').Admission.id)";
      expect((await user.run('node', ['--input-type=commonjs', '-e', required], own)).stdout).toMatch(/^trueadmission/);
      expect(existsSync(join(own, 'dist', 'plugin.js'))).toBe(true);
      await rename(join(own, 'node_modules'), join(author, 'node_modules'));
    });

    it('installs packages that the command contains, of which `plugins list` lists each plugin once', async () => {
      const { stdout } = await user.run(join(author, 'node_modules', '.bin', 'oarlock'), ['plugins', 'list', '-o', 'json'], author);
      const ids = (JSON.parse(stdout) as readonly { readonly id: string }[]).map(({ id }) => id);
      expect(ids).toEqual([...new Set(ids)]);
      expect(ids).toContain('controller-deployment');
    });

    it('makes packages of all other slots, which pass their tests or name what to implement, and can be built', async () => {
      const others = slots.filter((slot) => slot !== 'controller');
      const create = 'for slot in "$@"; do create-oarlock-plugin "$slot" mine || exit; done';
      await user.run('npm', ['exec', '--package=create-oarlock-plugin', '--', 'sh', '-c', create, 'sh', ...others], author);
      const projects = others.map((slot) => `${slot}-mine`);
      await writeFile(join(author, 'vitest.config.mjs'), `export default ${JSON.stringify({ test: { projects } })};\n`);
      await user.attempt('npx', ['vitest', 'run', '--reporter=json', '--outputFile=report.json'], author);
      const { testResults } = JSON.parse(await readFile(join(author, 'report.json'), 'utf8')) as TestReport;
      const outcomes = others.map((slot) => outcomeOf(testResults.filter(({ name }) => name.includes(`/${slot}-mine/`))));
      expect(outcomes).toEqual(others.map((slot) => (skeletons.includes(slot) ? 'names what to implement' : 'passes')));

      await user.run('npx', ['tsc', '-b', ...projects], author);
      expect(projects.filter((project) => !existsSync(join(author, project, 'dist', 'plugin.js')))).toEqual([]);
    });

    it('makes plugins that run in oarlock dev, where an admission plugin denies a request of kubectl, and a controller publishes a typed custom resource', async () => {
      const developed = ['admission', 'audit', 'authn', 'authz', 'cloud', 'scheduling', 'storage', 'volume'];
      const others = developed.map((slot) => join('..', `${slot}-mine`, 'src', 'plugin.ts'));
      const dev = user.start('npm', ['run', 'dev', '--', ...others], join(author, 'controller-mine'));
      await dev.line(/^ {2}Console: https:/);
      await dev.line(/^Save authn-mine, authz-mine, admission-mine, scheduling-mine, controller-mine and the next request/);
      await dev.line(/^Restart oarlock dev to apply changes of storage-mine, audit-mine, cloud-mine, volume-mine\.$/);
      const kubectl = user.kubectlIn(join(author, 'controller-mine'), '.oarlock-dev');
      const denied = await kubectl.try(['create', 'deployment', 'web', '--image=nginx']);
      expect(denied).toMatchObject({ code: 1, stderr: expect.stringContaining('the label owner is missing') });
      const file = join(author, 'mine.json');
      const apply = async (spec: object) => {
        const mine = { apiVersion: 'example.com/v1alpha1', kind: 'Mine', metadata: { name: 'hello' }, spec };
        await writeFile(file, JSON.stringify(mine));
        return kubectl.try(['apply', '-f', file]);
      };
      await until('the controller has installed its definition', async () => (await apply({ message: 'hi' })).code === 0);
      await kubectl.run(['wait', '--for=condition=Ready', 'mine/hello', '--timeout=180s']);
      expect(await kubectl.run(['get', 'configmap', 'hello-0', '-o', 'jsonpath={.data.message}'])).toBe('hi');
      expect((await apply({ message: 'hi', copies: 9 })).stderr).toContain('spec.copies: Invalid value: 9');
      // as a terminal does: npm forwards the signal to the shell of the script only
      killPid(-dev.pid, 'SIGINT');
      await dev.exit;
    });

    it('makes an admission plugin that a cluster.yaml can name by its path, and that can be added to another cluster', async () => {
      await validatePath(join(author, 'admission-mine'));
      await addToCluster(join(author, 'admission-mine'));
    });
  });

  /** Validates a cluster.yaml that has a plugin in TypeScript by its path: the command of the plugin's package compiles and loads it. */
  async function validatePath(plugin: string): Promise<void> {
    await writeFile(
      join(plugin, 'cluster.yaml'),
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
    expect((await user.run('npx', ['oarlock', 'config', 'validate', '-f', 'cluster.yaml'], plugin)).stdout).toContain('is valid');
  }

  /** Publishes a plugin, and adds it to a cluster of another folder: with a config that it rejects, then with a valid one. */
  async function addToCluster(plugin: string): Promise<void> {
    await user.publish(plugin);
    const folder = await user.emptyFolder('add');
    const text =
      'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n  storage: storage-memory\n  roles: [apiserver]\n  admission: # in order\n    - admission-priority\n';
    await writeFile(join(folder, 'cluster.yaml'), text, { mode: 0o666 });
    const add = async (config: string) => {
      await writeFile(join(folder, 'config.yaml'), config);
      return oarlock(['plugins', 'add', 'oarlock-admission-mine', '-f', 'cluster.yaml', '--config', 'config.yaml'], folder);
    };
    const rejected = await add('label: ""\n');
    expect(user.registry.downloads).toContain('oarlock-admission-mine');
    expect(rejected).toMatchObject({ code: 2, stderr: expect.stringContaining('label') });
    expect(await readFile(join(folder, 'cluster.yaml'), 'utf8')).toBe(text);
    expect((await readdir(folder)).sort()).toEqual(['cluster.yaml', 'config.yaml']);
    expect(await add('label: team\n')).toMatchObject({
      code: 0,
      stdout: 'added oarlock-admission-mine to spec.admission of cluster.yaml\n',
    });
    expect(await readFile(join(folder, 'cluster.yaml'), 'utf8')).toBe(
      `${text}    - use: oarlock-admission-mine\n      config:\n        label: team\n`,
    );
    expect(await mustOarlock(['config', 'validate', '-f', 'cluster.yaml'], folder)).toContain('is valid');
  }
});
