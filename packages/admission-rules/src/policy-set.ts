import type { KubeObject } from '@oarlock/api/object';
import type { AdmissionDecision, AdmissionRequest } from '@oarlock/spi/admission';
import type { Authorizer } from '@oarlock/spi/authz';
import type { Client, Informers } from '@oarlock/spi/client';
import { NamespaceObjects } from './namespace-objects.ts';
import { ParamAccess } from './param-access.ts';
import type { CompiledExpressions } from './policy-compiler.ts';
import { configurationGroup, validateConfiguration, type PolicyResources } from './policy-configuration.ts';
import type { CompiledBinding, DispatchDependencies, PolicyHook } from './policy-dispatch.ts';
import { PolicyHookSource, type CompiledKind } from './policy-hook-source.ts';
import { PolicyParams } from './policy-params.ts';
import type { IsStored } from './admission-environment.ts';

export interface PolicySetNeeds {
  readonly client: Client;
  readonly informers: Informers;
  readonly authz: readonly Authorizer[];
}

/** A kind of policy, and how its expressions compile: those of policies in storage are all stored. */
export interface CompiledPolicyKind<O extends KubeObject, C> extends CompiledKind<O, C> {
  readonly compile: (policy: O, isStored?: IsStored) => C;
}

/** The policies and bindings of one kind (validating or mutating), and what an admission plugin needs to evaluate them. */
export class PolicySet<PO extends KubeObject, P extends CompiledExpressions, BO extends KubeObject, B extends CompiledBinding> {
  readonly dependencies: DispatchDependencies;
  readonly #hooks: PolicyHookSource<PO, P, BO, B>;
  readonly #resources: PolicyResources;

  constructor({ client, informers, authz }: PolicySetNeeds, policies: CompiledPolicyKind<PO, P>, bindings: CompiledKind<BO, B>) {
    const params = new PolicyParams(client);
    this.#hooks = new PolicyHookSource({ client, informers }, policies, bindings);
    this.dependencies = { namespaces: new NamespaceObjects(informers, client), params, authz };
    this.#resources = {
      policies: policies.resource.resource,
      bindings: bindings.resource.resource,
      // requests carry objects of any kind; `validateConfiguration` calls this for policies only
      faults: (policy, isStored) => policies.compile(policy as PO, isStored).faults,
      paramKind: (name) => this.#hooks.policy(name)?.paramKind,
      access: new ParamAccess(authz, params),
    };
  }

  /** True if no request of the API group needs the plugin: there is no policy, and the request is not for a policy. */
  isIdle(group: string): boolean {
    return this.#hooks.empty && group !== configurationGroup;
  }

  /** Validates writes of policies and bindings themselves. */
  validateConfiguration(request: AdmissionRequest): Promise<AdmissionDecision> {
    return validateConfiguration(request, this.#resources);
  }

  /** Calls `run` with all policies if one of them may match the request, otherwise returns `otherwise`. Waits for the caches first. */
  evaluate<T>(request: AdmissionRequest, otherwise: T, run: (hooks: readonly PolicyHook<P, B>[]) => T | Promise<T>): T | Promise<T> {
    const hooks = this.#hooks.all();
    if (hooks instanceof Promise) return hooks.then(run);
    return hooks.some(({ policy }) => policy.matcher.covers(request)) ? run(hooks) : otherwise;
  }
}
