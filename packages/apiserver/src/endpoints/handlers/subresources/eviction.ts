import { isObject } from '@oarlock/api/json/json';
import { selectorFromLabelSelector } from '@oarlock/api/selectors/label-selector';
import type { KubeObject } from '@oarlock/api/object';
import { ParseError } from '@oarlock/api/values/parse-error';
import { schemaOf } from '@oarlock/api/schema/schema';
import { badRequest, failure, forbidden, isStatus, notFound, StatusError } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import type { Pod, PodStatus } from '@oarlock/api/types/core-v1';
import type { Eviction, PodDisruptionBudget } from '@oarlock/api/types/policy-v1';
import { conformAdmitted, decodeBody } from '../../request/body.ts';
import type { RequestContext } from '../../request/request-context.ts';
import type { RegistryDependencies } from '../../../registry/registry-dependencies.ts';
import { withRequestNamespace } from '../create.ts';
import { checkPreconditions, deleteNamed } from '../delete.ts';
import type { RequestScope } from '../../../registry/request-scope.ts';
import { checkWriteOptions, parseDeleteOptions, writeOptions, type DeleteOptions } from '../../request/request-options.ts';
import type { PipelineResponse } from '../../request/response.ts';
import { keyOf, type ServedKind } from '../../../registry/served-kind.ts';
import { withCondition } from '../../../registry/strategies/pods.ts';
import { statusOf, withFields } from '../../../registry/strategy.ts';
import { successResponse } from './responses.ts';

const gvk = { group: 'policy', version: 'v1', kind: 'Eviction' } as const;
const schema = schemaOf(gvk);
const maxDisruptedPods = 2000;
const maxAttempts = 20;
const budgetCause = 'DisruptionBudget';
const disruptionAllowed = 'DisruptionAllowed';

/** Returns the body of an Eviction with the served apiVersion. Older clients send policy/v1beta1 to drain nodes. */
const toServedVersion = (body: unknown): unknown =>
  isObject(body) && body['apiVersion'] === 'policy/v1beta1' ? { ...body, apiVersion: 'policy/v1' } : body;

/**
 * Handles POST of pods/eviction: deletes the pod if its PodDisruptionBudget allows that.
 * https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
 */
export async function evict(registry: RegistryDependencies, pods: ServedKind, context: RequestContext): Promise<PipelineResponse> {
  const { request } = context;
  const scope: RequestScope = { registry, kind: pods, context };
  const options = await admitEviction(scope);
  for (let attempt = 0; ; attempt++) {
    const { object: pod, revision } = await registry.reader.getLatest(pods, request);
    const guarded: DeleteOptions = {
      ...options,
      preconditions: { ...options.preconditions, resourceVersion: options.preconditions.resourceVersion ?? String(revision) },
    };
    const unprotected = unprotectedPhase(pod as Pod);
    const deleteOptions = unprotected === 'gone' ? options : guarded;
    const disruption = unprotected === undefined ? await decrementDisruptionBudget(scope, pod as Pod) : undefined;
    try {
      await deleteWithDisruptionCondition(scope, pod as Pod, disruption?.spent === true ? options : deleteOptions);
      return successResponse(context);
    } catch (error) {
      // the pod changed concurrently: retry, unless the client specified the version
      const final = options.preconditions.resourceVersion !== undefined || attempt >= maxAttempts;
      // a retry does not decrement the budget again
      if (!isStatus(error, 'Conflict') || final || disruption?.spent === true) throw error;
      if (disruption?.spent === false) throw disruptionBudgetError(disruption.budget, 'is still being processed by the server.', 10);
    }
  }
}

/** Decodes an Eviction and runs admission; returns the delete options of the Eviction. */
async function admitEviction({ registry: { admission }, kind: pods, context }: RequestScope): Promise<DeleteOptions> {
  const { request } = context;
  checkWriteOptions(request.query, 'CreateOptions');
  const body = decodeBody<Eviction>(toServedVersion(request.body), { gvk, schema });
  // the name is checked after admission, with another message
  const submitted = withRequestNamespace(pods, body, { namespace: request.namespace, name: '' }) as Eviction;
  const attributes = {
    operation: 'CREATE' as const,
    resource: pods.resource,
    old: undefined,
    options: writeOptions(request.query, 'CreateOptions'),
    name: request.name,
  };
  const admitted = admission.mutates('CREATE', pods.resource, 'eviction')
    ? conformAdmitted<Eviction>(await admission.mutate(context, { ...attributes, object: submitted }), submitted, { gvk, schema })
    : submitted;
  if (request.name !== (admitted.metadata?.name ?? '')) throw badRequest('name in URL does not match name in Eviction object');
  const options = parseDeleteOptions(admitted.deleteOptions ?? {}, request.query);
  context.dryRun ||= options.dryRun;
  await admission.validate(context, { ...attributes, object: admitted });
  return options;
}

/**
 * Returns the reason why an eviction needs no PodDisruptionBudget: `gone` for a pod that is terminating or has terminated, `pending` for a pod in
 * phase Pending; undefined for any other pod.
 */
function unprotectedPhase({ metadata, status }: Pod): 'gone' | 'pending' | undefined {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed' || metadata?.deletionTimestamp !== undefined) return 'gone';
  return status?.phase === 'Pending' ? 'pending' : undefined;
}

