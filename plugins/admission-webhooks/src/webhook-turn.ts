import { randomUUID } from 'node:crypto';
import { checkJson, conform, TypeMismatch } from '@oarlock/api/conform';
import { stringifyExact } from '@oarlock/api/exact-json';
import { goKind } from '@oarlock/api/json-fault';
import { applyJsonPatch } from '@oarlock/api/json-patch';
import { parseApiVersion } from '@oarlock/api/kinds';
import { schemaOf } from '@oarlock/api/schema';
import { isObject, jsonEqual } from '@oarlock/api/json';
import { groupResource } from '@oarlock/api/resource';
import { failure, StatusError, type Status } from '@oarlock/api/status';
import type { KubeObject } from '@oarlock/api/object';
import type { Bindings } from '@oarlock/cel/frame';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { RequestBindings } from '@oarlock/admission-rules/request-bindings';
import { isExempt } from '@oarlock/admission-rules/matcher';
import { asRequested, versioned } from '@oarlock/admission-rules/versioned-request';
import type { NamespaceObjects } from '@oarlock/admission-rules/namespace-objects';
import { deny, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import type { Authorizer } from '@oarlock/spi/authz';
import { readAnswer, reviewOf, type ReviewAnswer } from './review.ts';
import type { WebhookCaller } from './webhook-call.ts';
import { WebhookFault, type WebhookFaultCode } from './webhook-fault.ts';
import type { Asked, RejectionCause, WebhookMetrics } from './webhook-metrics.ts';
import type { ReadyWebhook } from './webhook.ts';

export interface TurnOptions {
  readonly caller: WebhookCaller;
  readonly namespaces: NamespaceObjects;
  readonly authz: readonly Authorizer[];
  readonly log: Logger;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly metrics: WebhookMetrics;
}
export type Turn =
  | { readonly outcome: 'skipped' }
  | { readonly outcome: 'refused'; readonly verdict: Verdict }
  /** It could not be called, and its `failurePolicy` is to ignore that. */
  | { readonly outcome: 'ignored' }
  | { readonly outcome: 'passed'; readonly object: KubeObject | undefined; readonly changed: boolean; readonly patch?: unknown };

const faults = {
  call: 'calling_webhook_error',
  response: 'apiserver_internal_error',
  patch: 'apiserver_internal_error',
} as const satisfies Record<WebhookFaultCode, RejectionCause>;
const skipped: Turn = { outcome: 'skipped' };
const refusedBy = (status: Status): Turn => ({ outcome: 'refused', verdict: deny(status.message ?? '', { status }) });
const refused = ({ status }: StatusError): Turn => refusedBy(status);

/** Whether the rules of a webhook are for a request, before anything is looked up. */
export const concerns = ({ matcher }: ReadyWebhook, request: AdmissionRequest): boolean => !isExempt(request) && matcher.covers(request);

/** Asks one webhook about a request, if it is for it. */
export async function takeTurn(
  webhook: ReadyWebhook,
  request: AdmissionRequest,
  object: KubeObject | undefined,
  mutating: boolean,
  { caller, namespaces, authz, log, clock, metrics }: TurnOptions,
): Promise<Turn> {
  const current = { ...request, object };
  if (!(await webhook.matcher.selects(current, namespaces.labels))) return skipped;
  const seen = await versioned(current, webhook.matcher.match(request) ?? request.resource);
  if (!webhook.conditions.always) {
    const bindings = new RequestBindings(seen, authz, undefined, undefined);
    const answer = await webhook.conditions.evaluate(bindings as unknown as Bindings);
    if (answer.fault !== undefined) {
      if (webhook.ignoresFaults) return skipped;
      return refused(conditionRefusal(request, webhook, answer.fault));
    }
    if (!answer.matches) return skipped;
  }
  if (request.dryRun && !webhook.takesDryRun)
    return refused(failure('BadRequest', `admission webhook ${JSON.stringify(webhook.name)} does not support dry run`));
  const asked: Asked = { name: webhook.name, mutating, operation: request.operation };
  const began = clock.monotonic();
  const ended = (code: number, rejection?: RejectionCause) => metrics.ended(asked, (clock.monotonic() - began) / 1000, code, rejection);
  try {
    const answer = await call(webhook, seen, mutating, caller);
    for (const warning of answer.warnings) request.warn(warning);
    for (const [key, value] of Object.entries(answer.annotations)) request.annotate(`${webhook.name}/${key}`, value);
    if (!answer.allowed) {
      const status = denial(webhook.name, answer.status);
      ended(status.code ?? 0, 'no_error');
      return refusedBy(status);
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
    if (!(error instanceof WebhookFault)) throw error;
    if (error.code === 'patch') {
      ended(0, faults.patch);
      return refused(internal(error.message));
    }
    const message = `failed calling webhook ${JSON.stringify(webhook.name)}: ${error.message}`;
    ended(error.code === 'call' ? 500 : 0, webhook.ignoresFaults ? undefined : faults[error.code]);
    if (webhook.ignoresFaults) {
      metrics.failedOpen(asked);
      log.warn({ webhook: webhook.name, configuration: webhook.configuration, error: error.message }, 'a webhook could not be called');
      return { outcome: 'ignored' };
    }
    return refused(internal(message));
  }
}

async function call(
  { version, client, timeoutMs }: ReadyWebhook,
  request: AdmissionRequest,
  mutating: boolean,
  caller: WebhookCaller,
): Promise<ReviewAnswer> {
  if (version === undefined) throw new WebhookFault('call', 'webhook does not accept known AdmissionReview versions (v1, v1beta1)');
  const uid = randomUUID();
  const body = Buffer.from(stringifyExact(reviewOf(request, uid, version)));
  return readAnswer(await caller.post(client, body, timeoutMs), uid, version, mutating);
}

const internal = (message: string) => failure('InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] });

/** The object as the patch leaves it, read as a body is: what a field cannot hold is a fault, and what there is no field for goes. */
function patched(object: KubeObject, patch: unknown): KubeObject {
  try {
    const next = applyJsonPatch(object, patch);
    if (!isObject(next)) throw new WebhookFault('patch', `json: cannot unmarshal ${goKind(next)} into Go value of type ${object.kind}`);
    const schema = schemaOf({ ...parseApiVersion(object.apiVersion ?? ''), kind: object.kind ?? '' });
    if (schema !== undefined) return { ...conform(schema, next), apiVersion: object.apiVersion, kind: object.kind } as KubeObject;
    checkJson(next);
    return next as KubeObject;
  } catch (error) {
    if (error instanceof TypeMismatch) throw new WebhookFault('patch', error.message, { cause: error });
    if (!(error instanceof StatusError)) throw error;
    const { cause } = error;
    throw new WebhookFault('patch', cause instanceof Error ? cause.message : error.message, { cause: error });
  }
}

/** What a webhook says when it says no. */
function denial(name: string, given: Partial<Status> | undefined): Status {
  const by = `admission webhook ${JSON.stringify(name)} denied the request`;
  const { code = 0, message = '', reason = '' } = given ?? {};
  return {
    ...given,
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: message !== '' ? `${by}: ${message}` : reason !== '' ? `${by}: ${reason}` : `${by} without explanation`,
    ...(reason !== '' && { reason }),
    code: code < 400 ? 400 : code,
  };
}

function conditionRefusal({ resource, name }: AdmissionRequest, webhook: ReadyWebhook, fault: string): StatusError {
  const message = `${groupResource(resource)} ${JSON.stringify(name)} is forbidden: webhook ${JSON.stringify(webhook.name)}: ${fault}`;
  return failure('Forbidden', message, { name, ...(resource.group !== '' && { group: resource.group }), kind: resource.resource });
}
