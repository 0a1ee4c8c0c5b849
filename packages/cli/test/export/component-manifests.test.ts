import { expect, it } from 'vitest';
import { componentFlags, componentManifests, type ExportedComponent } from '../../src/export/component-manifests.ts';

const exported: ExportedComponent = {
  kind: 'controller',
  name: 'controller-a',
  namespace: 'tools',
  image: 'a:1',
  config: { size: 1 },
  rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] }],
  replicas: 3,
  schedulerName: 'a',
};
const objects = (of: ExportedComponent) =>
  [...componentManifests(of).values()].flat() as { kind: string; metadata: { name: string }; [key: string]: unknown }[];
const named = (of: ExportedComponent) => objects(of).map(({ kind, metadata: { name } }) => `${kind} ${name}`);

it('gives a controller its rules, and its own Lease only', () => {
  expect(named(exported)).toEqual([
    'Namespace tools',
    'ServiceAccount controller-a',
    'ClusterRole controller-a',
    'ClusterRoleBinding controller-a',
    'Role controller-a',
    'RoleBinding controller-a',
    'ConfigMap controller-a',
    'Deployment controller-a',
  ]);
  expect(objects(exported).find(({ kind }) => kind === 'Role')).toMatchObject({
    metadata: { namespace: 'tools' },
    rules: [
      { resources: ['leases'], verbs: ['create'] },
      { resources: ['leases'], resourceNames: ['controller-a'], verbs: ['get', 'update'] },
    ],
  });
  expect(objects(exported).find(({ kind }) => kind === 'Deployment')).toMatchObject({ spec: { replicas: 3 } });
  expect(componentFlags(exported)).toEqual(['--leader-elect-resource-name=controller-a', '--leader-elect-resource-namespace=tools']);
});

it("gives a scheduler Kubernetes' roles for schedulers and its own name", () => {
  const scheduler: ExportedComponent = { ...exported, kind: 'scheduler', rules: [] };
  expect(named(scheduler).filter((name) => name.startsWith('Cluster'))).toEqual([
    'ClusterRoleBinding controller-a:kube-scheduler',
    'ClusterRoleBinding controller-a:volume-scheduler',
  ]);
  expect(componentFlags(scheduler)).toContain('--scheduler-name=a');
});
