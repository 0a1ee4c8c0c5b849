import { sections, type Section } from '@oarlock/cluster/cluster-file/sections';
import { expect, it } from 'vitest';
import { withPlacement } from '../../src/config/edit-cluster-file.ts';

const section = (key: Section['key']): Section => {
  const found = sections.find((each) => each.key === key);
  if (found === undefined) throw new Error(`there is no section ${key}`);
  return found;
};
const file = `# a cluster
apiVersion: oarlock.dev/v1
kind: Cluster
spec:
  storage: storage-memory # fast

  admission:
    # first
    - admission-namespace-lifecycle
    - { use: admission-limit-ranger, config: {} }
    # last
    - admission-resource-quota
`;

it('inserts a plugin before the quota plugin and changes no other line', () => {
  expect(withPlacement(file, section('admission'), '@acme/admission-a')).toBe(
    file.replace('    # last\n', '    - "@acme/admission-a"\n    # last\n'),
  );
});

/** The YAML library would move the comment of the list and align the lines. */
const aligned = `spec:
  roles:   [apiserver]
  admission: # in order
      # first
      - use:    admission-namespace-lifecycle
        config: {}
      # last
      - admission-resource-quota   # counts`;

it.each([
  ['in the middle', '', '      # last\n'],
  ['at the end', '\n', undefined],
])('changes no line that the YAML library would write in another way: %s', (_, end, before) => {
  const text = `${before === undefined ? aligned.replace('admission-resource-quota   # counts', 'admission-b # |\n# end') : aligned}${end}`;
  const added = '      - use: admission-a\n        config:\n          list:\n            - 1\n';
  const expected = before === undefined ? text.replace('# |\n', `# |\n${added}`) : text.replace(before, `${added}${before}`);
  expect(withPlacement(text, section('admission'), { use: 'admission-a', config: { list: [1] } })).toBe(expected);
});

it('adds lines to such a text without an end of line, and before its first item', () => {
  const text = 'spec:\n  roles:   [apiserver]\n  controllers:\n    - controller-a';
  expect(withPlacement(text, section('controllers'), 'controller-b')).toBe(`${text}\n    - controller-b\n`);
  const first = 'spec:\n  roles:   [apiserver]\n  authn:\n  # certificates\n  - authn-client-certificate\n';
  expect(withPlacement(first, section('authn'), 'authn-a')).toBe(first.replace('  - authn-client', '  - authn-a\n  - authn-client'));
});

it('writes the config, and keeps the indentation of lists', () => {
  const flat = 'spec:\n  controllers:\n  - controller-a\n';
  expect(withPlacement(flat, section('controllers'), { use: 'controller-b', config: { size: 2 } })).toBe(
    `${flat}  - use: controller-b\n    config:\n      size: 2\n`,
  );
});

it('writes out the default list of a section, and fills an empty section', () => {
  expect(withPlacement('spec:\n  roles: [ apiserver ]\n', section('authz'), 'authz-a')).toBe(
    'spec:\n  roles: [ apiserver ]\n  authz:\n    - authz-masters\n    - authz-a\n    - authz-node\n    - authz-rbac\n',
  );
  expect(withPlacement('spec:\n  dns:\n', section('dns'), 'dns-a')).toBe('spec:\n  dns: dns-a\n');
});

it.each([
  ['storage', 'storage-etcd', 'spec.storage takes one plugin and has storage-memory: remove it first'],
  ['admission', 'admission-limit-ranger', 'spec.admission already has admission-limit-ranger'],
] as const)('rejects a second plugin of %s', (key, name, message) => {
  expect(() => withPlacement(file, section(key), name)).toThrow(message);
});

it('rejects a file without a spec', () => {
  expect(() => withPlacement('a: [', section('admission'), 'a')).toThrow('the cluster file has no valid `spec`');
});
