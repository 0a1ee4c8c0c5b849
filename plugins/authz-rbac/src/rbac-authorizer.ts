import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Identity } from '@oarlock/spi/authn';
import { noOpinion, type Attributes, type Authorizer, type Decision, type PostStartHook, type SubjectRules } from '@oarlock/spi/authz';
import type { Client } from '@oarlock/spi/client';
import { defaultObjects, type DefaultsOptions } from './default-objects.ts';
import { evaluateGrants, rulesOf } from './grant-evaluation.ts';
import { GrantIndex } from './grants.ts';
import { reconcileDefaults } from './reconcile-defaults.ts';
import type { RoleCaches } from './role-caches.ts';

export interface RbacConfig extends DefaultsOptions {
  /** True to create and complete the default roles and bindings. */
  readonly defaults: boolean;
}

export interface RbacAuthorizerOptions {
  readonly config: RbacConfig;
  readonly caches: RoleCaches;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

const minRetryMs = 10;
const maxRetryMs = 5_000;
/** The retry delay from which on requests no longer wait for the default roles. Milliseconds. */
const maxWaitForDefaultsMs = 1_000;
const masters = 'system:masters';
const controlPlaneUsers = /^system:(?:kube-|oarlock:|serviceaccount:kube-system:)/;

/** Authorizes requests by roles and bindings. Requests wait until the caches are synced and the default roles exist. */
export class RbacAuthorizer implements Authorizer {
  readonly #options: RbacAuthorizerOptions;
  readonly #index: GrantIndex;
  #ready = false;
  #opening: Promise<void> | undefined;
  #defaultGrants: GrantIndex | undefined;

  constructor(options: RbacAuthorizerOptions) {
    this.#options = options;
    this.#index = options.caches.index;
  }

  /** Creates the default roles and bindings. Resolves when all of them are in the caches. */
  readonly postStartHook: PostStartHook = { name: 'rbac/bootstrap-roles', run: () => this.#open() };

  authorize(attributes: Attributes): Decision | Promise<Decision> {
    if (this.#ready) return evaluateGrants(this.#index, attributes);
    // requests that fill the caches must not wait for them
    if (attributes.identity.groups.includes(masters))
      return { decision: 'allow', reason: `RBAC: member of ${masters}, while roles are being read` };
    const byDefaults = this.#evaluateDefaults(attributes);
    return byDefaults.decision === 'allow' ? byDefaults : this.#open().then(() => evaluateGrants(this.#index, attributes));
  }

  async rulesFor(identity: Identity, namespace: string): Promise<SubjectRules> {
    if (!this.#ready) await this.#open();
    return rulesOf(this.#index, identity, namespace);
  }

  /** Evaluates only the default roles. Used until the caches are synced, so that control plane components can start before the roles are stored. */
  #evaluateDefaults(attributes: Attributes): Decision {
    const { config } = this.#options;
    if (!config.defaults || !controlPlaneUsers.test(attributes.identity.name)) return noOpinion;
    this.#defaultGrants ??= defaultGrants(config);
    return evaluateGrants(this.#defaultGrants, attributes);
  }

  #open(): Promise<void> {
    const { config, caches, signal } = this.#options;
    this.#opening ??= (config.defaults ? this.#createDefaults() : caches.whenSynced(signal)).then(
      () => {
        this.#ready = true;
        this.#defaultGrants = undefined;
      },
      (error: unknown) => {
        if (!signal.aborted) throw error;
      },
    );
    return this.#opening;
  }

  /** Reconciles the default roles and retries until that succeeds. After `maxWaitForDefaultsMs`, requests are decided by the roles that exist. */
  async #createDefaults(): Promise<void> {
    const { client, config, caches, clock, log, signal } = this.#options;
    for (let retryMs = minRetryMs; ; retryMs = Math.min(retryMs * 2, maxRetryMs)) {
      try {
        const keys = await reconcileDefaults(client, config, signal);
        await caches.whenSynced(signal);
        await caches.whenCached(keys);
        return;
      } catch (error) {
        if (signal.aborted) return;
        // the API server creates the namespaces of default roles concurrently
        if (retryMs > maxWaitForDefaultsMs) {
          log.warn({ error: String(error), retryMs }, 'creating the default roles failed; retrying');
          await caches.whenSynced(signal);
          this.#ready = true;
        }
        await clock.sleep(retryMs, signal).catch(() => undefined); // rejects when the plugin stops
      }
    }
  }
}

function defaultGrants(options: DefaultsOptions): GrantIndex {
  const index = new GrantIndex();
  const defaults = defaultObjects(options);
  for (const role of [...defaults.clusterRoles, ...defaults.roles]) index.putRole(role);
  for (const binding of [...defaults.clusterRoleBindings, ...defaults.roleBindings]) index.putBinding(binding, undefined);
  return index;
}
