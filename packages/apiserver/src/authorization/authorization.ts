import { parseFieldSelector } from '@oarlock/api/selectors/field-selector';
import { failure, forbidden, type StatusError } from '@oarlock/api/status';
import type { Attributes, Authorizer, Decision, ResourceAttributes } from '@oarlock/spi/authz';
import type { Clock } from '@oarlock/primitives/clock';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { AuthMetrics } from './access-metrics.ts';
import type { RequestContext } from '../endpoints/request/request-context.ts';

/** The names of the authorizer plugins in the order of the chain, for spans; empty if unknown. */
export type PluginNames = readonly string[];

/** The metrics of authorization, and the clock that measures them. */
export interface AuthorizationTiming {
  readonly metrics: AuthMetrics;
  readonly clock: Pick<Clock, 'monotonic'>;
}

/**
 * Calls the authorizers in order and returns the first decision that allows or denies. If none does, returns no opinion with the reasons of
 * all authorizers.
 */
export function runAuthorizers(
  chain: readonly Authorizer[],
  attributes: Attributes,
): (Decision & { readonly by: number }) | Promise<Decision & { readonly by: number }> {
  const reasons: string[] = [];
  for (let i = 0; i < chain.length; i++) {
    const answer = (chain[i] as Authorizer).authorize(attributes);
    if (answer instanceof Promise) return runRemainingAuthorizers(chain, attributes, i, answer, reasons);
    if (answer.decision !== 'no-opinion') return { ...answer, by: i };
    if (answer.reason !== undefined) reasons.push(answer.reason);
  }
  return noOpinion(reasons);
}

async function runRemainingAuthorizers(
  chain: readonly Authorizer[],
  attributes: Attributes,
  at: number,
  first: Promise<Decision>,
  reasons: string[],
): Promise<Decision & { readonly by: number }> {
  let answer = await first;
  for (let i = at; ; answer = await (chain[i] as Authorizer).authorize(attributes)) {
    if (answer.decision !== 'no-opinion') return { ...answer, by: i };
    if (answer.reason !== undefined) reasons.push(answer.reason);
    if (++i >= chain.length) return noOpinion(reasons);
  }
}

const noOpinion = (reasons: readonly string[]): Decision & { readonly by: number } => ({
  decision: 'no-opinion',
  ...(reasons.length > 0 && { reason: reasons.join(', ') }),
  by: -1,
});

export function attributesOf({ verb, resource, subresource, namespace, name: named, identity, query }: ApiRequest): ResourceAttributes {
  const { group, version } = resource;
  const name = named === '' && (verb === 'list' || verb === 'watch') ? nameFromFieldSelector(query['fieldSelector']) : named;
  // for roles in a namespace, a Namespace object belongs to itself: by the name in the path, not by one in a selector
  const within = group === '' && resource.resource === 'namespaces' && namespace === '' ? named : namespace;
  const fieldSelector = collectionVerbs.has(verb) ? (query['fieldSelector'] ?? '') : '';
  return {
    kind: 'resource',
    identity,
    verb,
    group,
    version,
    resource: resource.resource,
    subresource,
    namespace: within,
    name,
    ...(fieldSelector !== '' && { fieldSelector }),
  };
}

/** Returns the error of a request that is not authorized, with upstream's message and code 403. */
export function forbiddenError(attributes: Attributes, reason: string | undefined): StatusError {
  const { identity, verb } = attributes;
  const suffix = reason === undefined || reason === '' ? '' : `: ${reason}`;
  const user = `User ${JSON.stringify(identity.name)} cannot ${verb}`;
  if (attributes.kind === 'path') return failure('Forbidden', `forbidden: ${user} path ${JSON.stringify(attributes.path)}${suffix}`, {});
  const { group, resource, subresource, namespace, name } = attributes;
  const what = `resource ${JSON.stringify(subresource === '' ? resource : `${resource}/${subresource}`)} in API group ${JSON.stringify(group)}`;
  const where = namespace === '' ? 'at the cluster scope' : `in the namespace ${JSON.stringify(namespace)}`;
  return forbidden({ group, resource }, name, `${user} ${what} ${where}${suffix}`);
}

/** Adds the annotations of the authorization decision to the audit event of a request, as upstream does. */
export function annotateAuthorizationDecision(
  event: { annotate?(key: string, value: string): void },
  { decision, reason = '' }: Decision,
): void {
  event.annotate?.('authorization.k8s.io/decision', decision === 'allow' ? 'allow' : 'forbid');
  event.annotate?.('authorization.k8s.io/reason', reason);
}

/** Authorizes a request. Returns a promise only if an authorizer does. @throws StatusError Forbidden if no authorizer allows the request */
export function authorizeRequest(
  chain: readonly Authorizer[],
  names: PluginNames,
  attributes: ResourceAttributes,
  context: RequestContext,
  times?: AuthorizationTiming,
): void | Promise<void> {
  const span = context.startChildSpan('authorization');
  const began = times?.clock.monotonic() ?? 0;
  const applyDecision = (decision: Decision & { readonly by: number }) => {
    if (times !== undefined) {
      const ms = times.clock.monotonic() - began;
      times.metrics.observeAuthorization(decision.decision, ms / 1000);
      times.metrics.countDecision(names[decision.by], decision.decision);
      context.addLatency('authorization', ms);
    }
    span?.setAttributes({ 'oarlock.decision': decision.decision, 'oarlock.plugin': names[decision.by] ?? '' });
    span?.end();
    if (context.request.annotate !== undefined) annotateAuthorizationDecision(context.request, decision);
    if (decision.decision !== 'allow') throw forbiddenError(attributes, decision.reason);
  };
  const decision = runAuthorizers(chain, attributes);
  return decision instanceof Promise ? decision.then(applyDecision) : applyDecision(decision);
}

const collectionVerbs: ReadonlySet<string> = new Set(['list', 'watch', 'deletecollection']);

/**
 * Returns the name that a field selector requires for metadata.name; otherwise ''. Permission to get an object by name includes list and
 * watch with this selector, but not deletecollection. Upstream's `RequestInfo` does the same.
 */
export function nameFromFieldSelector(fieldSelector: string | undefined): string {
  if (fieldSelector === undefined || !fieldSelector.includes('metadata.name')) return '';
  try {
    const name = parseFieldSelector(fieldSelector).requiresExactMatch('metadata.name') ?? '';
    return /^[^/%]+$/.test(name) && name !== '.' && name !== '..' ? name : '';
  } catch {
    return ''; // the malformed selector is rejected after authorization
  }
}
