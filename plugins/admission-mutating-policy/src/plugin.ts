import { jsonEqual } from '@oarlock/api/json';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { mutatingAdmissionPolicies, mutatingAdmissionPolicyBindings } from '@oarlock/api/resources';
import { perCallLimit, runtimeBudget } from '@oarlock/cel/estimate';
import type { Bindings } from '@oarlock/cel/frame';
import { isExempt } from '@oarlock/admission-rules/matcher';
import { NamespaceObjects } from '@oarlock/admission-rules/namespace-objects';
import { boundOf, dispatch, policyRefusal, type Bound, type ReadyBinding } from '@oarlock/admission-rules/policy-dispatch';
import { ParamsAccess } from '@oarlock/admission-rules/params-access';
import { configurationGroup, judgeConfiguration, type PolicySort } from '@oarlock/admission-rules/policy-configuration';
import { PolicyParams } from '@oarlock/admission-rules/policy-params';
import { Reinvocation } from '@oarlock/admission-rules/reinvocation';
import type { RequestBindings } from '@oarlock/admission-rules/request-bindings';
import { RuleObjects } from '@oarlock/admission-rules/rule-objects';
import { asRequested } from '@oarlock/admission-rules/versioned-request';
import { Admission, allow, deny, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import { Authz } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { readyBinding, readyPolicy, type ReadyMutatingPolicy } from './mutating-policy.ts';
import { applyConfiguration, applyPatch, MutationFault } from './mutation.ts';

type Policies = readonly Bound<ReadyMutatingPolicy, ReadyBinding>[];

/** Changes objects by MutatingAdmissionPolicies and their bindings. */
export default Admission.plugin({
  id: 'admission-mutating-policy',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers, authz: Authz },
  create({ client, informers, authz }) {
    let bound: Policies | undefined;
    const forget = () => {
      bound = undefined;
    };
    const policies = new RuleObjects(client, informers, mutatingAdmissionPolicies, readyPolicy, forget);
    const bindings = new RuleObjects(client, informers, mutatingAdmissionPolicyBindings, readyBinding, forget);
    const surroundings = { namespaces: new NamespaceObjects(informers, client), params: new PolicyParams(client), authz };
    const sort: PolicySort = {
      policies: 'mutatingadmissionpolicies',
      bindings: 'mutatingadmissionpolicybindings',
      faults: (policy) => readyPolicy(policy).faults,
      paramKind: (name) => policies.get(name)?.paramKind,
      access: new ParamsAccess(authz, surroundings.params),
    };
    const memory = {};

    const current = async (): Promise<Policies> => {
      const [those, by] = await Promise.all([policies.all(), bindings.all()]);
      return boundOf(those, by);
    };
    const known = (): Policies | Promise<Policies> => {
      if (bound !== undefined) return bound;
      const [those, by] = [policies.all(), bindings.all()];
      if (those instanceof Promise || by instanceof Promise) return current();
      bound = boundOf(those, by);
      return bound;
    };

    const change = async (request: AdmissionRequest, given: KubeObject, of: Policies): Promise<KubeObject | Verdict> => {
      let object = given;
      let refusal: string | undefined;
      const { round } = request;
      const state = Reinvocation.of(round, memory);
      if (round?.again === true) state.begin(object);
      await dispatch(
        of,
        request,
        surroundings,
        () => object,
        async ({ policy, binding, request: seen, bindings }) => {
          if (refusal !== undefined) return;
          const id = `${policy.name}/${binding.name}/${nameOf(bindings)}`;
          if (round?.again === true && !state.isDue(id)) return;
          try {
            const shown = seen.object as KubeObject;
            const next = await mutated(policy, bindings, shown);
            if (next === undefined) return;
            if (!jsonEqual(next, shown)) {
              object = deepFreeze(shown === object ? next : await asRequested(request, next));
              state.changed();
              round?.reinvoke();
            }
            if (policy.reinvokes) state.called(id);
          } catch (error) {
            if (!(error instanceof MutationFault)) throw error;
            if (!policy.ignoresFaults) refusal = refused(policy.name, binding.name, error.message);
          }
        },
        ({ policy, binding, message }) => {
          refusal ??= refused(policy.name, binding?.name, message);
        },
      );
      state.end(object);
      return refusal === undefined ? object : deny(refusal, { status: policyRefusal(request, refusal) });
    };

    return {
      matches: [{ resources: ['*'], operations: ['*'] }],
      idle: (_, { group }) => policies.empty && group !== configurationGroup,
      mutate(request): KubeObject | Promise<KubeObject | Verdict> {
        const object = request.object as KubeObject;
        if (isExempt(request)) return object;
        const of = known();
        if (of instanceof Promise) return of.then((settled) => change(request, object, settled));
        return of.some(({ policy }) => policy.matcher.covers(request)) ? change(request, object, of) : object;
      },
      validate: (request) => (request.resource.group === configurationGroup ? judgeConfiguration(request, sort) : allow),
    };
  },
});

const refused = (policy: string, binding: string | undefined, message: string) =>
  `policy '${policy}'${binding === undefined ? '' : ` with binding '${binding}'`} denied request: ${message}`;

function nameOf({ params }: RequestBindings): string {
  const { namespace = '', name = '' } = (params as KubeObject | null)?.metadata ?? {};
  return `${namespace}/${name}`;
}

/** What a policy makes of an object, one mutation after the other; undefined when its conditions say that it is not for it. @throws MutationFault */
async function mutated(policy: ReadyMutatingPolicy, bindings: RequestBindings, given: KubeObject): Promise<KubeObject | undefined> {
  let left = runtimeBudget;
  let [object, scope] = [given, bindings];
  const bind = () => {
    const of = scope as unknown as Bindings;
    scope.variables = policy.variables.bind(of, (cost) => {
      left -= cost;
    });
    return of;
  };
  const matched = policy.conditions.evaluate(bind());
  const conditions = matched instanceof Promise ? await matched : matched;
  if (conditions.fault !== undefined) throw new MutationFault(conditions.fault);
  if (!conditions.matches) return undefined;
  for (const { type, program } of policy.mutations) {
    const outcome = program.evaluateAsync(bind(), Math.max(0, Math.min(perCallLimit, left)));
    const { value, error, cost } = outcome instanceof Promise ? await outcome : outcome;
    left -= cost;
    if (error !== undefined) throw new MutationFault(`expression '${program.source}' resulted in error: ${error.message}`);
    object = deepFreeze(type === 'ApplyConfiguration' ? applyConfiguration(object, value) : applyPatch(object, value));
    scope = scope.on(object);
  }
  return object;
}
