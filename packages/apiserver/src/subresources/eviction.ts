import { isObject } from '@oarlock/api/json';
import { selectorFromObject } from '@oarlock/api/label-selector';
import type { KubeObject } from '@oarlock/api/object';
import { ParseError } from '@oarlock/api/parse-error';
import { schemaOf } from '@oarlock/api/schema';
import { badRequest, failure, forbidden, isStatus, notFound, StatusError } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/time';
import type { Pod, PodStatus } from '@oarlock/api/types/core-v1';
import type { Eviction, PodDisruptionBudget } from '@oarlock/api/types/policy-v1';
import { decodeBody } from '../body.ts';
import type { Call } from '../call.ts';
import type { Machinery } from '../machinery.ts';
import { removeObject } from '../registry-delete.ts';
import { checkWriteOptions, parseDeleteOptions, writeOptions, type DeleteOptions } from '../request-options.ts';
import type { PipelineResponse } from '../response.ts';
import { keyOf, type ServedKind } from '../served-kind.ts';
import { withCondition } from '../strategy/pods.ts';
import { statusOf, withParts } from '../strategy/strategy.ts';
import { succeeded } from './answers.ts';

const gvk = { group: 'policy', version: 'v1', kind: 'Eviction' } as const;
const schema = schemaOf(gvk);
const maxDisrupted = 2000;
const maxAttempts = 20;
const budgetCause = 'DisruptionBudget';

/** Of policy/v1beta1, too, of which nothing else is served any more: older clients drain nodes with it. */
const asServed = (body: unknown): unknown =>
  isObject(body) && body['apiVersion'] === 'policy/v1beta1' ? { ...body, apiVersion: 'policy/v1' } : body;

/** POST of pods/eviction: a deletion that asks the pod's disruption budget. https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/ */
export async function evict(machinery: Machinery, pods: ServedKind, call: Call): Promise<PipelineResponse> {
  const { request } = call;
  const { admission, reader } = machinery;
  checkWriteOptions(request.query, 'CreateOptions');
  let eviction = decodeBody<Eviction>(asServed(request.body), { gvk, schema });
  const admitted = {
    operation: 'CREATE' as const,
    resource: pods.resource,
    old: undefined,
    options: writeOptions(request.query, 'CreateOptions'),
    name: request.name,
  };
  if (admission.mutates('CREATE', pods.resource, 'eviction'))
    eviction = (await admission.mutate(call, { ...admitted, object: eviction })) as Eviction;
  if (request.name !== (eviction.metadata?.name ?? '')) throw badRequest('name in URL does not match name in Eviction object');
  const options = parseDeleteOptions(eviction.deleteOptions ?? {}, request.query);
  call.dryRun ||= options.dryRun;
  await admission.validate(call, { ...admitted, object: eviction });
  for (let attempt = 0; ; attempt++) {
    const { object: pod, revision } = await reader.newest(pods, request.namespace, request.name, request.signal);
    const guarded: DeleteOptions = {
      ...options,
      preconditions: { ...options.preconditions, resourceVersion: options.preconditions.resourceVersion ?? String(revision) },
    };
    const free = unguarded(pod as Pod);
    const exact = free === 'gone' ? options : guarded;
    const disruption = free === undefined ? await disrupt(machinery, pods, call, pod as Pod) : undefined;
    try {
      await marked(machinery, pods, call, pod as Pod, disruption?.spent === true ? options : exact);
      return succeeded(call);
    } catch (error) {
      // the pod changed in between: look again, unless the client named the version itself
      const final = options.preconditions.resourceVersion !== undefined || attempt >= maxAttempts;
      // nor does a budget pay twice
      if (!isStatus(error, 'Conflict') || final || disruption?.spent === true) throw error;
      if (disruption?.spent === false) throw tooMany(disruption.budget, 'is still being processed by the server.', 10);
    }
  }
}

/** Pods that no budget protects: those that end or have ended, and those that never ran. */
function unguarded({ metadata, status }: Pod): 'gone' | 'pending' | undefined {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed' || metadata?.deletionTimestamp !== undefined) return 'gone';
  return status?.phase === 'Pending' ? 'pending' : undefined;
}

