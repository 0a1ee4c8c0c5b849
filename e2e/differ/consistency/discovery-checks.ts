import type { CorpusKind } from '../corpus/kinds.ts';
import { isFields, valueAt, type Fields } from '../request.ts';
import type { Probe } from './probe.ts';

const aggregated = 'application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList';

/** Aggregated discovery lists what the documents of the kind's version list, and OpenAPI v3 has a schema of the kind. */
export async function discoveryAgrees(probe: Probe): Promise<void> {
  const { kind } = probe;
  const { group, version } = kind.kind;
  const path = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const plain = await probe.get(path);
  const all = await probe.get(group === '' ? '/api' : '/apis', aggregated);
  const groupEntry = listAt(all.body, 'items').find((item) => (valueAt(item, 'metadata.name') ?? '') === group);
  const entry = listAt(groupEntry, 'versions').find((each) => valueAt(each, 'version') === version);
  const resource = listAt(entry, 'resources').find((each) => valueAt(each, 'resource') === kind.kind.resource);
  const resources = listAt(plain.body, 'resources').filter(isFields);
  const listed = resources.find(({ name }) => name === kind.kind.resource);
  probe.expectEqual('aggregated discovery', plain.request, [summaryOf(listed), aggregatedSummary(resource)]);
  const subresources = resources
    .filter(({ name }) => String(name).startsWith(`${kind.kind.resource}/`))
    .map(({ name, verbs }) => ({ name: String(name).split('/')[1], verbs }));
  const others = listAt(resource, 'subresources').map((each) => ({ name: valueAt(each, 'subresource'), verbs: valueAt(each, 'verbs') }));
  probe.expectEqual('subresources in aggregated discovery', plain.request, [sorted(subresources), sorted(others)]);
  await openApiContains(probe, kind, path);
}

const listAt = (value: unknown, path: string): readonly unknown[] => (valueAt(value, path) as readonly unknown[] | undefined) ?? [];
const sorted = (list: readonly { readonly name: unknown }[]) => list.toSorted((a, b) => (String(a.name) < String(b.name) ? -1 : 1));
const summaryOf = (resource: Fields | undefined): Fields => ({
  kind: resource?.['kind'],
  singular: resource?.['singularName'],
  verbs: resource?.['verbs'],
  namespaced: resource?.['namespaced'],
  shortNames: resource?.['shortNames'] ?? [],
  categories: resource?.['categories'] ?? [],
});
const aggregatedSummary = (resource: unknown): Fields => ({
  kind: valueAt(resource, 'responseKind.kind'),
  singular: valueAt(resource, 'singularResource'),
  verbs: valueAt(resource, 'verbs'),
  namespaced: valueAt(resource, 'scope') === 'Namespaced',
  shortNames: valueAt(resource, 'shortNames') ?? [],
  categories: valueAt(resource, 'categories') ?? [],
});

async function openApiContains(probe: Probe, { kind, apiVersion }: CorpusKind, path: string): Promise<void> {
  const document = await probe.get(`/openapi/v3${path}`);
  const schemas = Object.values((valueAt(document.body, 'components.schemas') ?? {}) as Fields);
  const found = schemas.some((schema) =>
    listAt(schema, 'x-kubernetes-group-version-kind').some(
      (each) => valueAt(each, 'kind') === kind.kind && valueAt(each, 'version') === kind.version && valueAt(each, 'group') === kind.group,
    ),
  );
  probe.expectEqual(`schema of ${apiVersion} ${kind.kind} in OpenAPI v3`, document.request, [true, found]);
}
