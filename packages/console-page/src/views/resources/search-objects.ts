import { isApiError, type ApiClient, type ObjectList } from '../../api/client.ts';
import { pathOf, type ApiResource } from '../../api/resources.ts';

export interface FoundObject {
  readonly resource: ApiResource;
  readonly name: string;
  readonly namespace: string;
}

/** The number of kinds that are searched at the same time. */
const parallel = 4;
const pageSize = 500;
/** The number of pages of one kind that are searched, so that a search in a large cluster ends. */
const maxPages = 20;
export const maxFound = 200;
const metadataAccept = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json';

export interface SearchOptions {
  readonly client: ApiClient;
  readonly resources: readonly ApiResource[];
  readonly namespace: string;
  /** A part of the name, in lower case. */
  readonly part: string;
  readonly signal: AbortSignal;
  onProgress(found: readonly FoundObject[], searchedKinds: number): void;
}

/** Returns the resources to search: without events and reviews, and each only in one group. */
export const searchable = (resources: readonly ApiResource[]): readonly ApiResource[] =>
  resources.filter(
    ({ verbs, resource, group }) =>
      verbs.includes('list') && verbs.includes('watch') && resource !== 'events' && group !== 'metrics.k8s.io',
  );

/** Searches the names of all objects page by page, and reports what was found so far. Kinds that the user may not list are skipped. */
export async function searchObjects({ client, resources, namespace, part, signal, onProgress }: SearchOptions): Promise<void> {
  const queue = [...searchable(resources)];
  const found: FoundObject[] = [];
  let searched = 0;
  const searchKind = async (resource: ApiResource): Promise<void> => {
    let next: string | undefined;
    for (let page = 0; page < maxPages && found.length < maxFound; page += 1) {
      const { items, metadata }: ObjectList = await client.json(pathOf(resource, resource.namespaced ? namespace : ''), {
        accept: metadataAccept,
        query: { limit: pageSize, continue: next },
        signal,
      });
      for (const { metadata: each } of items)
        if (each.name.toLowerCase().includes(part)) found.push({ resource, name: each.name, namespace: each.namespace ?? '' });
      next = metadata.continue;
      if (next === undefined || next === '') return;
    }
  };
  const worker = async (): Promise<void> => {
    for (let resource = queue.shift(); resource !== undefined && found.length < maxFound; resource = queue.shift()) {
      try {
        await searchKind(resource);
      } catch (error) {
        if (!isApiError(error)) throw error;
      }
      searched += 1;
      onProgress(found.slice(0, maxFound), searched);
    }
  };
  await Promise.all(Array.from({ length: parallel }, worker));
}
