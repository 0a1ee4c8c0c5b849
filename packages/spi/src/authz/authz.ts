import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { slot } from '@oarlock/kernel/slot';
import type { Identity } from '../authn/authn.ts';

/** The action to authorize (`authorizer.Attributes` upstream). */
export type Attributes = ResourceAttributes | NonResourceAttributes;
export interface ResourceAttributes {
  readonly kind: 'resource';
  readonly identity: Identity;
  /** The verb: get, list, watch, create, update, patch, delete, deletecollection, the HTTP method of a connect request, impersonate, bind, ... */
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  /** The namespace; '' for cluster-scoped resources and for requests across all namespaces. */
  readonly namespace: string;
  readonly name: string;
  /** The field selector of a list, watch or deletecollection, as the client sent it. The request affects only objects that match the selector. */
  readonly fieldSelector?: string;
}
export interface NonResourceAttributes {
  readonly kind: 'path';
  readonly identity: Identity;
  readonly verb: string;
  readonly path: string;
}

/** The decision of one authorizer. `allow` and `deny` end the chain. If every authorizer has no opinion, the request fails with 403. */
export type Decision =
  | { readonly decision: 'allow'; readonly reason: string }
  | { readonly decision: 'deny'; readonly reason: string }
  | { readonly decision: 'no-opinion'; readonly reason?: string };

export const noOpinion: Decision = { decision: 'no-opinion' };

/** The permissions of a user as rules. Fields have the meaning of RBAC's PolicyRule. */
export interface SubjectRules {
  readonly resources: readonly PolicyRule[];
  readonly paths: readonly PolicyRule[];
  /** Why the list may be incomplete: `evaluationError` of a SelfSubjectRulesReview. */
  readonly incomplete?: string;
}

/**
 * Work that the API server runs once, after it serves requests. The server is ready only after the work has completed. For a plugin in a worker
 * thread, the work starts with the thread and the server does not wait for it.
 */
export interface PostStartHook {
  /** The name of the health check `poststarthook/NAME`, such as `rbac/bootstrap-roles`. */
  readonly name: string;
  /** Does the work, with retries. Resolves when the work has completed. A rejection leaves the server not ready. */
  run(signal: AbortSignal): Promise<void>;
}

/**
 * Decides whether a user may perform an action.
 *
 * The API server calls the chain for every request before it reads the body, and again for each additional permission that a
 * request needs, such as impersonation. The same attributes must give the same decision until the authorizer's configuration
 * changes. Names and groups are compared literally.
 */
export interface Authorizer {
  /** Returns the decision. A thrown error fails the request with status 500. */
  authorize(attributes: Attributes): Decision | Promise<Decision>;
  /**
   * Returns the user's permissions in the namespace and in the cluster scope, for SelfSubjectRulesReview. Absent if the
   * authorizer cannot list permissions.
   */
  rulesFor?(identity: Identity, namespace: string): SubjectRules | Promise<SubjectRules>;
  /** Creates the objects that the authorizer needs. Absent if it needs none. */
  readonly postStartHook?: PostStartHook;
}

/**
 * Returns the decision of a chain of authorizers, for plugins that check further permissions. Joins the reasons of authorizers without an opinion.
 * @throws the error of an authorizer
 */
export async function authorizeChain(chain: readonly Authorizer[], attributes: Attributes): Promise<Decision> {
  const reasons: string[] = [];
  for (const authorizer of chain) {
    const decision = await authorizer.authorize(attributes);
    if (decision.decision !== 'no-opinion') return decision;
    if (decision.reason !== undefined) reasons.push(decision.reason);
  }
  return reasons.length === 0 ? noOpinion : { decision: 'no-opinion', reason: reasons.join(', ') };
}

export const Authz = slot.chain<Authorizer>('authz/v1');
