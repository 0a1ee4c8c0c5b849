import { Counter, Histogram, type Registry } from 'prom-client';

const labelNames = ['policy', 'policy_binding', 'error_type', 'enforcement_action'] as const;

/** A validation that failed, and the action of the binding that applied. */
export interface FailedCheck {
  readonly policy: string;
  readonly binding: string;
  /** Whether an expression resulted in an error instead of false. */
  readonly isError: boolean;
  /** A validationAction, such as `Deny`. */
  readonly action: string;
  /** The time that the evaluation of the policy took, in milliseconds. */
  readonly ms: number;
}

/** The metrics of the checks of ValidatingAdmissionPolicies, under upstream's names. */
export class CheckMetrics {
  readonly #checks: Counter<(typeof labelNames)[number]>;
  readonly #durations: Histogram<(typeof labelNames)[number]>;

  constructor(registry: Registry) {
    const common = { labelNames: [...labelNames], registers: [registry] };
    this.#checks = new Counter({
      name: 'apiserver_validating_admission_policy_check_total',
      help: 'Validation admission policy checks that failed, by policy and action.',
      ...common,
    });
    this.#durations = new Histogram({
      name: 'apiserver_validating_admission_policy_check_duration_seconds',
      help: 'Validation admission latency of failed checks in seconds, by policy and action.',
      buckets: [0.0000005, 0.001, 0.01, 0.1, 1],
      ...common,
    });
  }

  observe({ policy, binding, isError, action, ms }: FailedCheck): void {
    const labels = {
      policy,
      policy_binding: binding,
      error_type: isError ? 'invalid_error' : 'no_error',
      enforcement_action: action.toLowerCase(),
    };
    this.#checks.inc(labels);
    this.#durations.observe(labels, ms / 1000);
  }
}
