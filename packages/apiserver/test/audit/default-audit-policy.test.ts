import type { Attributes } from '@oarlock/spi/authz';
import { describe, expect, it } from 'vitest';
import { defaultAuditPolicy } from '../../src/audit/default-audit-policy.ts';

const ada = { name: 'ada', groups: ['system:authenticated'] };
const node = { name: 'system:node:a', groups: ['system:nodes', 'system:authenticated'] };
const scheduler = { name: 'system:kube-scheduler', groups: ['system:authenticated'] };
const controller = {
  name: 'system:serviceaccount:kube-system:deployment-controller',
  groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
};
const on = (identity: Attributes['identity'], verb: string, resource: string, group = ''): Attributes => {
  const [name = '', subresource = ''] = resource.split('/');
  return {
    kind: 'resource',
    identity,
    verb,
    group,
    version: 'v1',
    resource: name,
    subresource,
    namespace: 'default',
    name: 'x',
  } as Attributes;
};
const path = (identity: Attributes['identity'], text: string): Attributes => ({ kind: 'path', identity, verb: 'get', path: text });

describe('the default audit policy', () => {
  it.each([
    ['reads of Secrets by a node', on(node, 'get', 'secrets')],
    ['reads of Secrets by a controller', on(controller, 'watch', 'secrets')],
    ['token requests of a node', on(node, 'create', 'serviceaccounts/token')],
    ['token reviews', on(node, 'create', 'tokenreviews', 'authentication.k8s.io')],
    ['exec by a controller', on(controller, 'get', 'pods/exec')],
    ['the proxy of a Service', on(controller, 'get', 'services/proxy')],
    ['writes of pods by a controller', on(controller, 'create', 'pods')],
    ['a binding by the scheduler', on(scheduler, 'create', 'pods/binding')],
    ['reads of Secrets by a user', on(ada, 'list', 'secrets')],
    ['writes by a user', on(ada, 'create', 'pods')],
    ['writes of leases by a user', on(ada, 'update', 'leases', 'coordination.k8s.io')],
    ['deletions of EndpointSlices by a controller', on(controller, 'delete', 'endpointslices', 'discovery.k8s.io')],
    ['reads of roles by a controller', on(controller, 'list', 'clusterroles', 'rbac.authorization.k8s.io')],
    ['the path of a backup', path(ada, '/oarlock/v1/backup')],
    ['metrics', path(ada, '/metrics')],
  ])('records %s at level Metadata, once the response is complete', (_, attributes) => {
    expect(defaultAuditPolicy(attributes)).toMatchObject({ level: 'Metadata', omitStages: new Set(['RequestReceived']) });
  });

  it.each([
    ['reads by a user', on(ada, 'get', 'pods')],
    ['reads of ConfigMaps by the scheduler', on(scheduler, 'list', 'configmaps')],
    ['reads of pods by a node', on(node, 'list', 'pods')],
    ['heartbeats of a node', on(node, 'update', 'leases', 'coordination.k8s.io')],
    ['the status of a node', on(node, 'patch', 'nodes/status')],
    ['watches of the scheduler', on(scheduler, 'watch', 'nodes')],
    ['Events', on(controller, 'create', 'events')],
    ['health checks', path(ada, '/readyz')],
    ['discovery', path(ada, '/apis/apps/v1')],
  ])('omits %s', (_, attributes) => {
    expect(defaultAuditPolicy(attributes)).toBeUndefined();
  });
});
