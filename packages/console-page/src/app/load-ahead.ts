import type { ApiClient } from '../api/client.ts';
import { pathOf } from '../api/resources.ts';
import { firstPageQuery, tableAccept } from '../api/table-store.ts';
import { groupOfSegment } from './links.ts';
import { matchPath, type Location } from './router.ts';

interface LoadableView {
  readonly id: string;
  readonly path: string;
  load(): Promise<unknown>;
}

/**
 * Begins to load what the view of an address will need, while the session and the resources are not known yet: the module of the view, and the first page of
 * a table. What the user may not read is rejected as it would be later.
 */
export function loadAhead(client: ApiClient, { path, query }: Location, views: readonly LoadableView[]): void {
  const view = views.find((each) => matchPath(each.path, path) !== undefined);
  view?.load().catch(() => undefined); // the frame loads it again and reports the failure
  const params = view?.id === 'table' ? matchPath(view.path, path) : undefined;
  if (params === undefined) return;
  const { group = '', version = '', resource = '' } = params;
  const { ns = '', labels = '', fields = '' } = query;
  client.prefetch(pathOf({ group: groupOfSegment(group), version, resource }, ns), {
    accept: tableAccept,
    query: firstPageQuery({ labelSelector: labels, fieldSelector: fields }),
  });
}
