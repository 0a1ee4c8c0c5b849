import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { slot } from '@oarlock/kernel/slot';
import type { Identity } from './authn.ts';

/** What is asked for. `authorizer.Attributes` of Kubernetes. */
export type Attributes = ResourceAttributes | NonResourceAttributes;
export interface ResourceAttributes {
  readonly kind: 'resource';
  readonly identity: Identity;
  /** get, list, watch, create, update, patch, delete, deletecollection, connect's HTTP verb, impersonate, bind, ... */
  readonly verb: string;
  readonly group: string;
  readonly version: string;
  readonly resource: string;
  readonly subresource: string;
  /** '' for cluster-scoped resources and for all namespaces. */
  readonly namespace: string;
  readonly name: string;
  /** Of a list, a watch or a deletion of many, as it was sent: what it does not select, it does not touch. */
  readonly fieldSelector?: string;
}
export interface NonResourceAttributes {
  readonly kind: 'path';
  readonly identity: Identity;
  readonly verb: string;
  readonly path: string;
}

/** `allow` and `deny` end the chain; when all have no opinion the request is refused. */
export type Decision =
  | { readonly decision: 'allow'; readonly because: string }
  | { readonly decision: 'deny'; readonly because: string }
  | { readonly decision: 'no-opinion'; readonly because?: string };

export const noOpinion: Decision = { decision: 'no-opinion' };

/** What somebody may do, as rules. Fields mean what they mean in a PolicyRule of RBAC. */
export interface Rules {
  readonly resources: readonly PolicyRule[];
  readonly paths: readonly PolicyRule[];
  /** Why this is not all, where it is not: `evaluationError` of a rules review. */
  readonly incomplete?: string;
}

export interface Authorizer {
  authorize(attributes: Attributes): Decision | Promise<Decision>;
  /** All that somebody may do in a namespace and in the cluster as a whole. An authorizer without it decides, and cannot say beforehand what. */
  rulesFor?(identity: Identity, namespace: string): Rules | Promise<Rules>;
}

/** Whether a chain allows something: for plugins that ask more than the request itself was asked. Throws only what an authorizer throws. */
export async function decisionOf(chain: readonly Authorizer[], attributes: Attributes): Promise<Decision> {
  const reasons: string[] = [];
  for (const authorizer of chain) {
    const decision = await authorizer.authorize(attributes);
    if (decision.decision !== 'no-opinion') return decision;
    if (decision.because !== undefined) reasons.push(decision.because);
  }
  return reasons.length === 0 ? noOpinion : { decision: 'no-opinion', because: reasons.join(', ') };
}

export const Authz = slot.chain<Authorizer>('authz/v1');
