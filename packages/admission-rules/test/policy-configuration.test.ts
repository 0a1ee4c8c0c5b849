import type { KubeObject } from '@oarlock/api/object';
import type { ParamKind } from '@oarlock/api/types/admissionregistration-v1';
import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '@oarlock/api/resources';
import type { Identity } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { describe, expect, it } from 'vitest';
import { ParamAccess } from '../src/param-access.ts';
import { validateConfiguration } from '../src/policy-configuration.ts';
import type { PolicyParams } from '../src/policy-params.ts';

const kinds: Readonly<Record<string, ParamKind>> = {
  'of-config-maps': { apiVersion: 'v1', kind: 'ConfigMap' },
  'of-secrets': { apiVersion: 'v1', kind: 'Secret' },
};
const resources: Readonly<Record<string, string>> = { ConfigMap: 'configmaps', Secret: 'secrets' };
/** May read the ConfigMaps of the namespace `team`, and nothing else. */
const authz: Authorizer = {
  authorize: (asked) =>
    asked.kind === 'resource' && asked.verb === 'get' && asked.resource === 'configmaps' && asked.namespace === 'team'
      ? { decision: 'allow', reason: 'test' }
      : { decision: 'no-opinion' },
};
const access = new ParamAccess([authz], {
  resourceName: async ({ kind }: ParamKind) => resources[kind ?? ''] ?? '*',
} as unknown as PolicyParams);
const ada: Identity = { name: 'ada', groups: [] };

const binding = (policyName: string, paramRef?: object): KubeObject => ({
  metadata: { name: 'b' },
  ...{ spec: { policyName, ...(paramRef && { paramRef }), validationActions: ['Deny'] } },
});
const policy = (kind?: ParamKind): KubeObject => ({ metadata: { name: 'p' }, ...{ spec: { ...(kind && { paramKind: kind }) } } });
const decide = async (next: KubeObject, old?: KubeObject, identity = ada) => {
  const resource =
    'validationActions' in ((next as { readonly spec?: object }).spec ?? {})
      ? validatingAdmissionPolicyBindings
      : validatingAdmissionPolicies;
  const request = admissionRequest(old === undefined ? 'CREATE' : 'UPDATE', resource, next, { identity, ...(old && { old }) });
  const decision = await validateConfiguration(request, {
    policies: 'validatingadmissionpolicies',
    bindings: 'validatingadmissionpolicybindings',
    faults: () => [],
    paramKind: (name) => kinds[name],
    access,
  });
  return decision.allowed;
};
const permittedRef = { name: 'x', namespace: 'team', parameterNotFoundAction: 'Deny' };
const other = { ...permittedRef, namespace: 'other' };
const all = { selector: {}, parameterNotFoundAction: 'Deny' };

describe('the writer of a binding', () => {
  it.each([
    ['refers to parameters that the user may read', binding('of-config-maps', permittedRef), undefined, true],
    ['refers to those of another namespace', binding('of-config-maps', other), undefined, false],
    ['refers to those of every namespace', binding('of-config-maps', all), undefined, false],
    ['refers to Secrets', binding('of-secrets', permittedRef), undefined, false],
    ['refers to those of a policy that does not exist', binding('unknown', permittedRef), undefined, false],
    ['has no parameters', binding('of-secrets'), undefined, true],
    ['keeps a reference', binding('of-secrets', permittedRef), binding('of-secrets', permittedRef), true],
    ['changes the reference', binding('of-config-maps', other), binding('of-config-maps', permittedRef), false],
    [
      'keeps the reference and changes the policy to one with Secrets',
      binding('of-secrets', permittedRef),
      binding('of-config-maps', permittedRef),
      false,
    ],
  ])('%s: %#', async (_, next, old, allowed) => {
    expect(await decide(next, old)).toBe(allowed);
    expect(await decide(next, old, { name: 'root', groups: ['system:masters'] })).toBe(true);
  });
});

describe('the writer of a policy', () => {
  it.each([
    ['has no parameters', policy(), undefined, true],
    ['has parameters of which the user may read some', policy(kinds['of-config-maps']), undefined, false],
    ['keeps the kind of parameters', policy(kinds['of-secrets']), policy(kinds['of-secrets']), true],
    ['changes the kind of parameters', policy(kinds['of-secrets']), policy(kinds['of-config-maps']), false],
  ])('%s: %#', async (_, next, old, allowed) => {
    expect(await decide(next, old)).toBe(allowed);
  });
});
