import type { KubeObject } from '@oarlock/api/object';
import type { Resource } from '@oarlock/api/resource';
import type { Client, Informers } from '@oarlock/spi/client';
import { ConfigurationSource } from './configuration-source.ts';
import { toPolicyHooks, type CompiledBinding, type CompiledPolicy, type PolicyHook } from './policy-dispatch.ts';

/** A kind of configuration object, and the function that compiles its objects. */
export interface CompiledKind<T extends KubeObject, R> {
  readonly resource: Resource<T>;
  readonly compile: (object: T) => R;
}

/**
 * The compiled policies of one kind with their bindings (generic.Source of PolicyHooks upstream). The list is rebuilt once after each
 * change.
 */
export class PolicyHookSource<PO extends KubeObject, P extends CompiledPolicy, BO extends KubeObject, B extends CompiledBinding> {
  readonly #policies: ConfigurationSource<PO, P>;
  readonly #bindings: ConfigurationSource<BO, B>;
  #hooks: readonly PolicyHook<P, B>[] | undefined;

  constructor(
    { client, informers }: { readonly client: Client; readonly informers: Informers },
    policies: CompiledKind<PO, P>,
    bindings: CompiledKind<BO, B>,
  ) {
    const changed = () => {
      this.#hooks = undefined;
    };
    this.#policies = new ConfigurationSource(client, informers, { resource: policies.resource, make: policies.compile, changed });
    this.#bindings = new ConfigurationSource(client, informers, { resource: bindings.resource, make: bindings.compile, changed });
  }

  /** True if the policy cache is synced and contains no policies. */
  get empty(): boolean {
    return this.#policies.empty;
  }

  /** Returns the compiled policy with this name from the cache; undefined if the cache does not contain the policy. */
  policy(name: string): P | undefined {
    return this.#policies.get(name);
  }

  /** Returns all policies with their bindings, or a promise while the caches are not synced. */
  all(): readonly PolicyHook<P, B>[] | Promise<readonly PolicyHook<P, B>[]> {
    if (this.#hooks !== undefined) return this.#hooks;
    const [policies, bindings] = [this.#policies.all(), this.#bindings.all()];
    if (policies instanceof Promise || bindings instanceof Promise)
      return Promise.all([policies, bindings]).then(([all, bound]) => toPolicyHooks(all, bound));
    this.#hooks = toPolicyHooks(policies, bindings);
    return this.#hooks;
  }
}
