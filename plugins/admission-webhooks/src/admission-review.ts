import { parseExact } from '@oarlock/api/json/exact-json';
import { isObject } from '@oarlock/api/json/json';
import { goKind, goSyntaxError } from '@oarlock/api/json/syntax-error';
import type { Status } from '@oarlock/api/status';
import { admissionRequestValue } from '@oarlock/admission-rules/admission-request';
import type { AdmissionRequest } from '@oarlock/spi/admission';
import { WebhookError } from './webhook-error.ts';

/** The validated AdmissionReview response of a webhook. */
export interface ReviewResponse {
  readonly allowed: boolean;
  readonly status: Partial<Status> | undefined;
  /** The JSON patch of a mutating webhook; undefined without one. */
  readonly patch: unknown;
  readonly warnings: readonly string[];
  readonly annotations: Readonly<Record<string, string>>;
}

const maxWarning = 256;
const maxWarnings = 4096;

/** Returns the AdmissionReview request for a webhook. */
export function reviewOf(request: AdmissionRequest, uid: string, version: string): unknown {
  return {
    kind: 'AdmissionReview',
    apiVersion: `admission.k8s.io/${version}`,
    request: { uid, ...admissionRequestValue(request), object: request.object ?? null, oldObject: request.old ?? null },
  };
}

const invalid = (message: string) => new WebhookError('response', `received invalid webhook response: ${message}`);

const uncallable = (message: string) => new WebhookError('call', `failed to call webhook: ${message}`);

/** Formats an apiVersion and kind as Go formats a GroupVersionKind. */
const gvkText = (apiVersion: string, kind: string) => {
  const slash = apiVersion.indexOf('/');
  return `${apiVersion.slice(0, Math.max(slash, 0))}/${apiVersion.slice(slash + 1)}, Kind=${kind}`;
};
const typeOfMeta = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }';

/** Decodes the response body as JSON. Upstream also accepts YAML, in which nearly every text is a valid string. */
function decoded(body: Buffer): Readonly<Record<string, unknown>> {
  const text = body.toString();
  const begins = text.trimStart().startsWith('{');
  const fault = goSyntaxError(text);
  if (fault !== undefined && begins) throw uncallable(`couldn't get version/kind; json parse error: ${fault}`);
  const value: unknown = fault === undefined ? JSON.parse(text) : text;
  if (isObject(value)) return value;
  throw uncallable(
    `couldn't get version/kind; json parse error: json: cannot unmarshal ${goKind(value)} into Go value of type ${typeOfMeta}`,
  );
}

/** The uid and the version that the response must have, and whether it may contain a patch. */
export interface ReviewExpectation {
  readonly uid: string;
  readonly version: string;
  readonly mutating: boolean;
}

/** Parses and validates the AdmissionReview response. @throws WebhookError if the response is invalid */
export function parseReviewResponse(body: Buffer, { uid, version, mutating }: ReviewExpectation): ReviewResponse {
  const { apiVersion = '', kind = '', response } = decoded(body);
  const responseKind = gvkText(String(apiVersion), String(kind));
  const other = version === 'v1' ? 'v1beta1' : 'v1';
  if (responseKind === `admission.k8s.io/${other}, Kind=AdmissionReview`)
    throw uncallable(`converting (${other}.AdmissionReview) to (${version}.AdmissionReview): unknown conversion`);
  if (!isObject(response)) throw invalid('webhook response was absent');
  if (version === 'v1') {
    if (response['uid'] !== uid)
      throw invalid(`expected response.uid=${JSON.stringify(uid)}, got ${JSON.stringify(response['uid'] ?? '')}`);
    if (responseKind !== 'admission.k8s.io/v1, Kind=AdmissionReview')
      throw invalid(`expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got ${responseKind}`);
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
  const hasPatch = typeof patch === 'string' && patch !== '';
  const typed = patchType !== undefined && patchType !== null;
  if (!mutating) {
    if (hasPatch && version === 'v1') throw invalid('validating webhook may not return response.patch');
    if (typed && version === 'v1') throw invalid('validating webhook may not return response.patchType');
    return undefined;
  }
  if (version === 'v1' && hasPatch && !typed) throw invalid('webhook returned response.patch but not response.patchType');
  if (version === 'v1' && !hasPatch && typed) throw invalid('webhook returned response.patchType but not response.patch');
  if (!hasPatch) return undefined;
  if (typed && patchType === '') throw invalid('webhook returned invalid response.patchType of ""');
  const text = Buffer.from(patch, 'base64').toString();
  const fault = goSyntaxError(text);
  if (fault !== undefined) throw new WebhookError('patch', fault);
  const operations = parseExact(text);
  if (Array.isArray(operations) && operations.length === 0) return undefined;
  if (typed && patchType !== 'JSONPatch') throw new WebhookError('response', `unsupported patch type ${JSON.stringify(patchType)}`);
  return operations;
}

/** Truncates warnings so that they fit into the response headers. */
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
