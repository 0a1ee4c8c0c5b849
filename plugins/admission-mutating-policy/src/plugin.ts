import { jsonEqual } from '@oarlock/api/json/json';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { mutatingAdmissionPolicies, mutatingAdmissionPolicyBindings } from '@oarlock/api/resources';
import { perCallLimit, runtimeBudget } from '@oarlock/cel/cost-estimate';
import type { Bindings } from '@oarlock/cel/interpreter/frame';
import { isExempt } from '@oarlock/admission-rules/matcher';
import { NamespaceObjects } from '@oarlock/admission-rules/namespace-objects';
import { toPolicyHooks, dispatch, policyRejection, type PolicyHook, type CompiledBinding } from '@oarlock/admission-rules/policy-dispatch';
import { ParamAccess } from '@oarlock/admission-rules/param-access';
import { configurationGroup, validateConfiguration, type PolicyResources } from '@oarlock/admission-rules/policy-configuration';
import { PolicyParams } from '@oarlock/admission-rules/policy-params';
import { ReinvocationContext } from '@oarlock/admission-rules/reinvocation-context';
import type { RequestBindings } from '@oarlock/admission-rules/request-bindings';
import { ConfigurationSource } from '@oarlock/admission-rules/configuration-source';
import { asRequested } from '@oarlock/admission-rules/versioned-request';
import { Admission, allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { compileBinding, compilePolicy, type CompiledMutatingPolicy } from './mutating-policy.ts';
import { applyConfiguration, applyPatch, MutationError } from './mutation.ts';

type Policies = readonly PolicyHook<CompiledMutatingPolicy, CompiledBinding>[];

/** Mutates objects by MutatingAdmissionPolicies and their bindings. */
export default Admission.plugin({
  id: 'admission-mutating-policy',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers, authz: Authz },
  create({ client, informers, authz }) {
    let bound: Policies | undefined;
    const forget = () => {
      bound = undefined;
    };
    const policies = new ConfigurationSource(client, informers, { resource: mutatingAdmissionPolicies, make: compilePolicy, changed: forget });
    const bindings = new ConfigurationSource(client, informers, { resource: mutatingAdmissionPolicyBindings, make: compileBinding, changed: forget });
    const surroundings = { namespaces: new NamespaceObjects(informers, client), params: new PolicyParams(client), authz };
    const sort: PolicyResources = {
      policies: 'mutatingadmissionpolicies',
      bindings: 'mutatingadmissionpolicybindings',
      faults: (policy) => compilePolicy(policy).faults,
      paramKind: (name) => policies.get(name)?.paramKind,
      access: new ParamAccess(authz, surroundings.params),
    };
    const memory = {};

    const current = async (): Promise<Policies> => {
      const [those, by] = await Promise.all([policies.all(), bindings.all()]);
      return toPolicyHooks(those, by);
    };
    const known = (): Policies | Promise<Policies> => {
      if (bound !== undefined) return bound;
      const [those, by] = [policies.all(), bindings.all()];
      if (those instanceof Promise || by instanceof Promise) return current();
      bound = toPolicyHooks(those, by);
      return bound;
    };

    const change = async (request: AdmissionRequest, submitted: KubeObject, of: Policies): Promise<KubeObject | AdmissionDecision> => {
      let object = submitted;
      let denialMessage: string | undefined;
      const { mutation: round } = request;
      const state = ReinvocationContext.of(round, memory);
      if (round?.isReinvocation === true) state.begin(object);
      await dispatch(
        of,
        request,
        surroundings,
        () => object,
        async ({ policy, binding, request: seen, bindings }) => {
          if (denialMessage !== undefined) return;
          const id = `${policy.name}/${binding.name}/${nameOf(bindings)}`;
          if (round?.isReinvocation === true && !state.isDue(id)) return;
          try {
            const versionedObject = seen.object as KubeObject;
            const next = await applyMutations(policy, bindings, versionedObject);
            if (next === undefined) return;
            if (!jsonEqual(next, versionedObject)) {
              object = deepFreeze(versionedObject === object ? next : await asRequested(request, next));
              state.changed();
              round?.reinvoke();
            }
            if (policy.reinvokes) state.called(id);
          } catch (error) {
            if (!(error instanceof MutationError)) throw error;
            if (!policy.ignoresFailures) denialMessage = rejectedBy(policy.name, binding.name, error.message);
          }
        },
        ({ policy, binding, message }) => {
          denialMessage ??= rejectedBy(policy.name, binding?.name, message);
        },
      );
      state.end(object);
      return denialMessage === undefined ? object : deny(denialMessage, { status: policyRejection(request, denialMessage) });
    };

    return {
      matches: [{ resources: ['*'], operations: ['*'] }],
      isIdle: (_, { group }) => policies.empty && group !== configurationGroup,
      mutate(request): KubeObject | Promise<KubeObject | AdmissionDecision> {
        const object = request.object as KubeObject;
        if (isExempt(request)) return object;
        const of = known();
        if (of instanceof Promise) return of.then((compiled) => change(request, object, compiled));
        return of.some(({ policy }) => policy.matcher.covers(request)) ? change(request, object, of) : object;
      },
      validate: (request) => (request.resource.group === configurationGroup ? validateConfiguration(request, sort) : allow),
    };
  },
});

const rejectedBy = (policy: string, binding: string | undefined, message: string) =>
  `policy '${policy}'${binding === undefined ? '' : ` with binding '${binding}'`} denied request: ${message}`;

function nameOf({ params }: RequestBindings): string {
  const { namespace = '', name = '' } = (params as KubeObject | null)?.metadata ?? {};
  return `${namespace}/${name}`;
}

/** Applies the mutations of a policy in order; returns undefined if its match conditions exclude the request. @throws MutationError */
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
