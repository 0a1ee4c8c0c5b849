import { describe, expect, it } from 'vitest';
import { releaseFaults } from '../checks/release.mjs';
import { notesOf, releaseChangelog } from './changelog.mjs';
import { withDependencies, withVersion } from './manifests.mjs';
import { lockFor } from './release-files.mjs';

const changelog = '# Changelog\n\n## Unreleased\n\n### Added\n- A thing.\n\n## 0.1.0 - 2026-01-01\n\n- The first release.\n';

describe('the changelog of a release', () => {
  it('names the unreleased changes, and keeps a section for the next ones', () => {
    expect(releaseChangelog(changelog, '0.2.0', '2026-02-01')).toBe(
      '# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-02-01\n\n### Added\n- A thing.\n\n## 0.1.0 - 2026-01-01\n\n- The first release.\n',
    );
  });

  it.each(['# Changelog\n', '## Unreleased\n', '## Unreleased\n\n## 0.1.0 - 2026-01-01\n'])('is rejected without changes: %j', (text) => {
    expect(() => releaseChangelog(text, '0.2.0', '2026-02-01')).toThrow('CHANGELOG.md has no changes below "## Unreleased"');
  });

  it('has the notes of a version', () => {
    expect(notesOf(changelog, '0.1.0')).toBe('- The first release.\n');
    expect(() => notesOf(changelog, '0.1')).toThrow('CHANGELOG.md has no section "## 0.1"');
  });
});

const kernel = { name: '@oarlock/kernel', version: '0.1.0', license: 'Apache-2.0', dependencies: { zod: '4.6.7' }, exports: {} };
const cli = {
  name: '@oarlock/cli',
  version: '0.1.0',
  dependencies: { '@oarlock/kernel': '0.1.0', commander: '^14' },
  devDependencies: { vitest: '*' },
  exports: {},
};
const testing = { name: '@oarlock/testing', version: '0.1.0', dependencies: { '@oarlock/cli': '0.1.0' }, exports: {} };
const textOf = (manifest) => JSON.stringify(manifest, null, 2).replace(/\n\s+("@oarlock\/kernel": )/, ' $1');
const packages = (...manifests) => manifests.map((manifest) => ({ folder: manifest.name, text: textOf(manifest) }));
const versions = { '@oarlock/kernel': '0.2.0', '@oarlock/cli': '0.2.0', '@oarlock/testing': '0.2.0' };

describe('the manifests of a release', () => {
  it('keep their format', () => {
    const text = textOf(cli);
    const expected = text.replace('"version": "0.1.0"', '"version": "0.2.0"').replace('kernel": "0.1.0"', 'kernel": "0.2.0"');
    expect(withDependencies(withVersion(text, '0.2.0'), versions)).toBe(expected);
  });

  it('have one version, exact versions of each other, and caret or exact ranges of others', () => {
    expect(releaseFaults(packages(kernel, cli, testing), versions)).toEqual([]);
  });

  it.each([
    [
      'a package without a version',
      packages(kernel, cli, testing),
      { ...versions, '@oarlock/cli': undefined },
      /@oarlock\/cli is published, but nx release gives it no/,
    ],
    [
      'another version',
      packages(kernel, cli, testing),
      { ...versions, '@oarlock/cli': '0.1.1' },
      /@oarlock\/cli gets version 0\.1\.1 instead of 0\.2\.0/,
    ],
    ['a package that is not published', packages(kernel, cli), versions, /@oarlock\/testing gets a version, but is not published/],
    ['a wide range', packages({ ...kernel, dependencies: { zod: '>=4' } }, cli, testing), versions, /dependency zod has the range >=4/],
    ['any version', packages({ ...kernel, peerDependencies: { zod: '*' } }, cli, testing), versions, /dependency zod has the range \*/],
  ])('are rejected with %s', (_, all, planned, fault) => {
    expect(releaseFaults(all, planned)).toContainEqual(expect.stringMatching(fault));
  });

  it('set the versions of the workspaces in the lock file', () => {
    const lock = {
      version: '0.1.0',
      packages: {
        '': { version: '0.1.0' },
        'node_modules/@oarlock/kernel': { resolved: 'packages/kernel', link: true },
        'packages/cli': { version: '0.1.0', dependencies: { '@oarlock/kernel': '0.1.0', commander: '^14' } },
      },
    };
    const released = { ...cli, version: '0.2.0', dependencies: { '@oarlock/kernel': '0.2.0', commander: '^14' } };
    const text = lockFor(JSON.stringify(lock), (folder) => (folder === '' ? { version: '0.2.0' } : released));
    expect(JSON.parse(text)).toEqual({
      version: '0.2.0',
      packages: {
        ...lock.packages,
        '': { version: '0.2.0' },
        'packages/cli': { version: '0.2.0', dependencies: released.dependencies },
      },
    });
  });
});
