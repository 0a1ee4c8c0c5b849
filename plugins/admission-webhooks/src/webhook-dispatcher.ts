import { randomUUID } from 'node:crypto';
import { checkJson, conformToSchema, UnmarshalTypeError } from '@oarlock/api/schema/conform';
import { stringifyExact } from '@oarlock/api/json/exact-json';
import { goKind } from '@oarlock/api/json/syntax-error';
import { applyJsonPatch } from '@oarlock/api/patches/json-patch';
import { parseApiVersion } from '@oarlock/api/kinds';
import { schemaOf } from '@oarlock/api/schema/schema';
import { isObject, jsonEqual } from '@oarlock/api/json/json';
import { groupResource } from '@oarlock/api/resource';
import { failure, StatusError, type Status } from '@oarlock/api/status';
import type { KubeObject } from '@oarlock/api/object';
import type { Bindings } from '@oarlock/cel/interpreter/frame';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { RequestBindings } from '@oarlock/admission-rules/request-bindings';
import { isExempt } from '@oarlock/admission-rules/matcher';
import { asRequested, toVersionedRequest } from '@oarlock/admission-rules/versioned-request';
import type { NamespaceObjects } from '@oarlock/admission-rules/namespace-objects';
import { deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Authorizer } from '@oarlock/spi/authz';
import { parseReviewResponse, reviewOf, type ReviewResponse } from './admission-review.ts';
import type { WebhookClient } from './webhook-client.ts';
import { WebhookError, type WebhookErrorCode } from './webhook-error.ts';
import type { WebhookCallLabels, RejectionCause, WebhookMetrics } from './webhook-metrics.ts';
import type { CompiledWebhook } from './webhook.ts';

export interface DispatchOptions {
  readonly caller: WebhookClient;
  readonly namespaces: NamespaceObjects;
  readonly authz: readonly Authorizer[];
  readonly log: Logger;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly metrics: WebhookMetrics;
}
export type WebhookResult =
  | { readonly outcome: 'skipped' }
  | { readonly outcome: 'rejected'; readonly verdict: AdmissionDecision }
  /** The call failed and the `failurePolicy` is Ignore. */
  | { readonly outcome: 'ignored' }
  | { readonly outcome: 'passed'; readonly object: KubeObject | undefined; readonly changed: boolean; readonly patch?: unknown };

const faults = {
  call: 'calling_webhook_error',
  response: 'apiserver_internal_error',
  patch: 'apiserver_internal_error',
} as const satisfies Record<WebhookErrorCode, RejectionCause>;
const skipped: WebhookResult = { outcome: 'skipped' };
const denialResult = (status: Status): WebhookResult => ({ outcome: 'rejected', verdict: deny(status.message ?? '', { status }) });
const rejectionResult = ({ status }: StatusError): WebhookResult => denialResult(status);

/** Returns true if the rules of a webhook match the operation and the resource of the request. Needs no lookups (ShouldCallHook upstream). */
export const shouldCallHook = ({ matcher }: CompiledWebhook, request: AdmissionRequest): boolean =>
  !isExempt(request) && matcher.covers(request);

/** The request that a webhook reviews, and what the dispatch needs. */
export interface WebhookDispatch {
  readonly request: AdmissionRequest;
  readonly object: KubeObject | undefined;
  readonly mutating: boolean;
  /** Called with the time in milliseconds that the call of the webhook took. */
  onEnd(ms: number): void;
}

