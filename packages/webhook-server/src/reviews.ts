import { isObject } from '@oarlock/api/json/json';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { resource as resourceOf } from '@oarlock/api/resource';
import { diffJson, toJsonPatch } from '@oarlock/primitives/json-diff';
import {
  isAdmissionDecision,
  matchesRules,
  type AdmissionPlugin,
  type AdmissionRequest,
  type Operation,
  type AdmissionDecision,
} from '@oarlock/spi/admission';
import type { Authenticator, Identity } from '@oarlock/spi/authn';
import type { Attributes, Authorizer } from '@oarlock/spi/authz';

/** The error of a request body that is not a review of the expected kind. The server responds with status 400. */
export class ReviewError extends Error {
  override readonly name = 'ReviewError';
}

type Fields = Readonly<Record<string, unknown>>;
const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {});
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const texts = (value: unknown): readonly string[] => (Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []);

function bodyOf(
  review: unknown,
  { kind, group, part }: { readonly kind: string; readonly group: string; readonly part: string },
): { readonly apiVersion: string; readonly fields: Fields } {
  const { apiVersion, kind: sent, [part]: fields } = fieldsOf(review);
  if (sent !== kind || !text(apiVersion).startsWith(`${group}/`) || !isObject(fields))
    throw new ReviewError(`expected a ${kind} of ${group} with ${part}, got ${text(apiVersion)} ${text(sent)}`);
  return { apiVersion: text(apiVersion), fields };
}

function identityOf(value: unknown): Identity {
  const { username, user, uid, groups, extra } = fieldsOf(value);
  const more = Object.entries(fieldsOf(extra)).map(([key, list]) => [key, texts(list)] as const);
  return {
    name: text(username ?? user),
    ...(text(uid) !== '' && { uid: text(uid) }),
    groups: texts(groups),
    ...(more.length > 0 && { extra: Object.fromEntries(more) }),
  };
}

export interface ReviewedRequest {
  readonly request: AdmissionRequest;
  readonly uid: string;
  readonly warnings: readonly string[];
  readonly annotations: ReadonlyMap<string, string>;
}

/** Returns the request of an AdmissionReview (`admission.k8s.io/v1`). @throws ReviewError if the body is not an AdmissionReview */
export function admissionRequestOf(review: unknown): ReviewedRequest {
  const { fields } = bodyOf(review, { kind: 'AdmissionReview', group: 'admission.k8s.io', part: 'request' });
  const { uid, resource, kind, subResource, namespace, name, operation, object, oldObject, options, userInfo, dryRun } = fields;
  const { group, version, resource: plural } = fieldsOf(resource);
  const warnings: string[] = [];
  const annotations = new Map<string, string>();
  const objectOf = (value: unknown): KubeObject | undefined => (isObject(value) ? deepFreeze(value as KubeObject) : undefined);
  return {
    uid: text(uid),
    warnings,
    annotations,
    request: {
      operation: text(operation) as Operation,
      resource: resourceOf(text(group), text(version), text(plural), text(fieldsOf(kind)['kind']), text(namespace) !== ''),
      subresource: text(subResource),
      namespace: text(namespace),
      name: text(name),
      object: objectOf(object),
      old: objectOf(oldObject),
      options: deepFreeze(fieldsOf(options)),
      identity: deepFreeze(identityOf(userInfo)),
      dryRun: dryRun === true,
      warn: (message) => warnings.push(message),
      // the API server prefixes the key with the webhook's name and a slash
      annotate: (key, value) => annotations.set(key.slice(key.lastIndexOf('/') + 1), value),
    },
  };
}

/**
 * Calls an admission plugin with the request of an AdmissionReview, and returns an AdmissionReview with the plugin's response. Rejects with
 * the exception of the plugin; the API server then applies the failurePolicy of the webhook.
 */
