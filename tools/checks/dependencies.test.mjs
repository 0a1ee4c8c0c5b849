import { describe, expect, it } from 'vitest';
import { lockFaults, workflowFaults, workspaceFaults } from './dependencies.mjs';

describe('lock file', () => {
  const entry = { version: '1.0.0', integrity: 'sha512-AAAA', license: 'MIT' };
  const faultsOf = (changes, name = 'left') => lockFaults({ packages: { '': {}, [`node_modules/${name}`]: { ...entry, ...changes } } });

  it('passes with a digest, a known license and no host', () => {
    expect(faultsOf({})).toEqual([]);
    expect(faultsOf({ hasInstallScript: true }, 'esbuild')).toEqual([]);
    expect(faultsOf({ license: '(AGPL-3.0 OR MIT)' })).toEqual([]);
  });

  it.each([
    ['no digest', { integrity: undefined }, 'no sha512 digest'],
    ['a weak digest', { integrity: 'sha1-AAAA' }, 'no sha512 digest'],
    ['a registry host', { resolved: 'https://registry.example/left.tgz' }, 'names a registry host'],
    ['an unknown license', { license: 'AGPL-3.0' }, 'license AGPL-3.0'],
    ['only unknown licenses to choose from', { license: '(AGPL-3.0 OR GPL-3.0)' }, 'license (AGPL-3.0 OR GPL-3.0)'],
    ['an install script', { hasInstallScript: true }, 'install script'],
  ])('fails with %s', (_, changes, fault) => {
    expect(faultsOf(changes)).toEqual([expect.stringContaining(fault)]);
  });
});

describe('workflows', () => {
  const commit = '0123456789abcdef0123456789abcdef01234567';

  it('pass if each action names a commit', () => {
    expect(workflowFaults(`steps:\n  - uses: a/b@${commit} # v1.0.0\n  - name: c\n    uses: a/b/c@${commit}\n`)).toEqual([]);
  });

  it.each(['a/b@v4', 'a/b@main', 'a/b@0123456', 'a/b', `'a/b@${commit}'`, 'docker://a:1'])('fail with %s', (action) => {
    expect(workflowFaults(`steps:\n  - uses: ${action}\n`)).toEqual([`${action}: the action does not name a commit`]);
  });
});

describe('workspaces of the lock file', () => {
  const manifest = (changes = {}) => ({ name: '@oarlock/a', version: '1.0.0', dependencies: { zod: '4.6.7' }, ...changes });
  const link = { resolved: 'packages/a', link: true };
  const lock = (changes = {}) => ({
    packages: { '': { name: 'oarlock' }, 'packages/a': { ...manifest(), license: 'MIT' }, 'node_modules/@oarlock/a': link, ...changes },
  });
  const manifests = (changes) =>
    new Map([
      ['', { name: 'oarlock' }],
      ['packages/a', manifest(changes)],
    ]);

  it('pass if the lock file repeats each package.json, in any order', () => {
    expect(workspaceFaults(lock(), manifests())).toEqual([]);
    const ab = { dependencies: { a: '1', b: '2' } };
    const ba = { dependencies: { b: '2', a: '1' } };
    expect(workspaceFaults(lock({ 'packages/a': manifest(ab) }), manifests(ba))).toEqual([]);
  });

  it.each([
    [
      'an added dependency',
      { dependencies: { zod: '4.6.7', ws: '8' } },
      'dependencies ws is missing in the lock file and "8" in package.json',
    ],
    ['a removed dependency', { dependencies: {} }, 'dependencies zod is "4.6.7" in the lock file and missing in package.json'],
    ['another range', { dependencies: { zod: '^4' } }, 'dependencies zod is "4.6.7" in the lock file and "^4" in package.json'],
    ['a peer dependency', { peerDependencies: { vitest: '^4' } }, 'peerDependencies vitest is missing in the lock file'],
    ['another version', { version: '2.0.0' }, 'version is "1.0.0" in the lock file and "2.0.0" in package.json'],
  ])('fail with %s in package.json', (_, changes, fault) => {
    expect(workspaceFaults(lock(), manifests(changes))).toEqual([expect.stringContaining(`packages/a: ${fault}`)]);
  });

  it('fail with a workspace that only one of them has', () => {
    expect(workspaceFaults(lock({ 'packages/a': undefined, 'node_modules/@oarlock/a': undefined }), manifests())).toEqual([
      expect.stringContaining('missing in the lock file'),
      expect.stringContaining('does not link to it'),
    ]);
    expect(workspaceFaults(lock({ 'packages/b': manifest() }), manifests())).toEqual([expect.stringContaining('packages/b: ')]);
  });
});