/** Calls one webhook if the webhook's selectors and match conditions match the request. */
export async function dispatchWebhook(
  webhook: CompiledWebhook,
  { request, object, mutating, onEnd }: WebhookDispatch,
  { caller, namespaces, authz, log, clock, metrics }: DispatchOptions,
): Promise<WebhookResult> {
  const current = { ...request, object };
  if (!(await webhook.matcher.selects(current, namespaces.labels))) return skipped;
  const seen = await toVersionedRequest(current, webhook.matcher.match(request) ?? request.resource);
  const excluded = await matchConditionResult(webhook, { request, seen }, authz);
  if (excluded !== undefined) return excluded;
  if (request.dryRun && !webhook.takesDryRun)
    return rejectionResult(failure('BadRequest', `admission webhook ${JSON.stringify(webhook.name)} does not support dry run`));
  const labels: WebhookCallLabels = { name: webhook.name, mutating, operation: request.operation };
  const began = clock.monotonic();
  const ended = (code: number, rejection?: RejectionCause) => {
    const ms = clock.monotonic() - began;
    metrics.observe(labels, { seconds: ms / 1000, code, rejection });
    onEnd(ms);
  };
  try {
    const answer = await call(webhook, { request: seen, mutating, caller });
    for (const warning of answer.warnings) request.warn(warning);
    for (const [key, value] of Object.entries(answer.annotations)) request.annotate(`${webhook.name}/${key}`, value);
    if (!answer.allowed) {
      const status = denial(webhook.name, answer.status);
      ended(status.code ?? 0, 'no_error');
      return denialResult(status);
    }
    if (answer.patch === undefined || object === undefined) {
      ended(200);
      return { outcome: 'passed', object, changed: false };
    }
    const changed = patched(seen.object as KubeObject, answer.patch);
    ended(200);
    const next = seen.requested === undefined ? changed : await asRequested(request, changed);
    return jsonEqual(next, object)
      ? { outcome: 'passed', object, changed: false }
      : { outcome: 'passed', object: next, changed: true, patch: answer.patch };
  } catch (error) {
    if (!(error instanceof WebhookError)) throw error;
    if (error.code === 'patch') {
      ended(0, faults.patch);
      return rejectionResult(internal(error.message));
    }
    ended(error.code === 'call' ? 500 : 0, webhook.ignoresFailures ? undefined : faults[error.code]);
    if (!webhook.ignoresFailures)
      return rejectionResult(internal(`failed calling webhook ${JSON.stringify(webhook.name)}: ${error.message}`));
    metrics.failedOpen(labels);
    log.warn({ webhook: webhook.name, configuration: webhook.configuration, error: error.message }, 'calling an admission webhook failed');
    return { outcome: 'ignored' };
  }
}

/** Evaluates the match conditions of a webhook. Returns undefined if the webhook must be called. */
async function matchConditionResult(
  webhook: CompiledWebhook,
  { request, seen }: { readonly request: AdmissionRequest; readonly seen: AdmissionRequest },
  authz: readonly Authorizer[],
): Promise<WebhookResult | undefined> {
  if (webhook.conditions.always) return undefined;
  const bindings = new RequestBindings(seen, { authz, namespace: undefined, params: undefined });
  const { fault, matches } = await webhook.conditions.evaluate(bindings as unknown as Bindings);
  if (fault === undefined) return matches ? undefined : skipped;
  return webhook.ignoresFailures ? skipped : rejectionResult(matchConditionRejection(request, webhook, fault));
}

async function call(
  { version, client, timeoutMs }: CompiledWebhook,
  { request, mutating, caller }: { readonly request: AdmissionRequest; readonly mutating: boolean; readonly caller: WebhookClient },
): Promise<ReviewResponse> {
  if (version === undefined) throw new WebhookError('call', 'webhook does not accept known AdmissionReview versions (v1, v1beta1)');
  const uid = randomUUID();
  const body = Buffer.from(stringifyExact(reviewOf(request, uid, version)));
  return parseReviewResponse(await caller.post(client, body, timeoutMs), { uid, version, mutating });
}

const internal = (message: string) => failure('InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] });

/** Applies a JSON patch and decodes the result as a request body: unknown fields are dropped, and values of the wrong type are errors. */
function patched(object: KubeObject, patch: unknown): KubeObject {
  try {
    const next = applyJsonPatch(object, patch);
    if (!isObject(next)) throw new WebhookError('patch', `json: cannot unmarshal ${goKind(next)} into Go value of type ${object.kind}`);
    const schema = schemaOf({ ...parseApiVersion(object.apiVersion ?? ''), kind: object.kind ?? '' });
    if (schema !== undefined) return { ...conformToSchema(schema, next), apiVersion: object.apiVersion, kind: object.kind } as KubeObject;
    checkJson(next);
    return next as KubeObject;
  } catch (error) {
    if (error instanceof UnmarshalTypeError) throw new WebhookError('patch', error.message, { cause: error });
    if (!(error instanceof StatusError)) throw error;
    const { cause } = error;
    throw new WebhookError('patch', cause instanceof Error ? cause.message : error.message, { cause: error });
  }
}

/** Returns the Status of a request that a webhook denied. */
function denial(name: string, status: Partial<Status> | undefined): Status {
  const by = `admission webhook ${JSON.stringify(name)} denied the request`;
  const { code = 0, message = '', reason = '' } = status ?? {};
  return {
    ...status,
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: message !== '' ? `${by}: ${message}` : reason !== '' ? `${by}: ${reason}` : `${by} without explanation`,
    ...(reason !== '' && { reason }),
    code: code < 400 ? 400 : code,
  };
}

function matchConditionRejection({ resource, name }: AdmissionRequest, webhook: CompiledWebhook, fault: string): StatusError {
  const message = `${groupResource(resource)} ${JSON.stringify(name)} is forbidden: webhook ${JSON.stringify(webhook.name)}: ${fault}`;
  return failure('Forbidden', message, { name, ...(resource.group !== '' && { group: resource.group }), kind: resource.resource });
}