/** Deletes the pod, which first is told why. */
async function marked(machinery: Machinery, pods: ServedKind, call: Call, pod: Pod, options: DeleteOptions): Promise<void> {
  const name = pod.metadata?.name ?? '';
  let exact = options;
  if (!call.dryRun && pod.metadata?.deletionTimestamp === undefined) {
    const outcome = await machinery.objects.change(pods.store, keyOf(pods, call.request.namespace, name), call, (current) => {
      if (current === undefined) throw notFound(pods.resource, name);
      const { uid, resourceVersion } = options.preconditions;
      if (
        (uid !== undefined && uid !== current.object.metadata?.uid) ||
        (resourceVersion !== undefined && resourceVersion !== String(current.revision))
      ) {
        throw failure(
          'Conflict',
          `Operation cannot be fulfilled on Pod ${JSON.stringify(name)}: the ResourceVersion in the precondition (${resourceVersion ?? ''}) does not match the ResourceVersion in record (${current.revision}). The object might have been modified`,
        );
      }
      const status = statusOf<PodStatus>(current.object);
      const conditions = withCondition(
        status.conditions,
        { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI', message: 'Eviction API: evicting' },
        call.now,
      );
      return { action: 'put', object: withParts(current.object, { status: { ...status, conditions } }) };
    });
    if (options.preconditions.resourceVersion !== undefined && outcome !== undefined)
      exact = { ...options, preconditions: { ...options.preconditions, resourceVersion: String(outcome.item.revision) } };
  }
  await removeObject(machinery, pods, call, name, exact);
}

const ready = ({ status }: Pod) => status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;

/** Takes one disruption from the pod's budget, unless the pod is not ready and counts for nobody; undefined when no budget covers it. @throws StatusError TooManyRequests */
async function disrupt(
  machinery: Machinery,
  pods: ServedKind,
  call: Call,
  pod: Pod,
): Promise<{ readonly spent: boolean; readonly budget: string } | undefined> {
  const budgets = machinery.kind('policy', 'v1', 'poddisruptionbudgets');
  const { namespace } = call.request;
  const all = budgets.cache.select({
    namespace,
    key: undefined,
    indexed: undefined,
    matches: (object) => covers(object as PodDisruptionBudget, pod),
  });
  const [first] = all;
  if (first === undefined) return undefined;
  if (all.length > 1)
    throw new StatusError({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: 'This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.',
      code: 500,
    });
  const { spec, status } = first.object as PodDisruptionBudget;
  if (!ready(pod)) {
    const healthy = (status?.currentHealthy ?? 0) >= (status?.desiredHealthy ?? 0) && (status?.desiredHealthy ?? 0) > 0;
    if (spec?.unhealthyPodEvictionPolicy === 'AlwaysAllow' || healthy) return { spent: false, budget: first.object.metadata?.name ?? '' };
  }
  const name = pod.metadata?.name ?? '';
  const decide = (object: KubeObject) => {
    const budget = object as PodDisruptionBudget;
    checkBudget(budget);
    const disruptionsAllowed = (budget.status?.disruptionsAllowed ?? 0) - 1;
    return withParts(object, {
      status: { ...budget.status, disruptionsAllowed, disruptedPods: { ...budget.status?.disruptedPods, [name]: formatTime(call.now) } },
    });
  };
  const spent = { spent: true, budget: first.object.metadata?.name ?? '' };
  if (call.dryRun) {
    decide(first.object);
    return spent;
  }
  await machinery.objects.change(budgets.store, first.key, call, (current) => {
    if (current === undefined) throw notFound(budgets.resource, first.object.metadata?.name ?? '');
    return { action: 'put', object: decide(current.object) };
  });
  return spent;
}

function covers({ spec }: PodDisruptionBudget, pod: Pod): boolean {
  try {
    const selector = selectorFromObject(spec?.selector);
    // an empty selector covers every pod that has labels at all
    return !selector.none && Object.keys(pod.metadata?.labels ?? {}).length > 0 && selector.matches(pod.metadata?.labels);
  } catch (error) {
    // a selector that is none covers nothing
    if (error instanceof ParseError) return false;
    throw error;
  }
}

function checkBudget({ metadata, status }: PodDisruptionBudget): void {
  const name = metadata?.name ?? '';
  const resource = { group: 'policy', resource: 'poddisruptionbudget' };
  if ((status?.observedGeneration ?? 0) < (metadata?.generation ?? 0)) throw tooMany(name, 'is still being processed by the server.', 10);
  if ((status?.disruptionsAllowed ?? 0) < 0) throw forbidden(resource, name, 'pdb disruptions allowed is negative');
  if (Object.keys(status?.disruptedPods ?? {}).length > maxDisrupted)
    throw forbidden(resource, name, 'DisruptedPods map too big - too many evictions not confirmed by PDB controller');
  if ((status?.disruptionsAllowed ?? 0) === 0)
    throw tooMany(name, `needs ${status?.desiredHealthy ?? 0} healthy pods and has ${status?.currentHealthy ?? 0} currently`, undefined);
}

function tooMany(budget: string, why: string, retryAfterSeconds: number | undefined): StatusError {
  return failure('TooManyRequests', "Cannot evict pod as it would violate the pod's disruption budget.", {
    causes: [{ reason: budgetCause, message: `The disruption budget ${budget} ${why}` }],
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  });
}
