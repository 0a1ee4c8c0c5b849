import type { KubeObject } from '@oarlock/api/object';
import { componentStatuses } from '@oarlock/api/resources';
import { notFound } from '@oarlock/api/status';
import type { Health } from '@oarlock/spi/role';
import { errorText } from '@oarlock/primitives/error-text';
import type { RequestContext } from '../../request/request-context.ts';
import { parseListOptions } from '../../../registry/list-options.ts';
import type { EncodedObject, PipelineResponse } from '../../request/response.ts';
import { DerivedObject } from '../../../watch-cache/item.ts';
import { selection, type FieldReaders } from '../../../watch-cache/selection.ts';
import { objectResponse } from './responses.ts';

/** A control plane component that componentstatuses reports: `scheduler`, `controller-manager`, `etcd-0`. */
export interface Component {
  readonly name: string;
  check(): Health | Promise<Health>;
}

const fieldReaders: FieldReaders = { 'metadata.name': ({ metadata }) => metadata?.name ?? '' };
const deprecationMessage = 'v1 ComponentStatus is deprecated in v1.19+';

/**
 * Handles GET of the collection componentstatuses. The health of every component is checked for each request; the statuses are not stored and cannot
 * be watched.
 */
export async function listComponentStatuses(components: readonly Component[], context: RequestContext): Promise<PipelineResponse> {
  const { request } = context;
  context.warn(deprecationMessage);
  if (request.verb === 'get') {
    const component = components.find(({ name }) => name === request.name);
    if (component === undefined) throw notFound(componentStatuses, request.name);
    return objectResponse(await componentStatusOf(component), context, { code: 200 });
  }
  const { labels, fields } = parseListOptions(request.query, fieldReaders);
  const { key, matches } = selection({
    namespaced: false,
    namespace: '',
    labels,
    fields,
    readers: fieldReaders,
    indexField: undefined,
  });
  const statuses = await Promise.all(components.map((component) => componentStatusOf(component)));
  const items = statuses
    .filter((object) => (key === undefined || object.metadata?.name === key) && matches?.(object) !== false)
    .map((object): EncodedObject => new DerivedObject(object, 0));
  return { kind: 'list', resource: componentStatuses, items, metadata: {}, warnings: context.warnings };
}

async function componentStatusOf({ name, check }: Component): Promise<KubeObject> {
  let health: Health;
  try {
    health = await check();
  } catch (error) {
    health = { healthy: false, reason: errorText(error) };
  }
  const condition = health.healthy
    ? { type: 'Healthy', status: 'True', message: 'ok' }
    : { type: 'Healthy', status: 'False', message: health.reason };
  return { kind: 'ComponentStatus', apiVersion: 'v1', metadata: { name }, ...{ conditions: [condition] } } as KubeObject;
}
