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

const plugin = (name: string) => fileURLToPath(new URL(`../support/plugins/${name}.ts`, import.meta.url));
const head = 'apiVersion: oarlock.dev/v1\nkind: Cluster\nmetadata: { name: lab }\n';

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

interface Mistake {
  readonly title: string;
  readonly text: string;
  readonly code: Fault['code'];
  readonly line: number;
  readonly column: number;
  readonly path?: string;
  readonly message: RegExp;
  readonly remedy: RegExp;
}
const mistake = (
  title: string,
  text: string,
  [code, line, column, path, message, remedy]: readonly [Fault['code'], number, number, string | undefined, RegExp, RegExp],
): Mistake => ({ title, text, code, line, column, ...(path !== undefined && { path }), message, remedy });

const listed = /oarlock config schema/;
const spelling = /remove it or correct its spelling|did you mean/;
const mistakes: readonly Mistake[] = [
  mistake('invalid YAML', `${head}spec:\n  storage: [oops\n`, [
    'ConfigInvalid',
    6,
    1,
    undefined,
    /^not valid YAML: /,
    /missing quote or bracket/,
  ]),
  mistake('a tab for indentation', `${head}spec:\n\tstorage: storage-memory\n`, [
    'ConfigInvalid',
    5,
    1,
    undefined,
    /^not valid YAML: Tabs/,
    /correct it here/,
  ]),
  mistake('a duplicate key', `${head}spec:\n  storage: storage-memory\n  storage: storage-memory\n`, [
    'ConfigInvalid',
    6,
    3,
    undefined,
    /^the key storage is used twice$/,
    /keep one/,
  ]),
  mistake('a second document', `${head}---\n${head}`, ['ConfigInvalid', 4, 1, undefined, /^the file has several documents$/, /keep one/]),
  mistake('a list of plugins for one plugin', `${head}spec:\n  storage: [storage-memory]\n`, [
    'ConfigInvalid',
    5,
    3,
    'spec.storage',
    /^one plugin: its name, or a map/,
    listed,
  ]),
  mistake('two ranges of one IP family', `${head}spec:\n  networking: { serviceCIDRs: [10.96.0.0/16, 10.97.0.0/16] }\n`, [
    'ConfigInvalid',
    5,
    46,
    'spec.networking.serviceCIDRs.1',
    /^a range of the other IP family, because the first one is IPv4, got "10\.97\.0\.0\/16"$/,
    listed,
  ]),
  mistake(
    'ranges of Services and pods that overlap',
    `${head}spec:\n  networking: { podCIDRs: [fd00::/64, 10.0.0.0/8], serviceCIDRs: [fd01::/112, 10.96.0.0/16] }\n`,
    ['ConfigInvalid', 5, 79, 'spec.networking.serviceCIDRs.1', /10\.0\.0\.0\/8 is in podCIDRs, got "10\.96\.0\.0\/16"$/, listed],
  ),
  mistake('an unknown top-level key', `${head}specs: {}\n`, ['ConfigInvalid', 4, 1, '', /^unknown key specs$/, spelling]),
  mistake('an unknown section', `${head}spec:\n  storge: storage-memory\n`, [
    'ConfigInvalid',
    5,
    3,
    'spec',
    /^unknown key storge$/,
    spelling,
  ]),
  mistake('an unknown key in a section', `${head}spec:\n  networking:\n    domain: lab.local\n    podCIDR: 10.0.0.0/8\n`, [
    'ConfigInvalid',
    7,
    5,
    'spec.networking',
    /^unknown key podCIDR$/,
    spelling,
  ]),
  mistake('an unknown key beside use', `${head}spec:\n  storage:\n    use: storage-memory\n    options: {}\n`, [
    'ConfigInvalid',
    7,
    5,
    'spec.storage',
    /^unknown key options$/,
    spelling,
  ]),
  mistake('a string instead of a number', `${head}spec:\n  server:\n    address: 0.0.0.0\n    port: "6443"\n`, [
    'ConfigInvalid',
    7,
    5,
    'spec.server.port',
    /expected number, received string, got "6443"/,
    listed,
  ]),
  mistake('one plugin instead of a list', `${head}spec:\n  authn: authn-anonymous\n`, [
    'ConfigInvalid',
    5,
    3,
    'spec.authn',
    /expected array, received string, got "authn-anonymous"/,
    listed,
  ]),
  mistake('two plugins in a section for one', `${head}spec:\n  storage: [storage-memory, storage-etcd]\n`, [
    'ConfigInvalid',
    5,
    3,
    'spec.storage',
    /./,
    listed,
  ]),
  mistake('a plugin without use', `${head}spec:\n  audit:\n    - name: x\n      config: {}\n`, [
    'ConfigInvalid',
    6,
    7,
    'spec.audit.0.use',
    /^missing: .*expected string/,
    listed,
  ]),
  mistake('an address instead of a range', `${head}spec:\n  networking:\n    podCIDRs: [10.244.0.0]\n`, [
    'ConfigInvalid',
    6,
    16,
    'spec.networking.podCIDRs.0',
    /^an address range such as .*, got "10\.244\.0\.0"$/,
    listed,
  ]),
  mistake('an invalid range', `${head}spec:\n  networking:\n    serviceCIDRs: [10.96.0.300/16]\n`, [
    'ConfigInvalid',
    6,
    20,
    'spec.networking.serviceCIDRs.0',
    /got "10\.96\.0\.300\/16"$/,
    listed,
  ]),
  mistake('a prefix longer than an address', `${head}spec:\n  networking:\n    serviceCIDRs: ["fd00::/129"]\n`, [
    'ConfigInvalid',
    6,
    20,
    'spec.networking.serviceCIDRs.0',
    /got "fd00::\/129"$/,
    listed,
  ]),
  mistake('a descending port range', `${head}spec:\n  networking:\n    nodePorts: 32767-30000\n`, [
    'ConfigInvalid',
    6,
    5,
    'spec.networking.nodePorts',
    /^a range of ports such as 30000-32767, got/,
    listed,
  ]),
  mistake('an unknown role', `${head}spec:\n  roles: [apiserver, kublet]\n`, [
    'ConfigInvalid',
    5,
    22,
    'spec.roles.1',
    /expected one of .*"kubelet".*, got "kublet"/,
    listed,
  ]),
  mistake('an unknown apiVersion', 'apiVersion: oarlock.dev/v2\nkind: Cluster\n', [
    'ConfigInvalid',
    1,
    1,
    'apiVersion',
    /expected "oarlock\.dev\/v1", got "oarlock\.dev\/v2"/,
    listed,
  ]),
  mistake('an unknown kind', 'apiVersion: oarlock.dev/v1\nkind: Pod\n', [
    'ConfigInvalid',
    2,
    1,
    'kind',
    /expected "Cluster", got "Pod"/,
    listed,
  ]),
  mistake('a list instead of an object', '- a\n', ['ConfigInvalid', 1, 1, '', /expected object, received array/, listed]),
  mistake('an invalid name', 'apiVersion: oarlock.dev/v1\nkind: Cluster\nmetadata: { name: Lab_1 }\n', [
    'ConfigInvalid',
    3,
    13,
    'metadata.name',
    /^a DNS label in lower case, got "Lab_1"$/,
    listed,
  ]),
  mistake('an unknown plugin', `${head}spec:\n  storage: storage-memry\n`, [
    'PluginNotFound',
    5,
    3,
    'spec.storage',
    /^plugin storage-memry not found$/,
    /oarlock plugins list/,
  ]),
  mistake('a path that does not exist', `${head}spec:\n  authn:\n    - ./nowhere.ts\n`, [
    'PluginNotFound',
    6,
    7,
    'spec.authn.0',
    /^plugin \.\/nowhere\.ts not found$/,
    /nowhere\.ts does not exist$/,
  ]),
  mistake('a module without a plugin', `${head}spec:\n  storage: ${plugin('not-a-plugin')}\n`, [
    'NotAPlugin',
    5,
    3,
    'spec.storage',
    /has no plugin as its default export: it is an object that was not created with Slot\.plugin$/,
    /export default/,
  ]),
  mistake('a module that does not load', `${head}spec:\n  storage: ${plugin('broken')}\n`, [
    'PluginNotFound',
    5,
    3,
    'spec.storage',
    /cannot be loaded: this module does not load\n    at .*broken\.ts:2:9$/,
    /./,
  ]),
  mistake('a plugin in the wrong section', `${head}spec:\n  authn:\n    - authn-client-certificate\n    - authz-masters\n`, [
    'WrongSlot',
    7,
    7,
    'spec.authn.1',
    /^authz-masters provides slot authz\/v1, but authn takes plugins of slot authn\/v1$/,
    /list it in the section for authz plugins/,
  ]),
  mistake('a plugin for another version of the slot', `${head}spec:\n  authn:\n    - ${plugin('future-authn')}\n`, [
    'VersionMismatch',
    6,
    7,
    'spec.authn.0',
    /provides slot authn\/v2, but authn takes plugins of slot authn\/v1$/,
    /install a release/,
  ]),
  mistake(
    'an unknown key in the config of a plugin',
    `${head}spec:\n  authn:\n    - use: authn-anonymous\n      config:\n        pths: [/livez]\n`,
    ['ConfigInvalid', 8, 9, 'spec.authn.0.config', /^authn-anonymous: unknown key pths$/, spelling],
  ),
  mistake(
    'a wrong type in the config of a plugin',
    `${head}spec:\n  authn:\n    - use: authn-anonymous\n      config: { paths: /livez }\n`,
    ['ConfigInvalid', 7, 17, 'spec.authn.0.config.paths', /expected array, received string, got "\/livez"/, /README of authn-anonymous/],
  ),
  mistake('a config without a required key', `${head}spec:\n  authn:\n    - authn-anonymous\n    - use: authn-static-token\n`, [
    'ConfigInvalid',
    7,
    7,
    'spec.authn.1.config.file',
    /^authn-static-token: missing: .*expected string/,
    /README of authn-static-token/,
  ]),
  mistake('an unknown setting of a role', `${head}spec:\n  settings:\n    proxy: { minSync: 3 }\n`, [
    'ConfigInvalid',
    6,
    14,
    'spec.settings.proxy',
    /^proxy: unknown key minSync$/,
    spelling,
  ]),
  mistake('a duplicate plugin name', `${head}spec:\n  authn: [authn-anonymous, authn-anonymous]\n`, [
    'NameTaken',
    5,
    28,
    'spec.authn.1',
    /is used twice in slot authn\/v1/,
    /another name/,
  ]),
  mistake('a plugin that does not compile', `${head}spec:\n  authn: [./half.ts]\n`, [
    'PluginNotFound',
    5,
    11,
    'spec.authn.0',
    /half\.ts does not compile:\n {4}.*half\.ts:2:28: Expected "}"/,
    /correct the source/,
  ]),
  mistake('a kubelet without a runtime', `${head}spec:\n  runtimes: []\n`, [
    'SlotEmpty',
    5,
    3,
    'spec.runtimes',
    /none is configured/,
    /runtimes: \[runtime-process\]/,
  ]),
  mistake(
    'a deadline of a method that the slot does not have',
    `${head}spec:\n  storage: { use: storage-memory, deadlineMs: { put: 5 } }\n`,
    [
      'ConfigInvalid',
      5,
      35,
      'spec.storage.deadlineMs',
      /calls of storage plugins with a deadline are get, range, commit, .*, not put/,
      /correct the name/,
    ],
  ),
  mistake(
    'a failure policy for a plugin that does not handle requests',
    `${head}spec:\n  storage: { use: storage-memory, failurePolicy: Ignore }\n`,
    ['ConfigInvalid', 5, 35, 'spec.storage.failurePolicy', /failurePolicy applies only to admission, authn and authz plugins/, /remove it/],
  ),
  mistake(
    'a thread for a plugin whose calls are synchronous',
    `${head}spec:\n  runtimes: [{ use: runtime-simulated, placement: process }]\n`,
    ['ConfigInvalid', 5, 40, 'spec.runtimes.0.placement', /runtime plugins run in the process of their role only/, /remove it/],
  ),
  mistake('a heap limit for a plugin without a thread', `${head}spec:\n  authn: [{ use: authn-anonymous, memoryMiB: 64 }]\n`, [
    'ConfigInvalid',
    5,
    35,
    'spec.authn.0.memoryMiB',
    /in a thread or process of its own/,
    /placement: thread/,
  ]),
  mistake(
    'a thread for a plugin with a dependency that is not available there',
    `${head}spec:\n  admission: [{ use: admission-webhooks, placement: thread }]\n`,
    [
      'ConfigInvalid',
      5,
      42,
      'spec.admission.0.placement',
      /admission-webhooks cannot run in a thread of its own: it needs authz\/v1, but only client, informers, events and cluster are available there/,
      /the dependency/,
    ],
  ),
  mistake('a dependency that no plugin provides', `${head}spec:\n  authn:\n    - ${plugin('homeless-authn')}\n`, [
    'SlotEmpty',
    6,
    7,
    'spec.authn.0',
    /authn-homeless needs slot directory\/v1, which no plugin fills/,
    /name a plugin for directory/,
  ]),
  mistake('an unknown controller to disable', `${head}spec:\n  settings:\n    controllers:\n      disable: [cronjob, cron-job]\n`, [
    'ConfigInvalid',
    7,
    26,
    'spec.settings.controllers.disable.1',
    /unknown controller "cron-job"/,
    /did you mean cronjob/,
  ]),
  mistake('workers of an unknown controller', `${head}spec:\n  settings:\n    controllers:\n      workers: { everything: 3 }\n`, [
    'ConfigInvalid',
    7,
    18,
    'spec.settings.controllers.workers.everything',
    /unknown controller "everything"/,
    /known names: .*deployment, .*job/,
  ]),
  mistake('an invalid name of a Lease', `${head}spec:\n  settings:\n    controllers: { leaseName: My_Lease }\n`, [
    'ConfigInvalid',
    6,
    20,
    'spec.settings.controllers.leaseName',
    /a name of an object.*"My_Lease"/,
    /describes its config/,
  ]),
  mistake('an unknown scheduling plugin', `${head}spec:\n  settings:\n    scheduler: { weights: { ImageLocalty: 3 } }\n`, [
    'ConfigInvalid',
    6,
    29,
    'spec.settings.scheduler.weights.ImageLocalty',
    /unknown scheduling plugin "ImageLocalty"/,
    /did you mean ImageLocality/,
  ]),
  mistake(
    'an unknown scheduling plugin in a profile',
    `${head}spec:\n  settings:\n    scheduler:\n      profiles:\n        - plugins:\n            score:\n              disabled: [{ name: '*' }]\n              enabled: [{ name: NodeNmae }]\n`,
    [
      'ConfigInvalid',
      11,
      27,
      'spec.settings.scheduler.profiles.0.plugins.score.enabled.0.name',
      /unknown scheduling plugin "NodeNmae"/,
      /did you mean NodeName/,
    ],
  ),
  mistake('an unknown API group to serve', `${head}spec:\n  settings:\n    apiserver:\n      runtimeConfig: { batch/v7: true }\n`, [
    'ConfigInvalid',
    7,
    24,
    'spec.settings.apiserver.runtimeConfig.batch/v7',
    /unknown api group "batch\/v7"/,
    /describes its config/,
  ]),
  mistake(
    'an invalid expression',
    `${head}spec:\n  authz:\n    - use: authz-webhook\n      config:\n        url: https://example.com\n        matchConditions:\n          - expression: 'request.'\n`,
    ['ConfigInvalid', 10, 13, 'spec.authz.0.config.matchConditions.0.expression', /Syntax error/, /\w/],
  ),
  mistake('a dependency cycle', `${head}spec:\n  authn:\n    - ${plugin('needy-authn')}\n  authz:\n    - ${plugin('needy-authz')}\n`, [
    'DependencyCycle',
    6,
    7,
    'spec.authn.0',
    /authn-needy -> authz-needy -> authn-needy/,
    /must not need the next one/,
  ]),
];

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
  ])('is part of the distribution: %s', async (name) => {
    checkPlan(await createPlan(await readClusterFile(fileURLToPath(new URL(`../../../../clusters/${name}.yaml`, import.meta.url)))));
  });
});
