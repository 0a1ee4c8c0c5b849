import { isObject } from '@oarlock/api/json';
import { isPathSegmentName } from '@oarlock/api/names';
import type { KubeObject, ListMeta } from '@oarlock/api/object';
import { apiVersionOf, type Resource } from '@oarlock/api/resource';
import { badRequest, failure, StatusError } from '@oarlock/api/status';
import type { Authorizer } from '@oarlock/spi/authz';
import type { PatchType } from '@oarlock/spi/client';
import type { ApiRequest, ApiVerb } from '@oarlock/spi/loopback';
import { uriOf } from '../audit/audit-objects.ts';
import { annotateDecision, attributesOf, decide, refusal } from '../authorization.ts';
import type { Pipeline } from '../pipeline.ts';
import type { PipelineResponse, WatchFrame } from '../response.ts';
import { View } from '../watch-cache/item.ts';
import type { Aggregator, Remote } from './aggregator.ts';
import { remoteFrames } from './remote-frames.ts';

type Pipe = Pick<Pipeline, 'handle'>;
type Servers = Pick<Aggregator, 'findGroup' | 'requests'>;

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
 * The pipeline for callers in process, with the kinds of other API servers: who asks and whether they may is settled here as over HTTP, the rest by
 * the server that has them.
 */
export function withRemoteKinds(pipeline: Pipe, servers: Servers, authz: readonly Authorizer[]): Pipe {
  return {
    async handle(request) {
      const { group, version } = request.resource;
      const remote = servers.findGroup(group, version);
      if (remote === undefined) return pipeline.handle(request);
      await authorized(request, authz);
      return answered(request, remote, servers);
    },
  };
}

/** @throws StatusError Forbidden */
async function authorized(request: ApiRequest, authz: readonly Authorizer[]): Promise<void> {
  const attributes = attributesOf(request);
  const decision = await decide(authz, attributes);
  annotateDecision(request, decision);
  if (decision.decision !== 'allow') throw refusal(attributes, decision.because);
}

async function answered(request: ApiRequest, remote: Remote, servers: Servers): Promise<PipelineResponse> {
  const { verb, resource, body, patchType, identity, signal, userAgent } = request;
  for (const part of [request.namespace, request.name]) {
    const faults = isPathSegmentName(part);
    if (faults.length > 0) throw badRequest(`invalid resource name ${JSON.stringify(part)}: [${faults.join(', ')}]`);
  }
  const asked = {
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
  if (verb === 'watch') return { kind: 'watch', resource, frames: framesOf(await servers.requests.follow(remote, asked), signal) };
  const { code, value } = await servers.requests.ask(remote, asked);
  if (!isObject(value)) throw failure('InternalError', `the server of ${apiVersionOf(resource)} answered a ${verb} with no object`);
  if (verb === 'list') return listOf(value, resource);
  return { kind: 'object', code: code === 201 || code === 202 ? code : 200, item: new View(typed(value, resource), 0), warnings: [] };
}

function listOf(value: Readonly<Record<string, unknown>>, resource: Resource): PipelineResponse {
  const { items, metadata } = value;
  const objects = Array.isArray(items) ? (items as unknown[]).filter((item): item is KubeObject => isObject(item)) : [];
  return {
    kind: 'list',
    resource,
    items: objects.map((object) => new View(typed(object, resource), 0)),
    metadata: (isObject(metadata) ? metadata : {}) as ListMeta,
    warnings: [],
  };
}

/** Items of a typed list come without their kind. */
const typed = (object: KubeObject | Readonly<Record<string, unknown>>, resource: Resource): KubeObject =>
  (object.kind === undefined ? { apiVersion: apiVersionOf(resource), kind: resource.kind, ...object } : object) as KubeObject;

/** Whoever gave up is told its own reason; a stream that breaks off is a server that cannot be reached. */
async function* framesOf(body: AsyncIterable<Buffer>, signal: AbortSignal | undefined): AsyncGenerator<readonly WatchFrame[]> {
  try {
    yield* remoteFrames(body);
  } catch (error) {
    if (signal?.aborted === true) throw signal.reason;
    if (error instanceof StatusError) throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw new StatusError(failure('ServiceUnavailable', `the watch of another API server broke off: ${message}`).status, { cause: error });
  }
}
