import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Attributes } from '@oarlock/spi/authz';
import { afterEach, expect, it } from 'vitest';
import { loadAuditPolicy } from '../../src/audit/audit-policy.ts';

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

async function load(text: string) {
  const folder = await mkdtemp(join(tmpdir(), 'audit-policy-'));
  folders.push(folder);
  const file = join(folder, 'policy.yaml');
  await writeFile(file, text);
  return loadAuditPolicy(file);
}

const ada = { name: 'ada', groups: ['dev', 'system:authenticated'] };
const attributesFor = (verb: string, what: string, namespace = 'a', name = '', identity = ada): Attributes => {
  const [, resource = '', group = '', subresource = ''] = /^([^./]+)(?:\.([^/]+))?(?:\/(.+))?$/.exec(what) ?? [];
  return { kind: 'resource', identity, verb, group, version: 'v1', resource, subresource, namespace, name };
};
const path = (at: string): Attributes => ({ kind: 'path', identity: ada, verb: 'get', path: at });

it('an audit policy applies the first matching rule, and excludes requests that match none', async () => {
  const policy = await load(`
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - { level: None, users: [system:kube-proxy], verbs: [watch], resources: [{ resources: [endpoints, services] }] }
  - { level: None, userGroups: [system:nodes], verbs: [get], resources: [{ resources: [nodes, nodes/status] }] }
  - { level: None, nonResourceURLs: ['/healthz*', /version] }
  - { level: Metadata, resources: [{ resources: [secrets, configmaps, 'serviceaccounts/token'] }] }
  - { level: Request, resources: [{ resources: ['pods/*', '*/status'] }], omitStages: [ResponseStarted] }
  - { level: RequestResponse, namespaces: [prod], omitManagedFields: false }
  - { level: RequestResponse, namespaces: [''], resources: [{ resources: ['*'] }] }
  - { level: Metadata, resources: [{ group: apps, resources: [deployments], resourceNames: [web] }] }
`);
  const level = (attributes: Attributes) => policy(attributes)?.level ?? 'None';
  const proxy = { name: 'system:kube-proxy', groups: [] };
  const node = { name: 'system:node:n', groups: ['system:nodes'] };
  expect(level(attributesFor('watch', 'services', 'a', '', proxy))).toBe('None');
  expect(level(attributesFor('list', 'services', 'prod', '', proxy))).toBe('RequestResponse');
  expect(level(attributesFor('get', 'nodes', '', 'n', node))).toBe('None');
  expect(level(attributesFor('get', 'nodes', '', 'n'))).toBe('RequestResponse');
  expect([level(path('/healthz/etcd')), level(path('/version')), level(path('/metrics'))]).toEqual(['None', 'None', 'None']);
  expect(level(attributesFor('create', 'secrets'))).toBe('Metadata');
  expect(level(attributesFor('create', 'serviceaccounts/token'))).toBe('Metadata');
  expect(level(attributesFor('create', 'serviceaccounts'))).toBe('None');
  expect(level(attributesFor('get', 'pods/log'))).toBe('Request');
  expect(level(attributesFor('update', 'jobs/status'))).toBe('Request');
  expect(policy(attributesFor('get', 'pods'))).toEqual({
    level: 'Request',
    omitStages: new Set(['RequestReceived', 'ResponseStarted']),
    omitManagedFields: true,
  });
  expect(policy(attributesFor('get', 'jobs.batch', 'prod'))).toMatchObject({ level: 'RequestResponse', omitManagedFields: false });
  expect(level(attributesFor('get', 'deployments.apps', 'a', 'web'))).toBe('Metadata');
  expect(level(attributesFor('get', 'deployments.apps', 'a', 'other'))).toBe('None');
  expect(level(attributesFor('list', 'deployments.apps', 'a'))).toBe('None');
});

it.each([
  ['rules: []', 'rules: a policy needs at least one rule'],
  ['rules: [{ level: Everything }]', 'rules.0.level'],
  ['rules: [{ level: None, nonResourceURLs: [/a], namespaces: [b] }]', 'both regular resources and non-resource URLs'],
  ["rules: [{ level: None, nonResourceURLs: ['/a*b'] }]", 'at its end only'],
  ['rules: [{ level: None, resources: [{ resourceNames: [a] }] }]', 'resourceNames need resources'],
  ['rules: [{ level: None, omitStages: [Later] }]', 'omitStages'],
  ['rules: [{ level: None, user: [a] }]', 'user'],
])('rejects %s', async (rules, reason) => {
  await expect(load(`apiVersion: audit.k8s.io/v1\nkind: Policy\n${rules}\n`)).rejects.toThrow(reason);
});

it('a rule for the group "*" applies to the resources of all groups', async () => {
  const policy = await load(`
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - { level: Request, resources: [{ group: '*', resources: ['*/scale'] }] }
  - { level: Metadata, verbs: [create], resources: [{ group: '*' }] }
`);
  const level = (attributes: Attributes) => policy(attributes)?.level;
  expect(level(attributesFor('update', 'deployments.apps/scale'))).toBe('Request');
  expect([level(attributesFor('create', 'pods')), level(attributesFor('create', 'jobs.batch'))]).toEqual(['Metadata', 'Metadata']);
  expect([level(attributesFor('update', 'deployments.apps')), level(path('/metrics'))]).toEqual([undefined, undefined]);
});
