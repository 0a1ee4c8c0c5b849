import { isObject } from '@oarlock/api/json/json';
import { isPathSegmentName } from '@oarlock/api/values/names';
import type { KubeObject, ListMeta } from '@oarlock/api/object';
import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { badRequest, failure, StatusError } from '@oarlock/api/status';
import type { Authorizer } from '@oarlock/spi/authz';
import type { PatchType } from '@oarlock/spi/client';
import type { ApiRequest, ApiVerb } from '@oarlock/spi/loopback';
import { errorText } from '@oarlock/primitives/error-text';
import { uriOf } from '../audit/audit-objects.ts';
import { annotateAuthorizationDecision, attributesOf, runAuthorizers, forbiddenError } from '../authorization/authorization.ts';
import type { PipelineResponse, WatchFrame, RequestHandler } from '../endpoints/request/response.ts';
import { DerivedObject } from '../watch-cache/item.ts';
import type { Aggregator } from './aggregator.ts';
import { decodeRemoteWatch } from './remote-watch.ts';
import type { Remote } from './remote.ts';

type AggregatedServers = Pick<Aggregator, 'findGroup' | 'requests'>;

const methods: Readonly<Record<ApiVerb, string>> = {
  get: 'GET',
  list: 'GET',
  watch: 'GET',
  create: 'POST',
  update: 'PUT',
  patch: 'PATCH',
  delete: 'DELETE',
  deletecollection: 'DELETE',
};
const patchTypes: Readonly<Record<PatchType, string>> = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
};

/**
 * Returns a pipeline for loopback clients that also serves the kinds of extension API servers. The pipeline authorizes requests as for
 * HTTP; admission and validation run in the extension API server.
 */
export function withAggregatedKinds(pipeline: RequestHandler, servers: AggregatedServers, authz: readonly Authorizer[]): RequestHandler {
  return {
    async handle(request) {
      const { group, version } = request.resource;
      const remote = servers.findGroup(group, version);
      if (remote === undefined) return pipeline.handle(request);
      await authorizeRemote(request, authz);
      return requestRemote(request, remote, servers);
    },
  };
}

/** Authorizes a request for an extension API server. @throws StatusError Forbidden if no authorizer allows the request */
async function authorizeRemote(request: ApiRequest, authz: readonly Authorizer[]): Promise<void> {
  const attributes = attributesOf(request);
  const decision = await runAuthorizers(authz, attributes);
  annotateAuthorizationDecision(request, decision);
  if (decision.decision !== 'allow') throw forbiddenError(attributes, decision.reason);
}

async function requestRemote(request: ApiRequest, remote: Remote, servers: AggregatedServers): Promise<PipelineResponse> {
  const { verb, resource, body, patchType, identity, signal, userAgent } = request;
  for (const part of [request.namespace, request.name]) {
    const faults = isPathSegmentName(part);
    if (faults.length > 0) throw badRequest(`invalid resource name ${JSON.stringify(part)}: [${faults.join(', ')}]`);
  }
  const remoteRequest = {
    method: methods[verb],
    path: uriOf(request),
    identity,
    headers: {
      ...(userAgent !== undefined && { 'user-agent': userAgent }),
      ...(body !== undefined && { 'content-type': patchType === undefined ? 'application/json' : patchTypes[patchType] }),
    },
    body: body === undefined ? undefined : Buffer.from(JSON.stringify(body)),
    signal,
  };
  if (verb === 'watch') return { kind: 'watch', resource, frames: framesOf(await servers.requests.stream(remote, remoteRequest), signal) };
  const { code, value } = await servers.requests.request(remote, remoteRequest);
  if (!isObject(value)) throw failure('InternalError', `the server of ${apiVersionOf(resource)} answered ${verb} without an object`);
  if (verb === 'list') return listResponseOf(value, resource);
  return {
    kind: 'object',
    code: code === 201 || code === 202 ? code : 200,
    item: new DerivedObject(withTypeMeta(value, resource), 0),
    warnings: [],
  };
}

function listResponseOf(value: Readonly<Record<string, unknown>>, resource: Resource): PipelineResponse {
  const { items, metadata } = value;
  const objects = Array.isArray(items) ? (items as unknown[]).filter((item): item is KubeObject => isObject(item)) : [];
  return {
    kind: 'list',
    resource,
    items: objects.map((object) => new DerivedObject(withTypeMeta(object, resource), 0)),
    metadata: (isObject(metadata) ? metadata : {}) as ListMeta,
    warnings: [],
  };
}

/** Returns the object with kind and apiVersion, which items of a typed list do not contain. */
const withTypeMeta = (object: KubeObject | Readonly<Record<string, unknown>>, resource: Resource): KubeObject =>
  (object.kind === undefined ? { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object } : object) as KubeObject;

/** Yields the frames of a watch. @throws the reason of the signal after an abort; StatusError ServiceUnavailable if the stream breaks */
async function* framesOf(body: AsyncIterable<Buffer>, signal: AbortSignal | undefined): AsyncGenerator<readonly WatchFrame[]> {
  try {
    yield* decodeRemoteWatch(body);
  } catch (error) {
    if (signal?.aborted === true) throw signal.reason;
    if (error instanceof StatusError) throw error;
    const message = errorText(error);
    throw new StatusError(failure('ServiceUnavailable', `the watch of an extension API server ended unexpectedly: ${message}`).status, {
      cause: error,
    });
  }
}
