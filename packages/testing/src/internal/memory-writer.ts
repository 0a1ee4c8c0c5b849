import { applyDefaults } from '@oarlock/api/defaulting/apply-defaults';
import { gvkOf } from '@oarlock/api/kinds';
import { deepFreeze, objectKey, type KubeObject, type ObjectKey } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import { alreadyExists, badRequest, conflict, failure, forbidden, notFound, objectModified } from '@oarlock/api/status';
import { formatTime } from '@oarlock/api/values/time';
import { namespaces } from '@oarlock/api/resources';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { Clock } from '@oarlock/primitives/clock';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { MemoryFieldManagers } from './memory-field-managers.ts';
import { applyMemoryPatch } from './memory-patch.ts';
import type { MemoryStore } from './memory-store.ts';
import {
  gracePeriod,
  hasPendingDeletion,
  prepareCreate,
  prepareUpdate,
  propagationFinalizers,
  sameContent,
  type DeleteBody,
  type Draft,
} from './memory-strategy.ts';

const suffixLetters = 'bcdfghjklmnpqrstvwxz2456789';
const keyOf = ({ namespace, name }: Pick<ApiRequest, 'namespace' | 'name'>): ObjectKey =>
  namespace === '' ? name : `${namespace}/${name}`;

/** Performs the writes of the memory API, each atomically. */
export class MemoryWriter {
  readonly #store: MemoryStore;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #defaults: boolean;
  readonly #fieldManagers: MemoryFieldManagers;
  #uids = 0;

  constructor(
    store: MemoryStore,
    { clock, random, defaults }: { readonly clock: Clock; readonly random: () => number; readonly defaults: boolean },
  ) {
    this.#store = store;
    this.#clock = clock;
    this.#random = random;
    this.#defaults = defaults;
    this.#fieldManagers = new MemoryFieldManagers(store);
  }

  read(request: ApiRequest): KubeObject {
    const object = this.#existing(request);
    return request.subresource === 'scale' ? scaleOf(object) : object;
  }

