import { isObject } from '@oarlock/api/json';
import type { Status } from '@oarlock/api/status';
import { requestValue } from '@oarlock/admission-rules/request-value';
import type { AdmissionRequest } from '@oarlock/spi/admission';
import { WebhookFault } from './webhook-fault.ts';

/** What a webhook answered, checked. */
export interface ReviewAnswer {
  readonly allowed: boolean;
  readonly status: Partial<Status> | undefined;
  /** A JSON patch, of mutating webhooks only. */
  readonly patch: unknown;
  readonly warnings: readonly string[];
  readonly annotations: Readonly<Record<string, string>>;
}

const maxWarning = 256;
const maxWarnings = 4096;

/** The AdmissionReview that a webhook is sent. */
export function reviewOf(request: AdmissionRequest, uid: string, version: string): unknown {
  return {
    kind: 'AdmissionReview',
    apiVersion: `admission.k8s.io/${version}`,
    request: { uid, ...requestValue(request), object: request.object ?? null, oldObject: request.old ?? null },
  };
}

const invalid = (message: string, cause?: unknown) =>
  new WebhookFault('response', `received invalid webhook response: ${message}`, cause === undefined ? {} : { cause });

/** @throws WebhookFault response */
export function readAnswer(body: Buffer, uid: string, version: string, mutating: boolean): ReviewAnswer {
  let review: unknown;
  try {
    review = JSON.parse(body.toString());
  } catch (error) {
    throw invalid(error instanceof Error ? error.message : String(error), error);
  }
  const response = isObject(review) ? review['response'] : undefined;
  if (!isObject(review) || !isObject(response)) throw invalid('webhook response was absent');
  if (version === 'v1') {
    if (response['uid'] !== uid)
      throw invalid(`expected response.uid=${JSON.stringify(uid)}, got ${JSON.stringify(response['uid'] ?? '')}`);
    if (review['apiVersion'] !== 'admission.k8s.io/v1' || review['kind'] !== 'AdmissionReview')
      throw invalid(
        `expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got ${String(review['apiVersion'] ?? '')}, Kind=${String(review['kind'] ?? '')}`,
      );
  }
  const { status, warnings, auditAnnotations } = response;
  return {
    allowed: response['allowed'] === true,
    status: isObject(status) ? (status as Partial<Status>) : undefined,
    patch: patchOf(response, version, mutating),
    warnings: Array.isArray(warnings) ? bounded(warnings) : [],
    annotations: isObject(auditAnnotations) ? texts(auditAnnotations) : {},
  };
}

function patchOf({ patch, patchType }: Readonly<Record<string, unknown>>, version: string, mutating: boolean): unknown {
  const given = typeof patch === 'string' && patch !== '';
  const typed = patchType !== undefined && patchType !== null;
  if (!mutating) {
    if (given && version === 'v1') throw invalid('validating webhook may not return response.patch');
    if (typed && version === 'v1') throw invalid('validating webhook may not return response.patchType');
    return undefined;
  }
  if (version === 'v1' && given && !typed) throw invalid('webhook returned response.patch but not response.patchType');
  if (version === 'v1' && !given && typed) throw invalid('webhook returned response.patchType but not response.patch');
  if (!given) return undefined;
  if (typed && patchType !== 'JSONPatch') throw invalid(`webhook returned invalid response.patchType of ${JSON.stringify(patchType)}`);
  try {
    return JSON.parse(Buffer.from(patch, 'base64').toString());
  } catch (error) {
    throw invalid(error instanceof Error ? error.message : String(error), error);
  }
}

/** Warnings are for headers: not more than they can hold. */
function bounded(warnings: readonly unknown[]): string[] {
  let total = 0;
  return warnings.flatMap((warning) => {
    if (typeof warning !== 'string' || total >= maxWarnings) return [];
    const text = warning.slice(0, maxWarning);
    total += text.length;
    return [text];
  });
}
function texts(annotations: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(Object.entries(annotations).filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}