export async function reviewAdmission(plugin: AdmissionPlugin, phase: 'mutate' | 'validate', review: unknown): Promise<object> {
  const { request, uid, warnings, annotations } = admissionRequestOf(review);
  let verdict: AdmissionDecision = { allowed: true };
  let { object } = request;
  const isMatched =
    matchesRules(plugin.matches, request) && plugin.isIdle?.(request.operation, request.resource, request.subresource) !== true;
  if (isMatched && phase === 'mutate' && object !== undefined && plugin.mutate !== undefined) {
    const answer = await plugin.mutate(request);
    if (isAdmissionDecision(answer)) verdict = answer;
    else object = answer;
  }
  if (isMatched && phase === 'validate' && plugin.validate !== undefined) verdict = await plugin.validate(request);
  const patch = object === request.object ? [] : toJsonPatch(diffJson(request.object, object));
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    response: {
      uid,
      allowed: verdict.allowed,
      ...(!verdict.allowed && { status: statusOf(verdict) }),
      ...(verdict.allowed && patch.length > 0 && { patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(patch)).toString('base64') }),
      ...(warnings.length > 0 && { warnings }),
      ...(annotations.size > 0 && { auditAnnotations: Object.fromEntries(annotations) }),
    },
  };
}

const codes = { Forbidden: 403, Invalid: 422, Conflict: 409, TooManyRequests: 429, BadRequest: 400, NotFound: 404 } as const;

function statusOf({ message, reason = 'Forbidden', field, status }: Extract<AdmissionDecision, { readonly allowed: false }>): object {
  if (status !== undefined) return status;
  const whole = field === undefined ? message : `${field}: ${message}`;
  return {
    status: 'Failure',
    code: codes[reason],
    reason,
    message: whole,
    ...(field !== undefined && { details: { causes: [{ field, message }] } }),
  };
}

/**
 * Calls an authenticator with the token of a TokenReview, and returns a TokenReview with the result. Rejects with the exception of the
 * plugin.
 */
export async function reviewToken(plugin: Authenticator, review: unknown): Promise<object> {
  const { apiVersion, fields } = bodyOf(review, { kind: 'TokenReview', group: 'authentication.k8s.io', part: 'spec' });
  const token = text(fields['token']);
  const audiences = texts(fields['audiences']);
  const result = await plugin.authenticate({
    bearerToken: token,
    headers: { authorization: `Bearer ${token}` },
    path: '/',
    ...(audiences.length > 0 && { audiences }),
  });
  const answer = { apiVersion, kind: 'TokenReview' };
  if (result.outcome === 'authenticated') {
    const { name, uid, groups, extra } = result.identity;
    const user = { username: name, ...(uid !== undefined && { uid }), groups, ...(extra && { extra }) };
    return { ...answer, status: { authenticated: true, user, audiences: result.audiences ?? audiences } };
  }
  return { ...answer, status: { authenticated: false, ...(result.outcome === 'rejected' && { error: result.reason }) } };
}

/**
 * Calls an authorizer with the attributes of a SubjectAccessReview, and returns a SubjectAccessReview with the decision. Rejects with the
 * exception of the plugin.
 */
export async function reviewAccess(plugin: Authorizer, review: unknown): Promise<object> {
  const { apiVersion, fields } = bodyOf(review, { kind: 'SubjectAccessReview', group: 'authorization.k8s.io', part: 'spec' });
  const { decision, reason: because = '' } = await plugin.authorize(attributesOf(fields));
  const status = {
    allowed: decision === 'allow',
    ...(decision === 'deny' && { denied: true }),
    ...(because !== '' && { reason: because }),
  };
  return { apiVersion, kind: 'SubjectAccessReview', status };
}

function attributesOf(spec: Fields): Attributes {
  const identity = identityOf(spec);
  const { nonResourceAttributes, resourceAttributes } = spec;
  if (isObject(nonResourceAttributes))
    return { kind: 'path', identity, verb: text(nonResourceAttributes['verb']), path: text(nonResourceAttributes['path']) };
  const { verb, group, version, resource, subresource, namespace, name } = fieldsOf(resourceAttributes);
  return {
    kind: 'resource',
    identity,
    verb: text(verb),
    group: text(group),
    version: text(version),
    resource: text(resource),
    subresource: text(subresource),
    namespace: text(namespace),
    name: text(name),
  };
}