  create(request: ApiRequest): KubeObject {
    if (request.subresource !== '') return this.#createUnder(request);
    const { resource, namespace, query, spanContext } = request;
    const draft = this.#defaulted(draftOf(request.body));
    if (resource.namespaced) {
      draft.metadata.namespace ??= namespace;
      if (draft.metadata.namespace !== namespace)
        throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
      this.#rejectTerminating(resource, namespace, draft.metadata.name ?? '');
    } else delete draft.metadata.namespace;
    if (!draft.metadata.name) {
      if (!draft.metadata.generateName)
        throw failure('Invalid', `${resource.kind} "" is invalid: metadata.name: Required value: name or generateName is required`);
      draft.metadata.name = `${draft.metadata.generateName}${this.#suffix()}`;
    }
    if (this.#store.get(resource, objectKey(draft)) !== undefined) throw alreadyExists(resource, draft.metadata.name);
    delete draft.metadata.deletionTimestamp;
    delete draft.metadata.deletionGracePeriodSeconds;
    delete draft.metadata.generation;
    prepareCreate(resource, draft);
    draft.metadata.uid = this.#uid();
    draft.metadata.creationTimestamp = formatTime(this.#clock.now());
    return this.#put(resource, { draft, dryRun: query['dryRun'], spanContext });
  }

  update(request: ApiRequest): KubeObject {
    const current = this.#existing(request);
    const draft = draftOf(request.body);
    return request.subresource === 'scale' ? this.#scale(request, current, draft) : this.#replace(request, current, draft);
  }

  patch(request: ApiRequest): KubeObject {
    if (request.patchType === 'apply' && request.subresource !== 'scale') return this.#apply(request);
    const current = this.#existing(request);
    const from = request.subresource === 'scale' ? scaleOf(current) : current;
    const draft = draftOf(applyMemoryPatch(from, request.patchType ?? 'merge', request.body));
    return request.subresource === 'scale' ? this.#scale(request, current, draft) : this.#replace(request, current, draft);
  }

  #apply(request: ApiRequest): KubeObject {
    const { resource, subresource, namespace, name } = request;
    const current = this.#store.get(resource, keyOf(request));
    if (current === undefined && subresource !== '') throw notFound(resource, name);
    const applied = this.#fieldManagers.apply(request, current, this.#clock.now());
    if (current !== undefined) return applied === current ? current : this.#replace(request, current, draftOf(applied));
    const metadata = { ...applied.metadata, name, ...(namespace !== '' && { namespace }) };
    return this.create({ ...request, verb: 'create', body: { ...applied, metadata } });
  }

  delete(request: ApiRequest): KubeObject {
    const { resource, name, query, spanContext } = request;
    const current = this.#existing(request);
    const options = (request.body ?? {}) as DeleteBody;
    const { preconditions } = options;
    if (preconditions?.uid !== undefined && preconditions.uid !== current.metadata?.uid) {
      throw conflict(
        resource,
        name,
        `Precondition failed: UID in precondition: ${preconditions.uid}, UID in object meta: ${current.metadata?.uid}`,
      );
    }
    if (preconditions?.resourceVersion !== undefined && preconditions.resourceVersion !== current.metadata?.resourceVersion) {
      throw conflict(
        resource,
        name,
        `Precondition failed: ResourceVersion in precondition: ${preconditions.resourceVersion}, ResourceVersion in object meta: ${current.metadata?.resourceVersion}`,
      );
    }
    const dryRun = query['dryRun'] ?? options.dryRun?.[0];
    const draft = draftOf(current);
    const finalizers = propagationFinalizers(draft.metadata.finalizers ?? [], options);
    if (finalizers.length > 0) draft.metadata.finalizers = finalizers;
    else delete draft.metadata.finalizers;
    const began = draft.metadata.deletionTimestamp !== undefined;
    const requested = gracePeriod(resource, current, options.gracePeriodSeconds);
    // a repeated deletion can shorten the grace period, not extend it
    const grace = began ? Math.min(requested, draft.metadata.deletionGracePeriodSeconds ?? 0) : requested;
    if (grace === 0 && !hasPendingDeletion(draft))
      return dryRun === undefined ? (this.purge(resource, objectKey(current), spanContext) ?? current) : current;
    if (!began || grace !== draft.metadata.deletionGracePeriodSeconds) {
      const since = began
        ? Date.parse(draft.metadata.deletionTimestamp ?? '') - (draft.metadata.deletionGracePeriodSeconds ?? 0) * 1000
        : this.#clock.now();
      draft.metadata.deletionTimestamp = formatTime(since + grace * 1000);
      draft.metadata.deletionGracePeriodSeconds = grace;
      if (!began && draft.metadata.generation !== undefined) draft.metadata.generation += 1;
    }
    if (groupResource(resource) === 'namespaces') draft.status = { ...(draft.status as object | undefined), phase: 'Terminating' };
    return sameContent(draft, current) ? current : this.#put(resource, { draft, dryRun, spanContext });
  }

  purge(resource: Resource, key: ObjectKey, spanContext: SpanContext | undefined): KubeObject | undefined {
    return this.#store.remove(resource, {
      key,
      last: (before, resourceVersion) => deepFreeze({ ...before, metadata: { ...before.metadata, resourceVersion } }),
      spanContext,
    });
  }

  seed(resource: Resource, object: KubeObject): KubeObject {
    const draft = draftOf(object);
    draft.apiVersion ??= resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
    draft.kind ??= resource.kind;
    draft.metadata.uid ??= this.#uid();
    draft.metadata.creationTimestamp ??= formatTime(this.#clock.now());
    if (draft.spec !== undefined) draft.metadata.generation ??= 1;
    return this.#put(resource, { draft, dryRun: undefined, spanContext: undefined });
  }

  #replace({ resource, subresource, name, query, spanContext }: ApiRequest, current: KubeObject, sentDraft: Draft): KubeObject {
    const draft = this.#defaulted(sentDraft);
    const sent = draft.metadata;
    if (sent.uid !== undefined && sent.uid !== current.metadata?.uid) {
      throw conflict(resource, name, `Precondition failed: UID in precondition: ${sent.uid}, UID in object meta: ${current.metadata?.uid}`);
    }
    if (sent.resourceVersion !== undefined && sent.resourceVersion !== '' && sent.resourceVersion !== current.metadata?.resourceVersion)
      throw conflict(resource, name, objectModified);
    if (sent.name !== undefined && sent.name !== name)
      throw badRequest(`the name of the object (${sent.name}) does not match the name on the URL (${name})`);
    prepareUpdate(resource, { subresource, draft, current });
    if (sameContent(draft, current)) return current;
    const leaves =
      draft.metadata.deletionTimestamp !== undefined &&
      (draft.metadata.deletionGracePeriodSeconds ?? 0) === 0 &&
      !hasPendingDeletion(draft);
    if (!leaves) return this.#put(resource, { draft, dryRun: query['dryRun'], spanContext });
    if (query['dryRun'] === undefined) this.purge(resource, objectKey(current), spanContext);
    return deepFreeze(draft);
  }

  #scale(request: ApiRequest, current: KubeObject, scale: Draft): KubeObject {
    const draft = draftOf(current);
    if (scale.metadata.resourceVersion) draft.metadata.resourceVersion = scale.metadata.resourceVersion;
    draft.spec = { ...(draft.spec as object | undefined), replicas: (scale.spec as { replicas?: number } | undefined)?.replicas ?? 0 };
    return scaleOf(this.#replace({ ...request, subresource: '' }, current, draft));
  }

  #createUnder(request: ApiRequest): KubeObject {
    const { resource, subresource, name, namespace, spanContext, query } = request;
    const current = this.#existing(request);
    const body = draftOf(request.body);
    switch (`${groupResource(resource)}/${subresource}`) {
      case 'pods/binding': {
        const draft = draftOf(current);
        const spec = draft.spec as { nodeName?: string } | undefined;
        const node = (body['target'] as { name?: string } | undefined)?.name ?? '';
        if (draft.metadata.deletionTimestamp !== undefined)
          throw conflict({ group: '', resource: 'pods/binding' }, name, `pod ${name} is being deleted, cannot be assigned to a host`);
        if (spec?.nodeName)
          throw conflict({ group: '', resource: 'pods/binding' }, name, `pod ${name} is already assigned to node "${spec.nodeName}"`);
        draft.spec = { ...spec, nodeName: node };
        const status = draft.status as { conditions?: { type: string }[] } | undefined;
        const conditions = (status?.conditions ?? []).filter(({ type }) => type !== 'PodScheduled');
        draft.status = {
          ...status,
          conditions: [
            ...conditions,
            { type: 'PodScheduled', status: 'True', lastProbeTime: null, lastTransitionTime: formatTime(this.#clock.now()) },
          ],
        };
        this.#put(resource, { draft, dryRun: query['dryRun'], spanContext });
        return success;
      }
      case 'pods/eviction':
        this.delete({ ...request, subresource: '', body: body['deleteOptions'] });
        return success;
      case 'serviceaccounts/token': {
        const seconds = (body.spec as { expirationSeconds?: number } | undefined)?.expirationSeconds ?? 3600;
        const token = `token:${namespace}:${name}:${++this.#uids}`;
        return deepFreeze({ ...body, status: { token, expirationTimestamp: formatTime(this.#clock.now() + seconds * 1000) } });
      }
      default:
        throw notFound(resource, `${name}/${subresource}`);
    }
  }

  #put(
    resource: Resource,
    {
      draft,
      dryRun,
      spanContext,
    }: { readonly draft: Draft; readonly dryRun: string | undefined; readonly spanContext: SpanContext | undefined },
  ): KubeObject {
    if (dryRun !== undefined) return deepFreeze(draft);
    return this.#store.put(
      resource,
      (resourceVersion) => deepFreeze({ ...draft, metadata: { ...draft.metadata, resourceVersion } }),
      spanContext,
    );
  }

  #existing(request: ApiRequest): KubeObject {
    const object = this.#store.get(request.resource, keyOf(request));
    if (object === undefined) throw notFound(request.resource, request.name);
    return object;
  }

  #rejectTerminating(resource: Resource, namespace: string, name: string): void {
    if (this.#store.get(namespaces, namespace)?.metadata?.deletionTimestamp === undefined) return;
    const rejection = forbidden(resource, name, `unable to create new content in namespace ${namespace} because it is being terminated`);
    const causes = [{ reason: 'NamespaceTerminating', message: `namespace ${namespace} is being terminated`, field: 'metadata.namespace' }];
    throw failure('Forbidden', rejection.message, { ...rejection.status.details, causes });
  }

  #defaulted(draft: Draft): Draft {
    return this.#defaults ? draftOf(applyDefaults(gvkOf(draft), draft)) : draft;
  }
  #uid(): string {
    return `00000000-0000-4000-8000-${String(++this.#uids).padStart(12, '0')}`;
  }
  #suffix(): string {
    return Array.from({ length: 5 }, () => suffixLetters[Math.floor(this.#random() * suffixLetters.length)]).join('');
  }
}

const success = deepFreeze({ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 }) as KubeObject;

function draftOf(body: unknown): Draft {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw badRequest('the request has no object');
  const copy = structuredClone(body) as Draft;
  copy.metadata ??= {};
  return copy;
}

function scaleOf(object: KubeObject): KubeObject {
  const { metadata, spec, status } = object as Draft;
  const { name, namespace, uid, resourceVersion, creationTimestamp } = metadata;
  const labels = (spec as { selector?: { matchLabels?: Record<string, string> } } | undefined)?.selector?.matchLabels ?? {};
  return deepFreeze({
    apiVersion: 'autoscaling/v1',
    kind: 'Scale',
    metadata: { name, namespace, uid, resourceVersion, creationTimestamp },
    spec: { replicas: (spec as { replicas?: number } | undefined)?.replicas ?? 0 },
    status: {
      replicas: (status as { replicas?: number } | undefined)?.replicas ?? 0,
      selector: Object.entries(labels)
        .map(([key, value]) => `${key}=${value}`)
        .join(','),
    },
  }) as KubeObject;
}
