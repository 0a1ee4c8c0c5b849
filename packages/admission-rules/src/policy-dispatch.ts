import type { KubeObject } from '@oarlock/api/object';
import { groupResource } from '@oarlock/api/resource';
import { StatusError, statusCodes, type Status } from '@oarlock/api/status';
import type { MatchResources, ParamKind, ParamRef } from '@oarlock/api/types/admissionregistration-v1';
import type { AdmissionRequest } from '@oarlock/spi/admission';
import type { Authorizer } from '@oarlock/spi/authz';
import type { MatchConditions } from './match-conditions.ts';
import { isExempt, Matcher } from './matcher.ts';
import type { NamespaceObjects } from './namespace-objects.ts';
import { ConfigurationError, type PolicyParams } from './policy-params.ts';
import { RequestBindings } from './request-bindings.ts';
import { toVersionedRequest } from './versioned-request.ts';

/** A compiled validating or mutating policy. */
export interface CompiledPolicy {
  readonly name: string;
  /** Matches requests to the policy's matchConstraints, and returns the resource version that its rules name. */
  readonly matcher: Matcher;
  readonly conditions: MatchConditions;
  readonly ignoresFailures: boolean;
  readonly paramKind: ParamKind | undefined;
  /** The reason why the policy cannot be evaluated, such as a compile error; undefined if it can be. */
  readonly fault: string | undefined;
}
export interface CompiledBinding {
  readonly name: string;
  readonly policyName: string;
  /** Matches requests to the binding's matchResources; undefined if the binding has none and applies to all requests of the policy. */
  readonly matcher: Matcher | undefined;
  readonly paramRef: ParamRef | undefined;
}
/** A policy with its bindings (generic.PolicyHook upstream). */
export interface PolicyHook<P extends CompiledPolicy, B extends CompiledBinding> {
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
const matchesEverything = { apiGroups: ['*'], apiVersions: ['*'], resources: ['*/*'] };
/**
 * Returns the matcher of a binding's matchResources; undefined for a binding without matchResources, which applies to all requests of the
 * policy.
 */
export const bindingMatcherOf = (resources: MatchResources | undefined): Matcher | undefined =>
  resources === undefined
    ? undefined
    : matcherOf({ ...resources, resourceRules: resources.resourceRules?.length ? resources.resourceRules : [matchesEverything] });

/** Returns each policy together with its bindings, in the order of `policies`. Policies without a binding are omitted. */
export function toPolicyHooks<P extends CompiledPolicy, B extends CompiledBinding>(
  policies: readonly P[],
  bindings: readonly B[],
): readonly PolicyHook<P, B>[] {
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

/** One evaluation of a policy with one binding and one parameter object for a request (generic.PolicyInvocation upstream). */
export interface PolicyInvocation<P, B> {
  readonly policy: P;
  readonly binding: B;
  /** The request, with its objects in the API version that the policy's rules name. */
  readonly request: AdmissionRequest;
  readonly bindings: RequestBindings;
}
/** The error of a policy or binding that cannot be evaluated and whose `failurePolicy` is Fail. */
export interface PolicyConfigurationError<P, B> {
  readonly policy: P;
  readonly binding: B | undefined;
  readonly message: string;
}

export interface DispatchDependencies {
  readonly namespaces: NamespaceObjects;
  readonly params: PolicyParams;
  readonly authz: readonly Authorizer[];
}

/**
 * Calls `run` for each evaluation of a policy that matches the request: once per matching binding and parameter object, in order. The
 * objects are passed in the API version that the policy's rules name.
 * @param object returns the current object; called before each evaluation, because a previous evaluation may have mutated the object
 * @param fail called for each policy or binding that cannot be evaluated, unless its failurePolicy is Ignore
 */
export async function dispatch<P extends CompiledPolicy, B extends CompiledBinding>(
  bound: readonly PolicyHook<P, B>[],
  request: AdmissionRequest,
  { namespaces, params, authz }: DispatchDependencies,
  object: () => KubeObject | undefined,
  run: (application: PolicyInvocation<P, B>) => void | Promise<void>,
  fail: (fault: PolicyConfigurationError<P, B>) => void,
): Promise<void> {
  if (isExempt(request)) return;
  let first: RequestBindings | undefined;
  const base = async (): Promise<RequestBindings> => {
    if (first !== undefined) return first;
    const name = request.namespace;
    const namespace = name === '' ? undefined : await namespaces.get(name);
    first = new RequestBindings(request, { authz, namespace, params: undefined });
    return first;
  };
  for (const { policy, bindings } of bound) {
    const resource = policy.matcher.match(request);
    if (resource === undefined) continue;
    const misfit = (error: unknown, binding: B | undefined): void => {
      if (!(error instanceof Error)) throw error;
      if (policy.ignoresFailures) return;
      const what = binding === undefined ? 'policy' : 'binding';
      fail({ policy, binding, message: `failed to configure ${what}: ${error.message}` });
    };
    try {
      const selected = policy.matcher.selects(request, namespaces.labels);
      if (!(selected instanceof Promise ? await selected : selected)) continue;
      if (policy.fault !== undefined) throw new ConfigurationError(policy.fault);
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
          const versioned = toVersionedRequest(current === request.object ? request : { ...request, object: current }, resource);
          const seen = versioned instanceof Promise ? await versioned : versioned;
          const own = seen.requested === undefined ? common.with(each, current) : common.about(seen, each);
          await run({ policy, binding, request: seen, bindings: own });
        }
      } catch (error) {
        if (!(error instanceof ConfigurationError) && !(error instanceof StatusError)) throw error;
        misfit(error, binding);
      }
    }
  }
}

/** Returns the status of a request that a policy denied. `reason` is the reason that the policy specifies. */
export function policyRejection(request: AdmissionRequest, message: string, reason = 'Invalid'): Status {
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
