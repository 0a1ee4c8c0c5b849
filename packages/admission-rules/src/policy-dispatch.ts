import type { KubeObject } from '@oarlock/api/object';
import { groupResource } from '@oarlock/api/resource';
import { StatusError, statusCodes, type Status } from '@oarlock/api/status';
import type { MatchResources, ParamKind, ParamRef } from '@oarlock/api/types/admissionregistration-v1';
import type { AdmissionRequest } from '@oarlock/spi/admission';
import type { Authorizer } from '@oarlock/spi/authz';
import type { MatchConditions } from './match-conditions.ts';
import { isExempt, Matcher } from './matcher.ts';
import type { NamespaceObjects } from './namespace-objects.ts';
import { ConfigurationFault, type PolicyParams } from './policy-params.ts';
import { RequestBindings } from './request-bindings.ts';
import { versioned } from './versioned-request.ts';

/** A policy, of either sort, made ready. */
export interface ReadyPolicy {
  readonly name: string;
  /** Its own version. */
  readonly matcher: Matcher;
  readonly conditions: MatchConditions;
  readonly ignoresFaults: boolean;
  readonly paramKind: ParamKind | undefined;
  /** Why it cannot be applied. */
  readonly fault: string | undefined;
}
export interface ReadyBinding {
  readonly name: string;
  readonly policyName: string;
  /** undefined: it narrows nothing. */
  readonly matcher: Matcher | undefined;
  readonly paramRef: ParamRef | undefined;
}
/** A policy that is bound, by all that bind it. */
export interface Bound<P extends ReadyPolicy, B extends ReadyBinding> {
  readonly policy: P;
  readonly bindings: readonly B[];
}

export const matcherOf = (resources: MatchResources | undefined): Matcher =>
  new Matcher({
    rules: resources?.resourceRules ?? [],
    excluded: resources?.excludeResourceRules,
    matchPolicy: resources?.matchPolicy,
    namespaceSelector: resources?.namespaceSelector,
    objectSelector: resources?.objectSelector,
  });
const anything = { apiGroups: ['*'], apiVersions: ['*'], resources: ['*/*'] };
/** A binding without rules of its own is for all that the policy is for. */
export const bindingMatcherOf = (resources: MatchResources | undefined): Matcher | undefined =>
  resources === undefined
    ? undefined
    : matcherOf({ ...resources, resourceRules: resources.resourceRules?.length ? resources.resourceRules : [anything] });

/** Policies with their bindings, in the order of their names. */
export function boundOf<P extends ReadyPolicy, B extends ReadyBinding>(
  policies: readonly P[],
  bindings: readonly B[],
): readonly Bound<P, B>[] {
  const byPolicy = new Map<string, B[]>();
  for (const binding of bindings) {
    const known = byPolicy.get(binding.policyName);
    if (known === undefined) byPolicy.set(binding.policyName, [binding]);
    else known.push(binding);
  }
  return policies.flatMap((policy) => {
    const own = byPolicy.get(policy.name);
    return own === undefined ? [] : [{ policy, bindings: own }];
  });
}

/** One time that a policy is to be applied to a request. */
export interface Application<P, B> {
  readonly policy: P;
  readonly binding: B;
  /** The request as the policy's rules see it. */
  readonly request: AdmissionRequest;
  readonly bindings: RequestBindings;
}
/** A policy or binding that cannot be applied, and whose `failurePolicy` is to fail. */
export interface Misconfigured<P, B> {
  readonly policy: P;
  readonly binding: B | undefined;
  readonly message: string;
}

export interface Surroundings {
  readonly namespaces: NamespaceObjects;
  readonly params: PolicyParams;
  readonly authz: readonly Authorizer[];
}

/**
 * Which policies apply to a request, with which bindings and parameters, in order. `object` is asked for each time: mutations change it.
 * A policy whose rules name another version of the resource sees the objects in that.
 * `run` applies one; it may be a promise. `fail` is told of what should have been applied and cannot be.
 */
export async function dispatch<P extends ReadyPolicy, B extends ReadyBinding>(
  bound: readonly Bound<P, B>[],
  request: AdmissionRequest,
  { namespaces, params, authz }: Surroundings,
  object: () => KubeObject | undefined,
  run: (application: Application<P, B>) => void | Promise<void>,
  fail: (fault: Misconfigured<P, B>) => void,
): Promise<void> {
  if (isExempt(request)) return;
  let first: RequestBindings | undefined;
  const base = async (): Promise<RequestBindings> => {
    if (first !== undefined) return first;
    const name = request.namespace;
    const namespace = name === '' ? undefined : await namespaces.get(name);
    first = new RequestBindings(request, authz, namespace, undefined);
    return first;
  };
  for (const { policy, bindings } of bound) {
    const resource = policy.matcher.match(request);
    if (resource === undefined) continue;
    const misfit = (error: unknown, binding: B | undefined): void => {
      if (!(error instanceof Error)) throw error;
      if (policy.ignoresFaults) return;
      const what = binding === undefined ? 'policy' : 'binding';
      fail({ policy, binding, message: `failed to configure ${what}: ${error.message}` });
    };
    try {
      const selected = policy.matcher.selects(request, namespaces.labels);
      if (!(selected instanceof Promise ? await selected : selected)) continue;
      if (policy.fault !== undefined) throw new ConfigurationFault(policy.fault);
    } catch (error) {
      misfit(error, undefined);
      continue;
    }
    for (const binding of bindings) {
      try {
        if (binding.matcher !== undefined) {
          if (!binding.matcher.covers(request)) continue;
          const selected = binding.matcher.selects(request, namespaces.labels);
          if (!(selected instanceof Promise ? await selected : selected)) continue;
        }
        const common = await base();
        const own = policy.paramKind === undefined ? [undefined] : await params.of(policy.paramKind, binding.paramRef, request);
        for (const each of own) {
          const current = object();
          const shown = versioned(current === request.object ? request : { ...request, object: current }, resource);
          const seen = shown instanceof Promise ? await shown : shown;
          const own = seen.requested === undefined ? common.with(each, current) : common.about(seen, each);
          await run({ policy, binding, request: seen, bindings: own });
        }
      } catch (error) {
        if (!(error instanceof ConfigurationFault) && !(error instanceof StatusError)) throw error;
        misfit(error, binding);
      }
    }
  }
}

/** The refusal of a policy as its users see it: that of something forbidden, with the reason that the policy gives. */
export function policyRefusal(request: AdmissionRequest, message: string, reason = 'Invalid'): Status {
  const { resource, object, old } = request;
  const name = request.name !== '' ? request.name : (object?.metadata?.generateName ?? old?.metadata?.name ?? '');
  const code = Object.hasOwn(statusCodes, reason) ? statusCodes[reason as keyof typeof statusCodes] : 422;
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: `${groupResource(resource)}${name === '' ? '' : ` "${name}"`} is forbidden: ${message}`,
    reason,
    details: { name, ...(resource.group !== '' && { group: resource.group }), kind: resource.resource, causes: [{ message }] },
    code,
  };
}
