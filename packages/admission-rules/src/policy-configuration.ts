import type { KubeObject } from '@oarlock/api/object';
import type { ParamKind, ParamRef } from '@oarlock/api/types/admissionregistration-v1';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { ParamAccess } from './param-access.ts';
import { allStored, storedIn, type IsStored } from './admission-environment.ts';

/** The API group of admission configuration. */
export const configurationGroup = 'admissionregistration.k8s.io';

/** An expression that does not compile, with its field path. */
export interface ExpressionError {
  readonly field: string;
  readonly expression: string;
  readonly message: string;
}

/** Rejects expressions in `now` that do not compile, except expressions that the object contained before the update (`before`). */
export function expressionRejection(now: readonly ExpressionError[], before: readonly ExpressionError[]): AdmissionDecision | undefined {
  const known = new Set(before.map(({ expression }) => expression));
  const fault = now.find(({ expression }) => !known.has(expression));
  if (fault === undefined) return undefined;
  return deny(`Invalid value: ${JSON.stringify(fault.expression)}: compilation failed: ${fault.message}`, {
    reason: 'Invalid',
    field: fault.field,
  });
}

interface AnyPolicy extends KubeObject {
  readonly spec?: { readonly paramKind?: ParamKind };
}
interface AnyBinding extends KubeObject {
  readonly spec?: { readonly policyName?: string; readonly paramRef?: ParamRef };
}
/** The resources of validating or of mutating admission policies and their bindings. */
export interface PolicyResources {
  readonly policies: string;
  readonly bindings: string;
  /** Compiles the expressions of a policy, and returns those that do not compile. */
  readonly faults: (policy: KubeObject, isStored: IsStored) => readonly ExpressionError[];
  /** Returns the paramKind of the policy with this name from the cache; undefined if the policy is not cached or has no paramKind. */
  readonly paramKind: (policy: string) => ParamKind | undefined;
  readonly access: ParamAccess;
}

/**
 * Validates admission policies and bindings on write: expressions must compile, and the user needs permission to read the parameters. Runs
 * as built-in code, because policies and bindings are exempt from admission policies.
 */
export async function validateConfiguration(
  request: AdmissionRequest,
  { policies, bindings, faults, paramKind, access }: PolicyResources,
): Promise<AdmissionDecision> {
  const { subresource, object, old } = request;
  const { resource } = request.resource;
  if (subresource !== '' || object === undefined) return allow;
  if (resource === bindings) {
    const [{ spec }, before]: readonly [AnyBinding, AnyBinding | undefined] = [object, old];
    // the same reference to parameters means other objects with the paramKind of another policy
    const authorized = before?.spec?.policyName === spec?.policyName ? before?.spec?.paramRef : undefined;
    return (await access.binding(request, { ref: spec?.paramRef, old: authorized, kind: paramKind(spec?.policyName ?? '') })) ?? allow;
  }
  if (resource !== policies) return allow;
  const [{ spec }, before]: readonly [AnyPolicy, AnyPolicy | undefined] = [object, old];
  const fault = expressionRejection(faults(object, storedIn(old)), old === undefined ? [] : faults(old, allStored));
  return fault ?? (await access.policy(request, spec?.paramKind, before?.spec?.paramKind)) ?? allow;
}
