import { kinds } from '@oarlock/api/kinds';
import {
  apiServices,
  clusterRoleBindings,
  clusterRoles,
  flowSchemas,
  leases,
  namespaces,
  priorityClasses,
  priorityLevelConfigurations,
  roleBindings,
  roles,
  serviceCIDRs,
  services,
} from '@oarlock/api/resources';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { defaultObjects } from '@oarlock/authz-rbac/default-objects';
import { describe, expect, it } from 'vitest';
import { startTestCluster } from '../../src/test-cluster.ts';

const keyOf = ({ metadata }: KubeObject) => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;
const keysOf = (objects: readonly KubeObject[]) => objects.map(keyOf);

describe('ready cluster', () => {
  it('has all bootstrap objects in the first list', async () => {
    await using cluster = await startTestCluster();
    const list = async (resource: Resource) => keysOf((await cluster.client.list(resource)).items);
    const verbose = String(await cluster.client.raw('GET', '/readyz?verbose'));
    // one turn of lists: nothing is written between them and readiness
    const found = await Promise.all(
      [
        clusterRoles,
        clusterRoleBindings,
        roles,
        roleBindings,
        namespaces,
        priorityClasses,
        flowSchemas,
        priorityLevelConfigurations,
        serviceCIDRs,
        services,
        leases,
        apiServices,
      ].map(list),
    );
    const [foundRoles = [], foundBindings = [], namespaceRoles = [], namespaceBindings = [], ...others] = found;
    const defaults = defaultObjects({});
    console.log(
      `default roles at ready: ${foundRoles.length} ClusterRoles, ${foundBindings.length} ClusterRoleBindings, ${namespaceRoles.length} Roles, ${namespaceBindings.length} RoleBindings`,
    );
    expect(defaults.clusterRoles.length).toBeGreaterThanOrEqual(87);
    expect(foundRoles).toEqual(expect.arrayContaining(keysOf(defaults.clusterRoles)));
    expect(foundBindings).toEqual(expect.arrayContaining(keysOf(defaults.clusterRoleBindings)));
    expect(namespaceRoles).toEqual(expect.arrayContaining(keysOf(defaults.roles)));
    expect(namespaceBindings).toEqual(expect.arrayContaining(keysOf(defaults.roleBindings)));
    const [systemNamespaces, classes, schemas, levels, cidrs, systemServices, serverLeases, groups] = others;
    expect(systemNamespaces).toEqual(['/default', '/kube-node-lease', '/kube-public', '/kube-system']);
    expect(classes).toEqual(['/system-cluster-critical', '/system-node-critical']);
    expect(schemas).toHaveLength(11);
    expect(levels).toHaveLength(8);
    expect(cidrs).toEqual(['/kubernetes']);
    expect(systemServices).toContain('default/kubernetes');
    expect(serverLeases?.filter((key) => /^kube-system\/apiserver-[a-z2-7]{26}$/.test(key))).toHaveLength(1);
    const groupVersions = new Set(
      kinds.filter(({ servedByDefault }) => servedByDefault).map(({ group, version }) => `/${version}.${group}`),
    );
    expect(new Set(groups)).toEqual(groupVersions);
    for (const name of ['rbac/bootstrap-roles', 'scheduling/bootstrap-system-priority-classes', 'crd-informer-synced'])
      expect(verbose).toContain(`[+]poststarthook/${name} ok\n`);
    expect(verbose).toContain('[+]log ok\n');
    expect(verbose).not.toContain('[-]');
  });
});
