import type { KubeObject } from '@oarlock/api/object';
import type { ParamKind, ParamRef } from '@oarlock/api/types/admissionregistration-v1';
import { allow, deny, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import type { ParamsAccess } from './params-access.ts';

/** The group of everything that configures admission. */
export const configurationGroup = 'admissionregistration.k8s.io';

/** An expression that does not compile, and where it is. */
export interface ExpressionFault {
  readonly field: string;
  readonly expression: string;
  readonly message: string;
}

/** Expressions that do not compile are not taken; those that were there before may stay. */
export function expressionRefusal(now: readonly ExpressionFault[], before: readonly ExpressionFault[]): Verdict | undefined {
  const fault = now.find(({ expression }) => !before.some((old) => old.expression === expression));
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
/** One sort of policies. */
export interface PolicySort {
  readonly policies: string;
  readonly bindings: string;
  readonly faults: (policy: KubeObject) => readonly ExpressionFault[];
  /** Of a policy that is known. */
  readonly paramKind: (policy: string) => ParamKind | undefined;
  readonly access: ParamsAccess;
}

/** Policies and bindings are judged by nobody's rules; but their expressions have to compile, and who writes them has to know their parameters. */
export async function judgeConfiguration(
  request: AdmissionRequest,
  { policies, bindings, faults, paramKind, access }: PolicySort,
): Promise<Verdict> {
  const { subresource, object, old } = request;
  const { resource } = request.resource;
  if (subresource !== '' || object === undefined) return allow;
  if (resource === bindings) {
    const [{ spec }, before]: readonly [AnyBinding, AnyBinding | undefined] = [object, old];
    return (await access.binding(request, spec?.paramRef, before?.spec?.paramRef, paramKind(spec?.policyName ?? ''))) ?? allow;
  }
  if (resource !== policies) return allow;
  const [{ spec }, before]: readonly [AnyPolicy, AnyPolicy | undefined] = [object, old];
  const fault = expressionRefusal(faults(object), old === undefined ? [] : faults(old));
  return fault ?? (await access.policy(request, spec?.paramKind, before?.spec?.paramKind)) ?? allow;
}
