import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkPlan } from '@oarlock/cluster/composition/check-plan';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { parseClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { createPlan } from '@oarlock/cluster/composition/create-plan';
import { describeFault, WiringError, type Fault } from '@oarlock/kernel/errors';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { head, mistakes, plugin } from '../support/cluster-file-mistakes.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-file-'));
  // an unfinished file, as an editor may save it
  await writeFile(join(directory, 'half.ts'), "// a thought\nexport default { id: 'half';\n");
});
afterEach(() => rm(directory, { recursive: true, force: true }));
// vitest maps positions of modules that it evaluates; without its function, Node.js maps those of built ones
const built = import.meta.resolve('@oarlock/cluster/plugins/plugin-loader').endsWith('.js');
const { prepareStackTrace } = Error;
beforeEach(() => {
  if (built) Reflect.deleteProperty(Error, 'prepareStackTrace');
  return () => {
    Error.prepareStackTrace = prepareStackTrace;
  };
});

/** Returns every fault of a file, as `oarlock up -f` and `oarlock config validate` report them. */
async function faultsOf(text: string): Promise<readonly Fault[]> {
  const file = join(directory, 'cluster.yaml');
  await writeFile(file, text);
  try {
    checkPlan(await createPlan(await readClusterFile(file)));
    return [];
  } catch (error) {
    if (!(error instanceof WiringError)) throw error;
    return error.faults;
  }
}

describe('a fault in a cluster.yaml', () => {
  it.each(mistakes)('is reported with its line, path and a remedy: $title', async ({ text, code, line, column, path, message, remedy }) => {
    const faults = await faultsOf(text);
    expect(faults.map(describeFault)).toHaveLength(1);
    const [fault] = faults;
    expect(
      { code: fault?.code, line: fault?.at?.line, column: fault?.at?.column, path: fault?.path },
      fault && describeFault(fault),
    ).toEqual({ code, line, column, path });
    expect(fault?.at?.file).toBe(join(directory, 'cluster.yaml'));
    expect(fault?.message).toMatch(message);
    expect(fault?.remedy).toMatch(remedy);
  });

  it('is reported for an empty file', async () => {
    expect((await faultsOf('')).map(({ path, at }) => [path, at?.line])).toEqual([
      ['apiVersion', 1],
      ['kind', 1],
    ]);
    expect((await faultsOf('# only words\n')).map(({ path }) => path)).toEqual(['apiVersion', 'kind']);
  });

  it('is reported for a missing file', async () => {
    await expect(readClusterFile(join(directory, 'none.yaml'))).rejects.toMatchObject({
      faults: [{ code: 'ConfigInvalid', message: expect.stringContaining('cannot be read'), remedy: expect.stringContaining('-f') }],
    });
  });

  it('is reported for a file that is too large, or that aliases expand', async () => {
    expect(await faultsOf(`${head}# ${'x'.repeat(1 << 20)}`)).toMatchObject([
      { code: 'ConfigInvalid', message: expect.stringContaining('larger than') },
    ]);
    const bomb = `a: &a [x, x, x, x, x, x, x, x, x]\n${['b', 'c', 'd', 'e', 'f', 'g'].map((key, index) => `${key}: &${key} [${Array(9).fill(`*${'abcdef'[index]}`).join(', ')}]`).join('\n')}\n`;
    expect(await faultsOf(`${head}${bomb}`)).toMatchObject([{ code: 'ConfigInvalid', message: expect.stringContaining('alias') }]);
  });
});

describe('several faults', () => {
  it('are reported together, in the order of the file', async () => {
    const faults = await faultsOf(
      [
        'apiVersion: oarlock.dev/v1', // 1
        'kind: Cluster',
        'metadata: { name: lab }',
        'colour: green', // 4
        'spec:',
        '  server: { port: high }', // 6
        '  storage: storage-memry', // 7
        '  authn:',
        '    - use: authn-anonymous',
        '      config: { pths: [] }', // 10
        '    - authz-masters', // 11
        '    - use: authn-static-token', // 12
        '  authz: [authz-masters, authz-masters]', // 13
        '  networking:',
        '    podCIDRs: [nowhere]', // 15
        '  settings:',
        '    proxy: { minSyncMs: soon }', // 17
        '',
      ].join('\n'),
    );
    expect(faults.map(({ code, at }) => `${at?.line} ${code}`)).toEqual([
      '4 ConfigInvalid',
      '6 ConfigInvalid',
      '7 PluginNotFound',
      '10 ConfigInvalid',
      '11 WrongSlot',
      '12 ConfigInvalid',
      '13 NameTaken',
      '15 ConfigInvalid',
      '17 ConfigInvalid',
    ]);
    for (const fault of faults) expect(fault.remedy, describeFault(fault)).toMatch(/\w/);
  });
});

describe('a valid cluster.yaml', () => {
  it('may refer to unknown names if a plugin does not declare its name', async () => {
    expect(
      await faultsOf(
        `${head}spec:\n  roles: [controllers]\n  controllers: [${plugin('nameless-controller')}]\n  settings:\n    controllers: { disable: [whatever] }\n`,
      ),
    ).toEqual([]);
  });

  it('may consist of apiVersion and kind', () => {
    const read = parseClusterFile('apiVersion: oarlock.dev/v1\nkind: Cluster\n', 'cluster.yaml');
    expect(read.name).toBe('oarlock');
    expect(read.spec).toMatchObject({
      roles: ['apiserver', 'controllers', 'scheduler', 'kubelet', 'proxy'],
      storage: { use: 'storage-embedded' },
      server: { address: '127.0.0.1' },
      networking: { domain: 'cluster.local' },
    });
  });

  it('may be in JSON, and may use anchors', async () => {
    const spec = { roles: ['apiserver'], authn: ['authn-anonymous'] };
    expect(await faultsOf(JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec }))).toEqual([]);
    expect(
      await faultsOf(
        `${head}spec:\n  roles: [apiserver]\n  authn:\n    - use: authn-anonymous\n      name: one\n      config: &same { paths: [/livez] }\n    - use: authn-anonymous\n      name: two\n      config: *same\n`,
      ),
    ).toEqual([]);
  });

  it('resolves plugin paths relative to itself', async () => {
    await writeFile(join(directory, 'mine.mjs'), `export { default } from ${JSON.stringify(plugin('needy-authz'))};\n`);
    expect(await faultsOf(`${head}spec:\n  roles: [apiserver]\n  authz: [./mine.mjs]\n`)).toEqual([]);
  });

  it.each([
    'embedded',
    'containerd-bridge',
    'etcd-containerd-bridge',
    'docker-bridge',
    'etcd-docker-bridge',
    'etcd-containerd-calico',
    'docker-calico',
    'simulated-1000',
    'rootless',
    'oci-bridge',
  ])('is part of the distribution: %s', async (name) => {
    checkPlan(await createPlan(await readClusterFile(fileURLToPath(new URL(`../../../../clusters/${name}.yaml`, import.meta.url)))));
  });
});
