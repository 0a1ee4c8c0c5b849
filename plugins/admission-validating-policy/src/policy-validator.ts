import { dispatch, policyRejection, type DispatchDependencies, type PolicyHook } from '@oarlock/admission-rules/policy-dispatch';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { CheckMetrics } from './check-metrics.ts';
import { evaluatePolicy, type Denial } from './evaluation.ts';
import type { CompiledValidatingBinding, CompiledValidatingPolicy } from './validating-policy.ts';

export type ValidatingPolicyHooks = readonly PolicyHook<CompiledValidatingPolicy, CompiledValidatingBinding>[];
interface Denied {
  readonly message: string;
  readonly reason: string;
}
export interface ValidationDependencies extends DispatchDependencies {
  readonly metrics: CheckMetrics;
  readonly clock: { monotonic(): number };
}
const failureKey = 'validation.policy.admission.k8s.io/validation_failure';

/** Validates a request against the policies that match it, and applies the validationActions of the policies' bindings. */
export async function validateByPolicies(
  request: AdmissionRequest,
  hooks: ValidatingPolicyHooks,
  dependencies: ValidationDependencies,
): Promise<AdmissionDecision> {
  const { metrics, clock } = dependencies;
  const denied: Denied[] = [];
  const annotations = new Map<string, string[]>();
  const failures: object[] = [];
  await dispatch(
    hooks,
    request,
    dependencies,
    () => request.object,
    async ({ policy, binding, bindings }) => {
      const startedAt = clock.monotonic();
      const { denials, annotations: own } = await evaluatePolicy(policy, bindings);
      const ms = denials.length === 0 ? 0 : clock.monotonic() - startedAt;
      for (const denial of denials) {
        applyValidationAction(request, { policy, binding, denial, denied, failures });
        for (const action of binding.actions)
          metrics.observe({ policy: policy.name, binding: binding.name, isError: denial.isError, action, ms });
      }
      for (const { key, value } of own) add(annotations, `${policy.name}/${key}`, value);
    },
    ({ policy, binding, message }) => denied.push({ message: rejectedBy(policy.name, binding?.name, message), reason: 'Invalid' }),
  );
  for (const [key, values] of annotations) request.annotate(key, values.join(', '));
  if (failures.length > 0) request.annotate(failureKey, JSON.stringify(failures));
  const [first] = denied;
  return first === undefined ? allow : deny(first.message, { status: policyRejection(request, first.message, first.reason) });
}

const rejectedBy = (policy: string, binding: string | undefined, message: string) =>
  `ValidatingAdmissionPolicy '${policy}'${binding === undefined ? '' : ` with binding '${binding}'`} denied request: ${message}`;

/** A denial of a policy, and where it is reported. */
interface DenialReport {
  readonly policy: CompiledValidatingPolicy;
  readonly binding: CompiledValidatingBinding;
  readonly denial: Denial;
  readonly denied: Denied[];
  readonly failures: object[];
}

function applyValidationAction(
  request: AdmissionRequest,
  { policy, binding, denial: { index, message, reason }, denied, failures }: DenialReport,
): void {
  for (const action of binding.actions) {
    if (action === 'Deny') denied.push({ message: rejectedBy(policy.name, binding.name, message), reason });
    else if (action === 'Warn')
      request.warn(`Validation failed for ValidatingAdmissionPolicy '${policy.name}' with binding '${binding.name}': ${message}`);
    else if (action === 'Audit')
      failures.push({
        message,
        policy: policy.name,
        binding: binding.name,
        expressionIndex: Math.max(0, index),
        validationActions: binding.actions,
      });
  }
}

function add(annotations: Map<string, string[]>, key: string, value: string): void {
  const values = annotations.get(key);
  if (values === undefined) annotations.set(key, [value]);
  else if (!values.includes(value)) values.push(value);
}