/** Sets the condition DisruptionTarget of the pod, then deletes the pod. */
async function deleteWithDisruptionCondition(scope: RequestScope, pod: Pod, options: DeleteOptions): Promise<void> {
  const { registry, kind: pods, context } = scope;
  const { namespace } = context.request;
  const name = pod.metadata?.name ?? '';
  let deleteOptions = options;
  if (!context.dryRun && pod.metadata?.deletionTimestamp === undefined) {
    const outcome = await registry.objects.guaranteedUpdate(pods.storedKind, keyOf(pods, namespace, name), context, (current) => {
      if (current === undefined) throw notFound(pods.resource, name);
      checkPreconditions(pods, current, options);
      const status = statusOf<PodStatus>(current.object);
      const conditions = withCondition(
        status.conditions,
        { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI', message: 'Eviction API: evicting' },
        context.now,
      );
      return { action: 'put', object: withFields(current.object, { status: { ...status, conditions } }) };
    });
    if (options.preconditions.resourceVersion !== undefined && outcome !== undefined)
      deleteOptions = { ...options, preconditions: { ...options.preconditions, resourceVersion: String(outcome.item.revision) } };
  }
  await deleteNamed({ ...scope, namespace, name, options: deleteOptions });
}

const ready = ({ status }: Pod) => status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;

/**
 * Decrements disruptionsAllowed of the PodDisruptionBudget that selects the pod, unless the pod is unhealthy and therefore not counted. Returns
 * undefined if no budget selects the pod.
 * @throws StatusError TooManyRequests if the budget does not allow the eviction
 */
async function decrementDisruptionBudget(
  { registry, context }: RequestScope,
  pod: Pod,
): Promise<{ readonly spent: boolean; readonly budget: string } | undefined> {
  const budgets = registry.servedKind('policy', 'v1', 'poddisruptionbudgets');
  const { namespace } = context.request;
  const all = budgets.cache.select({
    namespace,
    key: undefined,
    indexed: undefined,
    matches: (object) => isCoveredBy(object as PodDisruptionBudget, pod),
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
    throwIfNoDisruptionsAllowed(budget);
    const status = afterDisruption(budget, context.now);
    return withFields(object, { status: { ...status, disruptedPods: { ...status.disruptedPods, [name]: formatTime(context.now) } } });
  };
  const spent = { spent: true, budget: first.object.metadata?.name ?? '' };
  if (context.dryRun) {
    decide(first.object);
    return spent;
  }
  await registry.objects.guaranteedUpdate(budgets.storedKind, first.key, context, (current) => {
    if (current === undefined) throw notFound(budgets.resource, first.object.metadata?.name ?? '');
    return { action: 'put', object: decide(current.object) };
  });
  return spent;
}

/** Returns the status of a budget after one more disruption. The condition is False when no further disruption is allowed. */
function afterDisruption({ status }: PodDisruptionBudget, nowMs: number): Partial<NonNullable<PodDisruptionBudget['status']>> {
  const disruptionsAllowed = (status?.disruptionsAllowed ?? 0) - 1;
  if (disruptionsAllowed > 0) return { ...status, disruptionsAllowed };
  const old = status?.conditions?.find(({ type }) => type === disruptionAllowed);
  const condition = {
    type: disruptionAllowed,
    status: 'False',
    reason: 'InsufficientPods',
    message: '',
    observedGeneration: status?.observedGeneration ?? 0,
    lastTransitionTime: old?.status === 'False' ? old.lastTransitionTime : formatTime(nowMs),
  };
  const conditions = status?.conditions ?? [];
  return {
    ...status,
    disruptionsAllowed,
    conditions: old === undefined ? [...conditions, condition] : conditions.map((each) => (each === old ? condition : each)),
  };
}

function isCoveredBy({ spec }: PodDisruptionBudget, pod: Pod): boolean {
  try {
    const selector = selectorFromLabelSelector(spec?.selector);
    // an empty selector matches every pod with labels
    return !selector.matchesNothing && Object.keys(pod.metadata?.labels ?? {}).length > 0 && selector.matches(pod.metadata?.labels);
  } catch (error) {
    // an invalid selector matches no pod
    if (error instanceof ParseError) return false;
    throw error;
  }
}

function throwIfNoDisruptionsAllowed({ metadata, status }: PodDisruptionBudget): void {
  const name = metadata?.name ?? '';
  const resource = { group: 'policy', resource: 'poddisruptionbudget' };
  if ((status?.observedGeneration ?? 0) < (metadata?.generation ?? 0))
    throw disruptionBudgetError(name, 'is still being processed by the server.', 10);
  if ((status?.disruptionsAllowed ?? 0) < 0) throw forbidden(resource, name, 'pdb disruptions allowed is negative');
  if (Object.keys(status?.disruptedPods ?? {}).length > maxDisruptedPods)
    throw forbidden(resource, name, 'DisruptedPods map too big - too many evictions not confirmed by PDB controller');
  if ((status?.disruptionsAllowed ?? 0) !== 0) return;
  const condition = status?.conditions?.find(({ type }) => type === disruptionAllowed);
  const why =
    condition?.reason === 'SyncFailed'
      ? `does not allow evicting pods currently because it failed sync: ${condition.message}`
      : `needs ${status?.desiredHealthy ?? 0} healthy pods and has ${status?.currentHealthy ?? 0} currently`;
  throw disruptionBudgetError(name, why, undefined);
}

function disruptionBudgetError(budget: string, why: string, retryAfterSeconds: number | undefined): StatusError {
  return failure('TooManyRequests', "Cannot evict pod as it would violate the pod's disruption budget.", {
    causes: [{ reason: budgetCause, message: `The disruption budget ${budget} ${why}` }],
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  });
}
