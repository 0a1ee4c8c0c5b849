import { jsonEqual } from '@oarlock/api/json/json';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { perCallLimit, runtimeBudget } from '@oarlock/cel/cost-estimate';
import type { Bindings } from '@oarlock/cel/interpreter/frame';
import {
  dispatch,
  policyRejection,
  type CompiledBinding,
  type DispatchDependencies,
  type PolicyHook,
  type PolicyInvocation,
} from '@oarlock/admission-rules/policy-dispatch';
import { ReinvocationContext } from '@oarlock/admission-rules/reinvocation-context';
import type { RequestBindings } from '@oarlock/admission-rules/request-bindings';
import { asRequested } from '@oarlock/admission-rules/versioned-request';
import { deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { CompiledMutatingPolicy } from './mutating-policy.ts';
import { applyConfiguration, applyPatch, MutationError } from './mutation.ts';

export type MutatingPolicyHooks = readonly PolicyHook<CompiledMutatingPolicy, CompiledBinding>[];

/** Mutates objects with the MutatingAdmissionPolicies that match a request. */
export class PolicyMutator {
  readonly #dependencies: DispatchDependencies;

  constructor(dependencies: DispatchDependencies) {
    this.#dependencies = dependencies;
  }

  /** Returns the object after all matching policies have mutated it, or the denial of a policy. */
  async mutate(request: AdmissionRequest, submitted: KubeObject, hooks: MutatingPolicyHooks): Promise<KubeObject | AdmissionDecision> {
    const run = new MutationRun(request, submitted, ReinvocationContext.of(request.mutation, this));
    await dispatch(
      hooks,
      request,
      this.#dependencies,
      () => run.object,
      (invocation) => run.apply(invocation),
      ({ policy, binding, message }) => run.deny(policy.name, binding?.name, message),
    );
    return run.end();
  }
}

/** The state of the mutation of one request: the object as mutated so far, and the first denial. */
class MutationRun {
  readonly #request: AdmissionRequest;
  readonly #reinvocation: ReinvocationContext;
  #denialMessage: string | undefined;
  object: KubeObject;

  constructor(request: AdmissionRequest, submitted: KubeObject, reinvocation: ReinvocationContext) {
    this.#request = request;
    this.#reinvocation = reinvocation;
    this.object = submitted;
    if (request.mutation?.isReinvocation === true) reinvocation.begin(submitted);
  }

  deny(policy: string, binding: string | undefined, message: string): void {
    this.#denialMessage ??= rejectedBy(policy, binding, message);
  }

  async apply({ policy, binding, request, bindings }: PolicyInvocation<CompiledMutatingPolicy, CompiledBinding>): Promise<void> {
    if (this.#denialMessage !== undefined) return;
    const pass = this.#request.mutation;
    const id = `${policy.name}/${binding.name}/${nameOf(bindings)}`;
    if (pass?.isReinvocation === true && !this.#reinvocation.isDue(id)) return;
    try {
      const versionedObject = request.object as KubeObject;
      const next = await applyMutations(policy, bindings, versionedObject);
      if (next === undefined) return;
      if (!jsonEqual(next, versionedObject)) {
        this.object = deepFreeze(versionedObject === this.object ? next : await asRequested(this.#request, next));
        this.#reinvocation.changed();
        pass?.reinvoke();
      }
      if (policy.reinvokes) this.#reinvocation.called(id);
    } catch (error) {
      if (!(error instanceof MutationError)) throw error;
      if (!policy.ignoresFailures) this.deny(policy.name, binding.name, error.message);
    }
  }

  /** Returns the mutated object or the denial, and ends the pass in the reinvocation context. */
  end(): KubeObject | AdmissionDecision {
    this.#reinvocation.end(this.object);
    const message = this.#denialMessage;
    return message === undefined ? this.object : deny(message, { status: policyRejection(this.#request, message) });
  }
}

const rejectedBy = (policy: string, binding: string | undefined, message: string) =>
  `policy '${policy}'${binding === undefined ? '' : ` with binding '${binding}'`} denied request: ${message}`;

function nameOf({ params }: RequestBindings): string {
  const { namespace = '', name = '' } = (params as KubeObject | null)?.metadata ?? {};
  return `${namespace}/${name}`;
}

/**
 * Applies the mutations of a policy in order. Returns undefined if the policy's match conditions exclude the request.
 * @throws MutationError if a mutation cannot be applied
 */
async function applyMutations(
  policy: CompiledMutatingPolicy,
  bindings: RequestBindings,
  original: KubeObject,
): Promise<KubeObject | undefined> {
  let left = runtimeBudget;
  let [object, scope] = [original, bindings];
  const bind = () => {
    const of = scope as unknown as Bindings;
    scope.variables = policy.variables.bind(of, (cost) => {
      left -= cost;
    });
    return of;
  };
  const matched = policy.conditions.evaluate(bind());
  const conditions = matched instanceof Promise ? await matched : matched;
  if (conditions.fault !== undefined) throw new MutationError(conditions.fault);
  if (!conditions.matches) return undefined;
  for (const { type, program } of policy.mutations) {
    const outcome = program.evaluateAsync(bind(), Math.max(0, Math.min(perCallLimit, left)));
    const { value, error, cost } = outcome instanceof Promise ? await outcome : outcome;
    left -= cost;
    if (error !== undefined) throw new MutationError(`expression '${program.source}' resulted in error: ${error.message}`);
    object = deepFreeze(type === 'ApplyConfiguration' ? applyConfiguration(object, value) : applyPatch(object, value));
    scope = scope.on(object);
  }
  return object;
}
