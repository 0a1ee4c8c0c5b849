import { customResourceDefinitions, deployments, namespaces, nodes, pods } from '@oarlock/api/resources';
import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import type { AdmissionRequest } from '@oarlock/spi/admission';
import { describe, expect, it } from 'vitest';
import { isExempt, Matcher, type MatchRules, type Rule } from '../src/matcher.ts';
import { admissionRequestValue } from '../src/admission-request.ts';

const request = (
  resource: Resource,
  more: Partial<AdmissionRequest> = {},
  object: KubeObject = { metadata: { name: 'x', namespace: 'd' } },
) => admissionRequest('CREATE', resource, object, more);
const covers = (rule: Rule, asked: AdmissionRequest, more: Partial<MatchRules> = {}) =>
  new Matcher({ rules: [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*'], ...rule }], ...more }).covers(asked);

describe('rules', () => {
  const pod = request(pods);
  const cases: readonly (readonly [string, Rule, AdmissionRequest, boolean])[] = [
    ['everything', {}, pod, true],
    ['all resources, no subresources', {}, request(pods, { subresource: 'status' }), false],
    ['all resources and subresources', { resources: ['*/*'] }, request(pods, { subresource: 'status' }), true],
    ['all subresources of one resource', { resources: ['pods/*'] }, request(pods, { subresource: 'status' }), true],
    ['one subresource of all resources', { resources: ['*/scale'] }, request(deployments, { subresource: 'scale' }), true],
    ['a subresource without its resource', { resources: ['pods/status'] }, pod, false],
    ['a group', { apiGroups: ['apps'] }, pod, false],
    ['the core group', { apiGroups: [''] }, pod, true],
    ['an operation', { operations: ['UPDATE', 'DELETE'] }, pod, false],
    ['a name', { resourceNames: ['x'] }, pod, true],
    ['another name', { resourceNames: ['y'] }, pod, false],
    ['scope Namespaced', { scope: 'Namespaced' }, pod, true],
    ['scope Namespaced, for a node', { scope: 'Namespaced' }, request(nodes), false],
    ['scope Cluster, for a namespace', { scope: 'Cluster' }, request(namespaces), true],
    ['scope Cluster, for a pod', { scope: 'Cluster' }, pod, false],
  ];
  it.each(cases)('%s', (_, rule, asked, expected) => expect(covers(rule, asked)).toBe(expected));

  it('match equivalent versions unless matchPolicy is Exact', () => {
    const rule = { apiVersions: ['v1beta1'] };
    const versions = () => ({ resources: [{ ...deployments, version: 'v1beta1' }], convert: (object: KubeObject) => object });
    const asked = request(deployments, { equivalents: versions });
    expect(covers(rule, asked)).toBe(true);
    expect(covers(rule, asked, { matchPolicy: 'Equivalent' })).toBe(true);
    expect(covers(rule, asked, { matchPolicy: 'Exact' })).toBe(false);
    expect(covers(rule, request(deployments))).toBe(false);
  });
  it('exclude requests of excludeResourceRules', () => {
    const excluded = [{ apiGroups: [''], apiVersions: ['*'], resources: ['pods'], operations: ['CREATE'] }];
    expect(covers({}, pod, { excluded })).toBe(false);
    expect(covers({}, request(deployments), { excluded })).toBe(true);
  });
  it('do not match admission configuration', () => {
    expect(isExempt(request(customResourceDefinitions))).toBe(false);
    expect(isExempt({ resource: { ...pods, group: 'admissionregistration.k8s.io' } })).toBe(true);
  });
});

describe('selectors', () => {
  const red = { matchLabels: { team: 'red' } };
  const labels = (name: string) => (name === 'd' ? { team: 'red' } : {});
  const selects = (rules: Partial<MatchRules>, asked: AdmissionRequest) => new Matcher({ rules: [], ...rules }).selects(asked, labels);
  it('match the labels of the namespace', () => {
    expect(selects({ namespaceSelector: red }, request(pods))).toBe(true);
    expect(selects({ namespaceSelector: red }, request(pods, { namespace: 'e' }))).toBe(false);
    expect(selects({ namespaceSelector: red }, request(nodes))).toBe(true);
    expect(selects({ namespaceSelector: {} }, request(pods, { namespace: 'e' }))).toBe(true);
  });
  it("match a Namespace's own labels", () => {
    expect(selects({ namespaceSelector: red }, request(namespaces, {}, { metadata: { name: 'd' } }))).toBe(false);
    expect(selects({ namespaceSelector: red }, request(namespaces, {}, { metadata: { name: 'n', labels: { team: 'red' } } }))).toBe(true);
    const deletion = admissionRequest('DELETE', namespaces, undefined, { name: 'd', old: { metadata: { name: 'd' } } });
    expect(selects({ namespaceSelector: red }, deletion)).toBe(true);
  });
  it('match the new or the old object', () => {
    const labelled = { metadata: { name: 'x', namespace: 'd', labels: { team: 'red' } } };
    expect(selects({ objectSelector: red }, request(pods, {}, labelled))).toBe(true);
    expect(selects({ objectSelector: red }, request(pods))).toBe(false);
    expect(selects({ objectSelector: red }, request(pods, { old: labelled }))).toBe(true);
    expect(selects({ objectSelector: red }, admissionRequest('CONNECT', pods, { kind: 'PodAttachOptions' } as KubeObject))).toBe(false);
  });
  it('read a namespace that is not in the cache', async () => {
    const matcher = new Matcher({ rules: [], namespaceSelector: red });
    expect(await matcher.selects(request(pods), () => Promise.resolve({ team: 'red' }))).toBe(true);
  });
});

it('admissionRequestValue has the fields of AdmissionReview.request', () => {
  const scale = { apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { name: 'x', namespace: 'd' } };
  expect(
    admissionRequestValue(
      admissionRequest('UPDATE', deployments, scale as never, { subresource: 'scale', options: { kind: 'UpdateOptions' } }),
    ),
  ).toEqual({
    kind: { group: 'autoscaling', version: 'v1', kind: 'Scale' },
    resource: { group: 'apps', version: 'v1', resource: 'deployments' },
    subResource: 'scale',
    requestKind: { group: 'autoscaling', version: 'v1', kind: 'Scale' },
    requestResource: { group: 'apps', version: 'v1', resource: 'deployments' },
    requestSubResource: 'scale',
    name: 'x',
    namespace: 'd',
    operation: 'UPDATE',
    userInfo: { username: 'alice', groups: ['system:authenticated'] },
    dryRun: false,
    options: { kind: 'UpdateOptions' },
  });
});
