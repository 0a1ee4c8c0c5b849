import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { root, runOarlock } from '../harness/oarlock.ts';

const head = 'apiVersion: oarlock.dev/v1\nkind: Cluster\nmetadata: { name: broken }\n';

/** Common mistakes in a cluster.yaml, with the message and the line that each yields. */
const mistakes: readonly {
  readonly what: string;
  readonly text: string;
  readonly line: number;
  readonly message: RegExp;
  readonly remedy?: RegExp;
}[] = [
  { what: 'YAML that is not well formed', text: `${head}spec:\n  storage: [storage-memory\n`, line: 6, message: /not valid YAML/ },
  {
    what: 'a duplicate key',
    text: `${head}spec:\n  storage: storage-memory\n  storage: storage-etcd\n`,
    line: 6,
    message: /the key storage is used twice/,
  },
  {
    what: 'an unknown key',
    text: `${head}spec:\n  storage: storage-memory\n  netwrok: network-host\n`,
    line: 6,
    message: /netwrok/,
    remedy: /network/,
  },
  { what: 'a wrong type', text: `${head}spec:\n  server: { port: many }\n`, line: 5, message: /port.*number/i },
  {
    what: 'a wrong kind of document',
    text: 'apiVersion: oarlock.dev/v1\nkind: Klaster\nspec: {}\n',
    line: 2,
    message: /Klaster|"Cluster"/,
  },
  {
    what: 'a plugin that is not installed',
    text: `${head}spec:\n  storage: storage-memroy\n`,
    line: 5,
    message: /storage-memroy/,
    remedy: /\S/,
  },
  { what: 'a plugin file that does not exist', text: `${head}spec:\n  storage:\n    use: ./nowhere.ts\n`, line: 5, message: /nowhere\.ts/ },
  {
    what: 'a plugin in the wrong slot',
    text: `${head}spec:\n  storage: network-host\n`,
    line: 5,
    message: /network-host.*storage/,
    remedy: /network/,
  },
  {
    what: "an unknown key in a plugin's config",
    text: `${head}spec:\n  storage:\n    use: storage-memory\n    config:\n      histroyChanges: 5000\n`,
    line: 8,
    message: /histroyChanges/,
    remedy: /historyChanges/,
  },
  {
    what: 'a value below its minimum',
    text: `${head}spec:\n  storage:\n    use: storage-memory\n    config:\n      historyChanges: 5\n`,
    line: 8,
    message: /historyChanges.*1000/,
  },
  { what: 'an unknown role', text: `${head}spec:\n  roles: [apiserver, kublet]\n`, line: 5, message: /kublet/, remedy: /kubelet/ },
  {
    what: 'a missing required value of a plugin',
    text: `${head}spec:\n  roles: [apiserver]\n  authn:\n    - use: authn-static-token\n      config: {}\n`,
    line: 8,
    message: /file/,
  },
];

describe('a cluster.yaml', () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'oarlock-e2e-'));
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  it.each(mistakes)('with $what is rejected with exit code 2, the line and a remedy', async ({ text, line, message, remedy }) => {
    const file = join(dir, 'cluster.yaml');
    await writeFile(file, text);
    const { code, stderr, stdout } = await runOarlock(['config', 'validate', '-f', file]);
    expect(stderr).toMatch(message);
    expect(stderr).toContain(`${file}:${line}:`);
    if (remedy) expect(stderr).toMatch(remedy);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).not.toMatch(/\bat .*\.[jt]s:\d+/); // a message, not a stack trace
  });

  it('with several errors reports all of them', async () => {
    const file = join(dir, 'several.yaml');
    await writeFile(file, `${head}spec:\n  storage: storage-memroy\n  network: proxy-userspace\n  proxy: nothing-like-it\n`);
    const { code, stderr } = await runOarlock(['config', 'validate', '-f', file]);
    expect(code).toBe(2);
    for (const line of [5, 6, 7]) expect(stderr).toContain(`${file}:${line}:`);
  });

  it('that is invalid keeps `up` from changing anything', async () => {
    const file = join(dir, 'cluster.yaml');
    const dataDir = join(dir, 'untouched');
    await writeFile(file, `${head}spec:\n  storage: storage-memroy\n`);
    const { code, stderr } = await runOarlock(['up', '-f', file, '--data-dir', dataDir, '--port', '0']);
    expect(code).toBe(2);
    expect(stderr).toContain(`${file}:5:`);
    await expect(readdir(dataDir)).rejects.toThrow('ENOENT');
  });

  it('that misses a part which others need is valid, with a warning and the remedy', async () => {
    const file = join(dir, 'partial.yaml');
    await writeFile(file, `${head}spec: { runtimes: [runtime-process], network: network-host, volumes: [volume-csi] }\n`);
    const { code, stdout, stderr } = await runOarlock(['config', 'validate', '-f', file]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/ is valid: .*\nWarning: spec\.proxy: nothing routes the addresses of Services.*`proxy: proxy-userspace`.*\n$/);
  });

  it('that does not exist has an error message of its own', async () => {
    const { code, stderr } = await runOarlock(['config', 'validate', '-f', join(dir, 'no.yaml')]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/no\.yaml cannot be read/);
  });

  it('is printed with its defaults, and the output is valid and prints identically', async () => {
    const file = join(dir, 'small.yaml');
    await writeFile(
      file,
      'apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n  runtimes: [runtime-simulated]\n  roles: [apiserver, controllers, scheduler, kubelet]\n',
    );
    const first = await runOarlock(['config', 'print', '-f', file]);
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout).toMatch(/address: 127\.0\.0\.1/);
    expect(first.stdout).toMatch(/use: storage-embedded/);
    const printed = join(dir, 'printed.yaml');
    await writeFile(printed, first.stdout);
    expect(await runOarlock(['config', 'print', '-f', printed])).toMatchObject({ code: 0, stdout: first.stdout });
  });

  it('of every composition that Oarlock ships is valid', async () => {
    const files = (await readdir(join(root, 'clusters'))).filter((name) => name.endsWith('.yaml'));
    expect(files.length).toBeGreaterThanOrEqual(4);
    for (const name of files) {
      const { code, stdout, stderr } = await runOarlock(['config', 'validate', '-f', join(root, 'clusters', name)]);
      expect({ name, code, stderr }).toEqual({ name, code: 0, stderr: '' });
      expect(stdout).toMatch(/is valid/);
    }
  });
});
