import { parseFieldSelector } from '@oarlock/api/field-selector';
import { failure, forbidden, type StatusError } from '@oarlock/api/status';
import type { Attributes, Authorizer, Decision, ResourceAttributes } from '@oarlock/spi/authz';
import type { Clock } from '@oarlock/kernel/clock';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { AccessMetrics } from './access-metrics.ts';
import type { Call } from './call.ts';

/** Names of the plugins of a chain, where they are known, for spans. */
export type Names = readonly string[];

/** What measures authorization, and by which clock. */
export interface AccessTimes {
  readonly metrics: AccessMetrics;
  readonly clock: Pick<Clock, 'monotonic'>;
}

/** The decision of a chain: the first that allows or denies; without one, no opinion with all that was said. */
export function decide(
  chain: readonly Authorizer[],
  attributes: Attributes,
): (Decision & { readonly by: number }) | Promise<Decision & { readonly by: number }> {
  const reasons: string[] = [];
  for (let i = 0; i < chain.length; i++) {
    const answer = (chain[i] as Authorizer).authorize(attributes);
    if (answer instanceof Promise) return later(chain, attributes, i, answer, reasons);
    if (answer.decision !== 'no-opinion') return { ...answer, by: i };
    if (answer.because !== undefined) reasons.push(answer.because);
  }
  return noOpinion(reasons);
}

async function later(
  chain: readonly Authorizer[],
  attributes: Attributes,
  at: number,
  first: Promise<Decision>,
  reasons: string[],
): Promise<Decision & { readonly by: number }> {
  let answer = await first;
  for (let i = at; ; answer = await (chain[i] as Authorizer).authorize(attributes)) {
    if (answer.decision !== 'no-opinion') return { ...answer, by: i };
    if (answer.because !== undefined) reasons.push(answer.because);
    if (++i >= chain.length) return noOpinion(reasons);
  }
}

const noOpinion = (reasons: readonly string[]): Decision & { readonly by: number } => ({
  decision: 'no-opinion',
  ...(reasons.length > 0 && { because: reasons.join(', ') }),
  by: -1,
});

export function attributesOf({ verb, resource, subresource, namespace, name: named, identity, query }: ApiRequest): ResourceAttributes {
  const { group, version } = resource;
  const name = named === '' && manyVerbs.has(verb) ? selectedName(query['fieldSelector']) : named;
  // roles in a namespace are about the namespace itself, too
  const within = group === '' && resource.resource === 'namespaces' && namespace === '' ? name : namespace;
  const fieldSelector = manyVerbs.has(verb) ? (query['fieldSelector'] ?? '') : '';
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

/** The 403 that Kubernetes answers. */
export function refusal(attributes: Attributes, because: string | undefined): StatusError {
  const { identity, verb } = attributes;
  const more = because === undefined || because === '' ? '' : `: ${because}`;
  const user = `User ${JSON.stringify(identity.name)} cannot ${verb}`;
  if (attributes.kind === 'path') return failure('Forbidden', `forbidden: ${user} path ${JSON.stringify(attributes.path)}${more}`, {});
  const { group, resource, subresource, namespace, name } = attributes;
  const what = `resource ${JSON.stringify(subresource === '' ? resource : `${resource}/${subresource}`)} in API group ${JSON.stringify(group)}`;
  const where = namespace === '' ? 'at the cluster scope' : `in the namespace ${JSON.stringify(namespace)}`;
  return forbidden({ group, resource }, name, `${user} ${what} ${where}${more}`);
}

/** As upstream annotates the audit event of a request. */
export function annotateDecision(event: { annotate?(key: string, value: string): void }, { decision, because = '' }: Decision): void {
  event.annotate?.('authorization.k8s.io/decision', decision === 'allow' ? 'allow' : 'forbid');
  event.annotate?.('authorization.k8s.io/reason', because);
}

/** Asks the chain whether a request may go on. Synchronous where the chain is. @throws StatusError Forbidden */
export function authorize(
  chain: readonly Authorizer[],
  names: Names,
  attributes: ResourceAttributes,
  call: Call,
  times?: AccessTimes,
): void | Promise<void> {
  const span = call.child('authorization');
  const began = times?.clock.monotonic() ?? 0;
  const judge = (decision: Decision & { readonly by: number }) => {
    times?.metrics.authorized(decision.decision, (times.clock.monotonic() - began) / 1000);
    span?.setAttributes({ 'oarlock.decision': decision.decision, 'oarlock.plugin': names[decision.by] ?? '' });
    span?.end();
    if (call.request.annotate !== undefined) annotateDecision(call.request, decision);
    if (decision.decision !== 'allow') throw refusal(attributes, decision.because);
  };
  const decision = decide(chain, attributes);
  return decision instanceof Promise ? decision.then(judge) : judge(decision);
}

const manyVerbs: ReadonlySet<string> = new Set(['list', 'watch', 'deletecollection']);

/** Who may only read one object may list and watch it by its name, too: `RequestInfo` of Kubernetes takes the name from the field selector. */
function selectedName(fieldSelector: string | undefined): string {
  if (fieldSelector === undefined || !fieldSelector.includes('metadata.name')) return '';
  try {
    const name = parseFieldSelector(fieldSelector).exact('metadata.name') ?? '';
    return /^[^/%]+$/.test(name) && name !== '.' && name !== '..' ? name : '';
  } catch {
    return ''; // refused as malformed once it is known that the sender may ask at all
  }
}
