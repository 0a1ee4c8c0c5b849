import { chmod, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { examplesOf, pagesWithShell, shellBlocks, type Example } from '../fixtures/documented-shell.ts';
import { newestKubectl } from '../harness/kubectl.ts';
import { Machine } from '../harness/machine.ts';
import { oarlock, root, runOarlock } from '../harness/oarlock.ts';
import { freePort, runProgram } from '../harness/programs.ts';

const pages = await pagesWithShell();

/** The shell examples of the documentation: each is run here, or another test is named. */
describe('shell examples of the documentation', () => {
  const machine = Machine.use();
  let folder: string;
  let env: Readonly<Record<string, string>>;

  beforeAll(async () => {
    folder = machine.path('reader');
    await mkdir(join(folder, 'bin'), { recursive: true });
    for (const name of ['examples', 'clusters']) await symlink(join(root, name), join(folder, name));
    const program = join(folder, 'bin', 'oarlock');
    await writeFile(program, `#!/bin/sh\nexec ${[oarlock.file, ...oarlock.args].map((word) => `'${word}'`).join(' ')} "$@"\n`);
    await chmod(program, 0o755);
    // npx finds the command as in a package that has installed it
    await mkdir(join(folder, 'node_modules'));
    await symlink(join(folder, 'bin'), join(folder, 'node_modules', '.bin'));
    const kubectl = dirname(newestKubectl()?.file ?? '');
    env = {
      HOME: join(folder, 'home'),
      KUBECONFIG: join(folder, '.oarlock', 'admin.kubeconfig'),
      PATH: [join(folder, 'bin'), kubectl, process.env['PATH'] ?? ''].join(delimiter),
      npm_config_offline: 'true',
    };
    await runOarlock(['init', 'embedded'], { cwd: folder });
    const up = ['up', '--detach', '-f', 'cluster.yaml', '--port', String(await freePort())];
    expect(await runOarlock(up, { cwd: folder })).toMatchObject({ code: 0 });
    machine.undo('cluster', () => runOarlock(['down'], { cwd: folder }));
    await mkdir(join(folder, 'keys'));
    const definition = await page('e2e/fixtures/helm-chart/crds/widgets.yaml');
    await writeFile(join(folder, 'crd.yaml'), definition.replaceAll('journey.example', 'example.com'));
  });

  const page = (name: string) => readFile(join(root, name), 'utf8');
  const run = async ({ code, replace = [], prints }: Example) => {
    const text = replace.reduce((before, [from, to]) => {
      expect(before).toContain(from);
      return before.replaceAll(from, to);
    }, code);
    const done = await runProgram('/bin/bash', ['-ec', text], { cwd: folder, env });
    expect(done, `${text}\n${done.stdout}\n${done.stderr}`).toMatchObject({ code: 0 });
    expect(done.stdout).toMatch(prints ?? /^/);
  };

  it.each(pages)('are run, or covered by a named test: %s', async (name) => {
    const blocks = shellBlocks(await page(name));
    const examples = examplesOf(name, blocks);
    for (const example of examples) {
      if (example.prints !== undefined) await run(example);
      else if (example.coveredBy !== undefined) expect(existsSync(join(root, example.coveredBy)), example.coveredBy).toBe(true);
    }
  });
});
