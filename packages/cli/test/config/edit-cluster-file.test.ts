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
